"""Synthetic test data: a small run's work directory with raw files in the bundle's own format.

Nothing here was measured. Times are drawn from a seeded generator around plausible values, and every
host says so (`hostname: synthetic-test-data`). The module imports nothing of the code under test, so a
mistake in record, bundle or verify cannot be cancelled by the same mistake here.

    make_work_dir(tmp_path / ".work" / RUN_ID) -> that path, with data/ in it
    python fixtures_make.py DIR                 -> the same, from a shell
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUN_ID = "20260301T120000Z-ab12cd"
T0_NS = 1_772_366_400_000_000_000  # 2026-03-01T12:00:00Z
MONO0_NS = 5_000_000_000_000
BOOT_ID = "00000000-1111-4222-8333-444444444444"
HOSTNAME = "synthetic-test-data"
MS = 1_000_000

#: suite id -> (keygen, sign, verify, encaps, decaps) in milliseconds; invented, near x86 magnitudes.
SUITES: dict[str, tuple[float, float, float, float, float]] = {
    "cs-mlkem768-aesgcm-mldsa65": (0.031, 0.110, 0.045, 0.033, 0.036),
    "cs-mlkem512-chacha20poly1305-falcon512": (0.022, 0.310, 0.060, 0.025, 0.026),
    "cs-classicmceliece348864-ascon128a-mldsa44": (46.0, 0.080, 0.030, 0.040, 9.0),
}
#: KEM token -> (public key, ciphertext), SIG token -> signature, bytes (primitives-2026-01 §9).
KEM_BYTES = {
    "mlkem512": (800, 768),
    "mlkem768": (1184, 1088),
    "mlkem1024": (1568, 1568),
    "hqc128": (2249, 4433),
    "hqc192": (4522, 8978),
    "hqc256": (7245, 14421),
    "classicmceliece348864": (261120, 96),
    "classicmceliece460896": (524160, 156),
    "classicmceliece8192128": (1357824, 208),
}
SIG_BYTES = {
    "mldsa44": 2420,
    "mldsa65": 3309,
    "mldsa87": 4627,
    "falcon512": 655,
    "falcon1024": 1265,
    "sphincs128s": 7856,
    "sphincs192s": 16224,
    "sphincs256s": 29792,
}
#: MAVLink message -> (frames a second, UDP payload bytes): the measured 320 Hz interval mix of
#: arducopter-traffic.json in round figures, plus the answers to a 2 Hz TIMESYNC probe.
MIX: dict[str, tuple[int, int]] = {
    "ATTITUDE": (100, 40),
    "LOCAL_POSITION_NED": (100, 40),
    "RAW_IMU": (50, 41),
    "SERVO_OUTPUT_RAW": (50, 24),
    "GLOBAL_POSITION_INT": (10, 40),
    "VFR_HUD": (9, 31),
    "HEARTBEAT": (1, 21),
    "TIMESYNC": (2, 28),
}
BULK_PPS = 600
BULK_SIZE_BYTES = 1200
SEAL_OVERHEAD_BYTES = 24
LEDGER_HEADER = ["direction", "epoch", "sequence", "size_bytes", "t_in_ns", "t_out_ns", "window"]


@dataclass
class CellClock:
    """Where the synthetic cell stands in realtime; monotonic time is a fixed offset away."""

    now_ns: int
    events: list[dict[str, Any]] = field(default_factory=list)

    def mono(self, at_ns: int | None = None) -> int:
        return (self.now_ns if at_ns is None else at_ns) - T0_NS + MONO0_NS

    def event(self, host: str, kind: str, at_ns: int | None = None, **more: Any) -> None:
        at = self.now_ns if at_ns is None else at_ns
        row: dict[str, Any] = {"t_ns": at, "host": host, "event": kind, **more}
        if host != "controller":
            row["mono_ns"] = self.mono(at)
        self.events.append(row)


#: name, kind, start and end in microseconds after the drone's connect
Step = tuple[str, str, float, float]


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def make_work_dir(
    work_dir: Path,
    *,
    suites: tuple[str, ...] = tuple(SUITES),
    repetitions: int = 1,
    session_s: float = 1.0,
    handshakes: int = 8,
    bulk: bool = True,
    seed: int = 1,
) -> Path:
    """Write one synthetic run under `work_dir`/data and return `work_dir`."""
    rng = random.Random(seed)
    data = work_dir / "data"
    (data / "hosts").mkdir(parents=True)
    scenario = _scenario(suites, repetitions, session_s, handshakes, bulk)
    providers = _providers()
    scenario_text = json.dumps(scenario, indent=1) + "\n"  # JSON is YAML
    (data / "scenario.effective.yml").write_text(scenario_text, encoding="utf-8")
    _write_json(data / "providers.json", providers)
    for role in ("drone", "gcs"):
        _write_json(data / "hosts" / f"{role}.json", _hello(role, suites))
    _write_json(data / "hosts" / "controller.json", {"host": _host("controller"), "python": "3.11.7"})

    cells = _plan_cells(scenario, providers, suites, repetitions)
    rng.shuffle(cells)
    for position, cell in enumerate(cells):
        cell["position"] = position
    _write_json(
        data / "plan.json",
        {
            "schema_version": "pqlab/plan/v1",
            "run_id": work_dir.name if work_dir.name[:1] == "2" else RUN_ID,
            "scenario_sha256": hashlib.sha256(scenario_text.encode()).hexdigest(),
            "created_utc": "2026-03-01T11:59:59Z",
            "seed": 7,
            "cells": cells,
            "budget": {"cells_count": len(cells), "eta_s": 4.0 * len(cells)},
        },
    )
    now = T0_NS + 500 * MS
    influx: list[dict[str, Any]] = []
    for cell in cells:
        now, series = _write_cell(data / "cells" / cell["cell_id"], cell, scenario, now, rng)
        influx.append({"cell_id": cell["cell_id"], "series": series})
        now += 20 * MS
    _write_json(
        data / "run.json",
        {
            "run_id": RUN_ID,
            "started_ns": T0_NS,
            "ended_ns": now + 100 * MS,
            "controller": {"hostname": HOSTNAME, "controller_on_dut": True},
            "pqlab_version": "0.1.0",
            "loadavg_start": [0.1, 0.1, 0.1],
            "loadavg_end": [0.4, 0.2, 0.1],
            "command": ["pqlab", "run", "fixture"],
            "exit_verdict": "pass",
            "influx": {"available": True, "cells": influx},
        },
    )
    return work_dir


def make_keys(keys_dir: Path, seed: int = 99) -> list[Path]:
    """Write three synthetic secret files (raw, PEM-like, JSON with base64) and return their paths."""
    rng = random.Random(seed)
    keys_dir.mkdir(parents=True)
    raw = keys_dir / "psk.key"
    raw.write_bytes(rng.randbytes(32))
    pem = keys_dir / "client.key"
    body = hashlib.sha256(b"synthetic").hexdigest()
    pem.write_text(f"-----BEGIN TEST BLOCK-----\n{body}\n-----END TEST BLOCK-----\n", encoding="ascii")
    signing = keys_dir / "signing.key"
    signing.write_bytes(rng.randbytes(4032))
    return [raw, pem, signing]


def _scenario(
    suites: tuple[str, ...], repetitions: int, session_s: float, handshakes: int, bulk: bool
) -> dict[str, Any]:
    return {
        "schema": "pqlab/scenario/v1",
        "name": "fixture",
        "title": "Synthetic test data, measured nowhere",
        "ring": "lab",
        "seed": 7,
        "suites": list(suites),
        "repetitions": repetitions,
        "conditions": [{"name": "baseline", "detector": "none", "link": "none"}],
        "handshake": {"count": handshakes, "min_count": 5, "max_s": 20},
        "traffic": {"source": "auto", "profile": "intervals_320hz", "rate_hz": 320, "session_s": session_s},
        "bulk": {"size_bytes": BULK_SIZE_BYTES, "rates_pps": [BULK_PPS], "step_s": 1} if bulk else None,
        "ledger": True,
        "telemetry": {"rate_hz": 10, "power": "none"},
        "order": {"method": "blocked-random"},
    }


def _plan_cells(
    scenario: dict[str, Any], providers: dict[str, Any], suites: tuple[str, ...], repetitions: int
) -> list[dict[str, Any]]:
    condition = scenario["conditions"][0]
    settings = {
        **condition,
        **{key: scenario[key] for key in ("handshake", "traffic", "bulk", "ledger", "telemetry")},
    }
    ends = {"drone": providers["drone"], "gcs": providers["gcs"]}
    cells = []
    for repetition in range(repetitions):
        for suite_id in suites:
            key = canonical(
                {"condition": settings, "providers": ends, "repetition": repetition, "suite": suite_id}
            )
            cell_id = hashlib.sha256(key.encode()).hexdigest()[:16]
            cells.append(
                {
                    "cell_id": cell_id,
                    "suite_id": suite_id,
                    "condition": condition["name"],
                    "repetition": repetition,
                    "position": 0,
                    "block": repetition,
                    "seed": int(cell_id[:8], 16),
                }
            )
    return cells


def _providers() -> dict[str, Any]:
    end = {
        "python": "3.13.5",
        "openssl": "OpenSSL 3.5.1",
        "cryptography": "45.0.0",
        "liboqs": {"version": "0.13.0", "sha256": "11" * 32},
        "ascon_native": {"version": "0.1.0", "sha256": "22" * 32},
        "pqtunnel": {"version": "0.1.0", "tree_sha256": "33" * 32},
    }
    return {
        "drone": end,
        "gcs": json.loads(json.dumps(end)),
        "images": {"tunnel": "sha256:" + "44" * 32, "sitl": "sha256:" + "55" * 32},
        "traffic": {"source": "embedded", "pymavlink": "2.4.50"},
    }


def _host(role: str) -> dict[str, Any]:
    return {
        "machine": "x86_64",
        "cpu_model": "synthetic CPU",
        "cpu_count": 2,
        "cpu_features": ["aes", "avx2", "pclmulqdq"],
        "kernel": "6.1.0-synthetic",
        "hostname": HOSTNAME if role == "controller" else role,
        "board_revision": None,
        "boot_id": BOOT_ID,
        "in_container": role != "controller",
    }


def _primitives(suite: str) -> list[tuple[str, str]]:
    """(kind, token) of a suite id, which reads cs-{kem}-{aead}-{sig}."""
    _, kem, aead, sig = suite.split("-")
    return [("kem", kem), ("aead", aead), ("sig", sig)]


def _hello(role: str, suites: tuple[str, ...]) -> dict[str, Any]:
    return {
        "role": role,
        "agent_version": "0.1.0",
        "protocol_version": 1,
        "ring": "lab",
        "host": _host(role),
        "suites": {suite: {"status": "available", "reason": None} for suite in suites},
        "selftest": {
            "ok": True,
            "items": [
                {"name": name, "ok": True, "detail": "known answer"}
                for name in sorted(
                    {f"{kind}/{part}" for suite in suites for kind, part in _primitives(suite)}
                )
            ],
        },
        "sensors": [
            {"name": "thermal", "available": False, "reason": "no thermal zone"},
            {"name": "power", "available": False, "reason": "not asked for"},
            {"name": "steal", "available": True, "reason": None},
        ],
    }


def _write_cell(
    cell_dir: Path, cell: dict[str, Any], scenario: dict[str, Any], start_ns: int, rng: random.Random
) -> tuple[int, list[dict[str, Any]]]:
    (cell_dir / "logs").mkdir(parents=True)
    clock = CellClock(start_ns)
    clock.event("controller", "prepare", window=None)
    clock.now_ns += 30 * MS
    clock.event("drone", "prepare")
    clock.event("gcs", "prepare")
    clock.now_ns += 20 * MS
    spans = _handshake_window(clock, cell["suite_id"], scenario["handshake"]["count"], rng)

    rows: dict[str, list[list[Any]]] = {"drone": [], "gcs": []}
    counters: dict[str, dict[str, Any]] = {"drone": {"windows": {}}, "gcs": {"windows": {}}}
    traffic: dict[str, Any] = {"windows": {}}
    sequence = {"drone": 1, "gcs": 1}  # sequence 0 was the keepalive that follows the handshake
    clock.now_ns += 10 * MS
    _traffic_window(clock, scenario, rows, counters, traffic, sequence, rng)
    if scenario["bulk"]:
        clock.now_ns += 10 * MS
        _bulk_window(clock, scenario, rows, counters, traffic, sequence, rng)
    clock.now_ns += 30 * MS
    for role in ("drone", "gcs"):
        clock.event(role, "stop")
    clock.now_ns += 20 * MS
    clock.event("controller", "cell_end", window=None)

    for role in ("drone", "gcs"):
        counters[role] = _totals(counters[role]["windows"], role, scenario["handshake"]["count"])
        with (cell_dir / f"ledger.{role}.csv").open("w", newline="", encoding="ascii") as handle:
            writer = csv.writer(handle, lineterminator="\n")
            writer.writerow(LEDGER_HEADER)
            writer.writerows(rows[role])
        (cell_dir / "logs" / f"{role}.log").write_text("synthetic test data\n", encoding="utf-8")
    (cell_dir / "logs" / "controller.log").write_text("synthetic test data\n", encoding="utf-8")
    _write_ndjson(cell_dir / "spans.ndjson", spans)
    _write_ndjson(cell_dir / "events.ndjson", sorted(clock.events, key=lambda e: int(e["t_ns"])))
    _write_json(cell_dir / "counters.json", counters)
    _write_json(cell_dir / "traffic.json", traffic)
    influx_series = []
    for role in ("drone", "gcs"):
        series = _write_telemetry(cell_dir / f"telemetry.{role}.lp", role, start_ns, clock.now_ns, rng)
        influx_series += [
            {"series": k, "file_count": n, "influx_count": n} for k, n in sorted(series.items())
        ]
    return clock.now_ns, influx_series


def _handshake_window(
    clock: CellClock, suite_id: str, count: int, rng: random.Random
) -> list[dict[str, Any]]:
    clock.event("controller", "window_start", window="handshake_cold")
    spans: list[dict[str, Any]] = []
    for index in range(count):
        handshake_id = rng.randbytes(8).hex()
        clock.now_ns += 200_000
        spans += _one_handshake(clock, suite_id, handshake_id, index, rng)
    clock.now_ns += 300_000
    clock.event("controller", "window_end", window="handshake_cold")
    return spans


def _one_handshake(
    clock: CellClock, suite_id: str, handshake_id: str, index: int, rng: random.Random
) -> list[dict[str, Any]]:
    """Lay both hosts' steps on one timeline, in microseconds after the drone's connect."""
    keygen, sign, verify, encaps, decaps = (ms * 1e3 * rng.uniform(0.95, 1.1) for ms in SUITES[suite_id])
    drone: list[Step] = []
    gcs: list[Step] = []

    def run(rows: list[Step], at: float, steps: list[tuple[str, str, float]]) -> float:
        for name, kind, length in steps:
            rows.append((name, kind, at, at + length))
            at += length
        return at

    d = run(drone, 0.0, [("connect", "io", 60)])
    g = run(gcs, 40.0, [("challenge", "codec", 10), ("send_challenge", "io", 20)])
    d = run(drone, d, [("wait_challenge", "network_wait", g + 15 - d), ("hello", "codec", 20)])
    d = run(drone, d, [("send_hello", "io", 20)])
    g = run(gcs, g, [("wait_hello", "network_wait", d + 10 - g), ("check_hello", "kdf", 15)])
    g = run(gcs, g, [("keygen", "crypto", keygen), ("transcript", "codec", 12), ("sign", "crypto", sign)])
    g = run(gcs, g, [("send_server_hello", "io", 15)])
    d = run(drone, d, [("wait_server_hello", "network_wait", g + 10 - d), ("verify", "crypto", verify)])
    d = run(drone, d, [("encaps", "crypto", encaps), ("kdf", "kdf", 20), ("client_kem", "codec", 12)])
    d = run(drone, d, [("send_client_kem", "io", 15)])
    g = run(gcs, g, [("wait_client_kem", "network_wait", d + 10 - g), ("check_finished", "kdf", 10)])
    g = run(gcs, g, [("decaps", "crypto", decaps), ("kdf", "kdf", 20), ("finished", "kdf", 8)])
    g = run(gcs, g, [("send_finished", "io", 15)])
    d = run(drone, d, [("wait_finished", "network_wait", g + 10 - d), ("verify_finished", "kdf", 8)])
    drone.append(("handshake", "io", 0.0, d + 3))
    gcs.append(("handshake", "io", 40.0, g + 3))
    base = clock.mono()
    kem, sig = suite_id.split("-")[1], suite_id.split("-")[3]
    sizes = {"keygen": KEM_BYTES[kem][0], "encaps": KEM_BYTES[kem][1], "sign": SIG_BYTES[sig]}
    out = []
    for role, rows in (("drone", drone), ("gcs", gcs)):
        for name, kind, start, end in rows:
            out.append(
                {
                    "host": role,
                    "handshake_id": handshake_id,
                    "index": index,
                    "mode": "cold",
                    "suite_id": suite_id,
                    "step": name,
                    "start_ns": base + round(start * 1e3),
                    "end_ns": base + round(end * 1e3),
                    "clock": "monotonic",
                    "kind": kind,
                    **({"size_bytes": sizes[name]} if name in sizes else {}),
                }
            )
    clock.now_ns += round((d + 5) * 1e3)
    return out


def _datagram(
    rows: dict[str, list[list[Any]]],
    sender: str,
    sequence: dict[str, int],
    plain_bytes: int,
    at_ns: int,
    window: str,
    rng: random.Random,
) -> None:
    """One sealed datagram: a tx row at the sender and the rx row at the other end."""
    receiver = "gcs" if sender == "drone" else "drone"
    sent_ns = at_ns + rng.randrange(30_000, 60_000)
    arrived_ns = sent_ns + rng.randrange(15_000, 40_000)
    delivered_ns = arrived_ns + rng.randrange(30_000, 60_000)
    number, size = sequence[sender], plain_bytes + SEAL_OVERHEAD_BYTES
    rows[sender].append(["tx", 0, number, size, at_ns, sent_ns, window])
    rows[receiver].append(["rx", 0, number, size, arrived_ns, delivered_ns, window])
    sequence[sender] += 1


def _traffic_window(
    clock: CellClock,
    scenario: dict[str, Any],
    rows: dict[str, list[list[Any]]],
    counters: dict[str, dict[str, Any]],
    traffic: dict[str, Any],
    sequence: dict[str, int],
    rng: random.Random,
) -> None:
    session_ns = round(scenario["traffic"]["session_s"] * 1e9)
    clock.event("controller", "window_start", window="traffic")
    clock.now_ns += 5 * MS
    open_ns = clock.now_ns
    ticks = max(1, session_ns // (100 * MS))
    sent_sizes: dict[str, int] = {}
    down: list[tuple[int, int]] = []
    for tick in range(ticks):  # ten bursts a second, as a vehicle's scheduler makes them
        burst_ns = open_ns + tick * 100 * MS + 2 * MS
        frames: list[int] = []
        for rate_hz, size_bytes in MIX.values():
            due = (tick + 1) * rate_hz // 10 - tick * rate_hz // 10
            frames += [size_bytes] * due
        rng.shuffle(frames)
        down += [(burst_ns + i * 400_000, size) for i, size in enumerate(frames)]
    up = [(open_ns + (i + 1) * 300 * MS, 21 if i % 3 == 0 else 28) for i in range(session_ns // (320 * MS))]
    for at_ns, size in down:
        _datagram(rows, "drone", sequence, size, at_ns, "traffic", rng)
        sent_sizes[str(size)] = sent_sizes.get(str(size), 0) + 1
    for at_ns, size in up:
        _datagram(rows, "gcs", sequence, size, at_ns, "traffic", rng)
    clock.now_ns = open_ns + session_ns
    close_ns = clock.now_ns
    clock.now_ns += 8 * MS
    clock.event("controller", "window_end", window="traffic")
    down_bytes, up_bytes = sum(s for _, s in down), sum(s for _, s in up)
    _count(counters, "traffic", len(down), down_bytes, len(up), up_bytes, rng)
    traffic["windows"]["traffic"] = {
        "route": "mavproxy",
        "spec": {"source": "auto", "profile": "intervals_320hz", "rate_hz": 320, "seed": 7},
        "drone": {
            "source": "embedded",
            "open_ns": open_ns,
            "close_ns": close_ns,
            "source_report": {
                "ok": True,
                "source": "embedded",
                "sent": {
                    "count": len(down),
                    "bytes": down_bytes,
                    "first_ns": down[0][0],
                    "last_ns": down[-1][0],
                    "sizes": dict(sorted(sent_sizes.items())),
                },
                "received": {"count": len(up), "bytes": up_bytes, "corrupt": 0, "duplicate": 0, "missing": 0},
            },
        },
        "gcs": {
            "source": "uplink",
            "open_ns": open_ns - MS,
            "close_ns": close_ns + 4 * MS,
            "source_report": {
                "ok": True,
                "source": "uplink",
                "sent": {
                    "count": len(up),
                    "bytes": up_bytes,
                    "first_ns": up[0][0] if up else None,
                    "last_ns": up[-1][0] if up else None,
                    "sizes": {},
                },
                "received": {
                    "count": len(down),
                    "bytes": down_bytes,
                    "corrupt": 0,
                    "duplicate": 0,
                    "missing": 0,
                },
                "rtt_ms": [round(rng.uniform(1.0, 4.0), 3) for _ in up],
            },
        },
    }


def _bulk_window(
    clock: CellClock,
    scenario: dict[str, Any],
    rows: dict[str, list[list[Any]]],
    counters: dict[str, dict[str, Any]],
    traffic: dict[str, Any],
    sequence: dict[str, int],
    rng: random.Random,
) -> None:
    window = f"bulk-{BULK_PPS}"
    step_ns = round(scenario["bulk"]["step_s"] * 1e9)
    count = BULK_PPS * step_ns // 1_000_000_000
    clock.event("controller", "window_start", window=window)
    clock.now_ns += 5 * MS
    open_ns = clock.now_ns
    for index in range(count):
        _datagram(rows, "drone", sequence, BULK_SIZE_BYTES, open_ns + index * step_ns // count, window, rng)
    clock.now_ns = open_ns + step_ns
    close_ns = clock.now_ns
    clock.now_ns += 8 * MS
    clock.event("controller", "window_end", window=window)
    _count(counters, window, count, count * BULK_SIZE_BYTES, 0, 0, rng)
    zero = {"count": 0, "bytes": 0, "corrupt": 0, "duplicate": 0, "missing": 0}
    traffic["windows"][window] = {
        "route": "direct",
        "spec": {"source": "bulk", "rate_hz": BULK_PPS, "size_bytes": BULK_SIZE_BYTES, "seed": 7},
        "drone": {
            "source": "bulk",
            "open_ns": open_ns,
            "close_ns": close_ns,
            "source_report": {
                "ok": True,
                "source": "bulk",
                "sent": {
                    "count": count,
                    "bytes": count * BULK_SIZE_BYTES,
                    "first_ns": open_ns,
                    "last_ns": close_ns - step_ns // count,
                    "sizes": {str(BULK_SIZE_BYTES): count},
                },
                "received": zero,
            },
        },
        "gcs": {
            "source": "bulk",
            "open_ns": open_ns - MS,
            "close_ns": close_ns + 4 * MS,
            "source_report": {
                "ok": True,
                "source": "bulk",
                "sent": {"count": 0, "bytes": 0, "first_ns": None, "last_ns": None, "sizes": {}},
                "received": {**zero, "count": count, "bytes": count * BULK_SIZE_BYTES},
            },
        },
    }


HANDSHAKE_COUNTERS = (
    "started", "completed", "bad_version", "bad_length", "bad_mac", "unknown_suite", "policy",
    "bad_signature", "bad_finished", "timeout", "rate_limited", "half_open_limit", "keygens",
    "signatures", "decaps", "encaps", "verifies",
)  # fmt: skip
DATA_COUNTERS = (
    "plaintext_in", "plaintext_in_bytes", "plaintext_out", "plaintext_out_bytes", "plaintext_announce",
    "gated", "wrong_source", "oversize", "queue_full", "tx_data", "tx_data_bytes", "tx_keepalive",
    "rx_ok", "rx_ok_bytes", "rx_keepalive", "bad_header", "unknown_index", "auth_failed", "replay",
    "old_epoch", "seal_count", "seal_ns_total", "open_count", "open_ns_total",
)  # fmt: skip


def _count(
    counters: dict[str, dict[str, Any]],
    window: str,
    down: int,
    down_bytes: int,
    up: int,
    up_bytes: int,
    rng: random.Random,
) -> None:
    digests = {"down": f"{rng.getrandbits(64):016x}", "up": f"{rng.getrandbits(64) if up else 0:016x}"}
    for role in ("drone", "gcs"):
        sent, sent_bytes = (down, down_bytes) if role == "drone" else (up, up_bytes)
        got, got_bytes = (up, up_bytes) if role == "drone" else (down, down_bytes)
        row: dict[str, Any] = dict.fromkeys(DATA_COUNTERS, 0)
        row |= {
            "plaintext_in": sent, "plaintext_in_bytes": sent_bytes,
            "plaintext_out": got, "plaintext_out_bytes": got_bytes,
            "tx_data": sent, "tx_data_bytes": sent_bytes + sent * SEAL_OVERHEAD_BYTES, "tx_keepalive": 1,
            "rx_ok": got, "rx_ok_bytes": got_bytes + got * SEAL_OVERHEAD_BYTES, "rx_keepalive": 1,
            "seal_count": sent, "seal_ns_total": sent * 2_400,
            "open_count": got, "open_ns_total": got * 2_600,
            "digest_tx": digests["down" if role == "drone" else "up"],
            "digest_rx": digests["up" if role == "drone" else "down"],
        }  # fmt: skip
        counters[role]["windows"][window] = row


def _totals(windows: dict[str, Any], role: str, handshakes: int) -> dict[str, Any]:
    total: dict[str, Any] = {name: sum(int(w[name]) for w in windows.values()) for name in DATA_COUNTERS}
    for name in ("digest_tx", "digest_rx"):
        total[name] = f"{sum(int(w[name], 16) for w in windows.values()) % 2**64:016x}"
    total |= {f"hs_{name}": 0 for name in HANDSHAKE_COUNTERS}
    total |= {"hs_started": handshakes, "hs_completed": handshakes}
    work = ("hs_keygens", "hs_signatures", "hs_decaps") if role == "gcs" else ("hs_encaps", "hs_verifies")
    total |= dict.fromkeys(work, handshakes)
    total["windows"] = windows
    return total


def _write_telemetry(path: Path, role: str, start_ns: int, end_ns: int, rng: random.Random) -> dict[str, int]:
    tags = f"host={role},ring=lab"
    counts: dict[str, int] = {}
    first = -(-start_ns // (100 * MS)) * 100 * MS
    with path.open("w", encoding="utf-8") as handle:
        for tick, t_ns in enumerate(range(first, end_ns, 100 * MS)):
            busy = rng.uniform(3, 9)
            fields = {
                "pq_cpu": f"system_pct={busy + 8:.2f},steal_pct=0.0,system_busy_ms={26 * tick}i,"
                f"system_steal_ms=0i,system_total_ms={200 * tick}i,process_cpu_ns={6_000_000 * tick}i,"
                f"process_pct={busy:.2f},container_cpu_ns={7_000_000 * tick}i,container_pct={busy + 1:.2f},"
                f"sampler_cpu_ns={1_000_000 * tick}i,sampler_pct={rng.uniform(0.8, 1.4):.2f}",
                "pq_mem": "rss_bytes=41943040i,thread_count=7i,available_bytes=3221225472i",
                "pq_net": f"udp_in_datagrams={32 * tick}i,udp_in_errors=0i,"
                "udp_rcvbuf_errors=0i,if_rx_dropped=0i",
                "pq_tunnel": f"tx_data={16 * tick}i,rx_ok={16 * tick}i",
                "pq_sampler": f"expected_count={tick + 1}i,got_count={tick + 1}i,late_count=0i,"
                f"lost_count=0i,stored_count={tick + 1}i,telegraf_dropped_count=0i",
            }
            if tick % 10 == 0:
                fields["pq_load"] = "load1=0.42,load5=0.31,load15=0.2"
            for name, values in fields.items():
                handle.write(f"{name},{tags} {values} {t_ns}\n")
                counts[f"{name},{tags}"] = counts.get(f"{name},{tags}", 0) + 1
    return counts


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _write_ndjson(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    print(make_work_dir(Path(sys.argv[1])))
