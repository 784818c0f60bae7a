"""One synthetic cell for the test bundles: its handshakes, traffic, counters, telemetry and raw files.

Nothing here was measured (see fixtures_make.py), and nothing of the code under test is imported.
"""

from __future__ import annotations

import csv
import json
import random
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fixture_handshake import MONO0_NS, MS, T0_NS, CellClock, handshake_window

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
PLAIN_OVERHEAD_BYTES = 8
LEDGER_HEADER = ["direction", "epoch", "sequence", "size_bytes", "t_in_ns", "t_out_ns", "window"]


def write_cell(
    cell_dir: Path, cell: dict[str, Any], scenario: dict[str, Any], start_ns: int, rng: random.Random
) -> tuple[int, list[dict[str, Any]]]:
    (cell_dir / "logs").mkdir(parents=True)
    clock = CellClock(start_ns)
    clock.event("controller", "prepare", window=None)
    clock.now_ns += 30 * MS
    clock.event("drone", "prepare", dataplane="native")
    clock.event("gcs", "prepare", dataplane="native")
    clock.now_ns += 20 * MS
    shake, plain = scenario["handshake"], cell["suite_id"] == "plain"
    pooled = 0 if plain else (shake.get("pooled") or {"count": 0})["count"]
    signs = condition_of(scenario, cell).get("drone_auth") == "signature"
    spans: list[dict[str, Any]] = []
    if not plain:
        spans = handshake_window(clock, cell["suite_id"], shake["count"], rng, signs=signs)
        clock.event("controller", "handshake_block", completed=shake["count"], failed=0, failures=[])
    if pooled:
        clock.now_ns += 10 * MS
        spans += handshake_window(clock, cell["suite_id"], pooled, rng, mode="pooled", signs=signs)
        clock.event("controller", "handshake_block", completed=pooled, failed=0, failures=[], pooled=True)

    rows: dict[str, list[list[Any]]] = {"drone": [], "gcs": []}
    counters: dict[str, dict[str, Any]] = {"drone": {"windows": {}}, "gcs": {"windows": {}}}
    traffic: dict[str, Any] = {"windows": {}}
    # sequence 0 was the keepalive that follows the handshake
    sequence = {
        "drone": 1,
        "gcs": 1,
        "overhead": PLAIN_OVERHEAD_BYTES if plain else SEAL_OVERHEAD_BYTES,
        "epoch": 0 if plain else shake["count"] + pooled - 1,
        "seed": cell["seed"],
    }
    clock.now_ns += 10 * MS
    _traffic_window(clock, scenario, rows, counters, traffic, sequence, rng)
    if scenario["bulk"]:
        clock.now_ns += 10 * MS
        _bulk_window(clock, scenario, rows, counters, traffic, sequence, rng)
    if condition_of(scenario, cell).get("detector", "none") != "none":
        clock.now_ns += 10 * MS
        clock.event("controller", "window_start", window="canary")
        clock.now_ns += 4_000 * MS
        clock.event("controller", "window_end", window="canary")
    clock.now_ns += 30 * MS
    for role in ("drone", "gcs"):
        clock.event(role, "stop")
    clock.now_ns += 20 * MS
    clock.event("controller", "cell_end", window=None)

    for role in ("drone", "gcs"):
        counters[role] = _totals(counters[role]["windows"], role, 0 if plain else shake["count"] + pooled)
        with (cell_dir / f"ledger.{role}.csv").open("w", newline="", encoding="ascii") as handle:
            writer = csv.writer(handle, lineterminator="\n")
            writer.writerow(LEDGER_HEADER)
            writer.writerows(rows[role])
        (cell_dir / "logs" / f"{role}.log").write_text("synthetic test data\n", encoding="utf-8")
    events = sorted(clock.events, key=lambda e: int(e["t_ns"]))
    (cell_dir / "logs" / "controller.log").write_text(log_of(events), encoding="utf-8")
    write_ndjson(cell_dir / "spans.ndjson", spans)
    write_ndjson(cell_dir / "events.ndjson", events)
    write_json(cell_dir / "counters.json", counters)
    write_json(cell_dir / "traffic.json", traffic)
    influx_series = []
    for role in ("drone", "gcs"):
        counted = Counted(
            str(cell["cell_id"]),
            sorted(
                s["end_ns"] - MONO0_NS + T0_NS
                for s in spans
                if s["host"] == role and s["step"] == "handshake"
            ),
            sorted(int(row[5]) for row in rows[role] if row[0] == "tx"),
            sorted(int(row[5]) for row in rows[role] if row[0] == "rx"),
        )
        path = cell_dir / f"telemetry.{role}.lp"
        series = _write_telemetry(path, role, start_ns, clock.now_ns, rng, counted)
        influx_series += [
            {"series": k, "file_count": n, "influx_count": n} for k, n in sorted(series.items())
        ]
    return clock.now_ns, influx_series


def log_of(events: list[dict[str, Any]]) -> str:
    """logs/controller.log: a line for each of the controller's events."""
    lines = []
    for event in events:
        if event["host"] == "controller":
            rest = {k: v for k, v in event.items() if k not in ("t_ns", "host", "event")}
            told = " ".join(f"{key}={json.dumps(value)}" for key, value in rest.items())
            when = datetime.fromtimestamp(event["t_ns"] / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            part = event["t_ns"] % 10**9 // 10**6
            lines.append(f"{when} {part:03d} {event['event']} {told}".rstrip() + "\n")
    return "".join(lines)


@dataclass(frozen=True)
class Counted:
    """When each handshake of an end was complete, and each of its datagrams sent or opened; realtime ns."""

    cell_id: str
    shakes_ns: list[int]
    sent_ns: list[int]
    opened_ns: list[int]

    def at(self, t_ns: int) -> str:
        """The tunnel's counters as the sampler reads them, written 10 ms before."""
        shakes, sent, opened = (
            bisect_right(moments, t_ns - 10 * MS)
            for moments in (self.shakes_ns, self.sent_ns, self.opened_ns)
        )
        told = f'age_ms=10.0,state="running",cell_id="{self.cell_id}"'
        return f"{told},tx_data={sent}i,rx_ok={opened}i,hs_started={shakes}i,hs_completed={shakes}i"


def condition_of(scenario: dict[str, Any], cell: dict[str, Any]) -> dict[str, Any]:
    return next((dict(c) for c in scenario["conditions"] if c["name"] == cell["condition"]), {})


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
    number, size = sequence[sender], plain_bytes + sequence["overhead"]
    epoch = sequence["epoch"]
    rows[sender].append(["tx", epoch, number, size, at_ns, sent_ns, window])
    rows[receiver].append(["rx", epoch, number, size, arrived_ns, delivered_ns, window])
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
    _count(counters, "traffic", len(down), down_bytes, len(up), up_bytes, rng, sequence["overhead"])
    traffic["windows"]["traffic"] = {
        "route": "mavproxy",
        "spec": {"source": "auto", "profile": "intervals_320hz", "rate_hz": 320, "seed": sequence["seed"]},
        "drone": _end(
            "embedded",
            (open_ns, close_ns),
            _sent(len(down), down_bytes, down[0][0], down[-1][0], dict(sorted(sent_sizes.items()))),
            _received(len(up), up_bytes),
        ),
        "gcs": _end(
            "uplink",
            (open_ns - MS, close_ns + 4 * MS),
            _sent(len(up), up_bytes, up[0][0] if up else None, up[-1][0] if up else None, {}),
            _received(len(down), down_bytes),
            rtt_ms=[round(rng.uniform(1.0, 4.0), 3) for _ in up],
        ),
    }


def _end(
    source: str, gate_ns: tuple[int, int], sent: dict[str, Any], received: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """One end's part of a window: its source, its gate, and what the source reports."""
    report = {"ok": True, "source": source, "sent": sent, "received": received, **more}
    return {"source": source, "open_ns": gate_ns[0], "close_ns": gate_ns[1], "source_report": report}


def _sent(
    count: int, size_bytes: int, first_ns: int | None, last_ns: int | None, sizes: dict[str, int]
) -> dict[str, Any]:
    return {"count": count, "bytes": size_bytes, "first_ns": first_ns, "last_ns": last_ns, "sizes": sizes}


def _received(count: int, size_bytes: int) -> dict[str, Any]:
    return {"count": count, "bytes": size_bytes, "corrupt": 0, "duplicate": 0, "missing": 0}


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
    _count(counters, window, count, count * BULK_SIZE_BYTES, 0, 0, rng, sequence["overhead"])
    size_bytes, last_ns = count * BULK_SIZE_BYTES, close_ns - step_ns // count
    sizes = {str(BULK_SIZE_BYTES): count}
    traffic["windows"][window] = {
        "route": "direct",
        "spec": {
            "source": "bulk",
            "rate_hz": BULK_PPS,
            "size_bytes": BULK_SIZE_BYTES,
            "seed": sequence["seed"],
        },
        "drone": _end(
            "bulk",
            (open_ns, close_ns),
            _sent(count, size_bytes, open_ns, last_ns, sizes),
            _received(0, 0),
        ),
        "gcs": _end(
            "bulk",
            (open_ns - MS, close_ns + 4 * MS),
            _sent(0, 0, None, None, {}),
            _received(count, size_bytes),
        ),
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
    overhead: int,
) -> None:
    digests = {"down": f"{rng.getrandbits(64):016x}", "up": f"{rng.getrandbits(64) if up else 0:016x}"}
    for role in ("drone", "gcs"):
        sent, sent_bytes = (down, down_bytes) if role == "drone" else (up, up_bytes)
        got, got_bytes = (up, up_bytes) if role == "drone" else (down, down_bytes)
        row: dict[str, Any] = dict.fromkeys(DATA_COUNTERS, 0)
        row |= {
            "plaintext_in": sent,
            "plaintext_in_bytes": sent_bytes,
            "plaintext_out": got,
            "plaintext_out_bytes": got_bytes,
            "tx_data": sent,
            "tx_data_bytes": sent_bytes + sent * overhead,
            "tx_keepalive": 1,
            "rx_ok": got,
            "rx_ok_bytes": got_bytes + got * overhead,
            "rx_keepalive": 1,
            "seal_count": sent,
            "seal_ns_total": sent * 2_400,
            "open_count": got,
            "open_ns_total": got * 2_600,
            "digest_tx": digests["down" if role == "drone" else "up"],
            "digest_rx": digests["up" if role == "drone" else "down"],
        }
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


def _write_telemetry(
    path: Path, role: str, start_ns: int, end_ns: int, rng: random.Random, counted: Counted
) -> dict[str, int]:
    tags = f"host={role},ring=lab"
    counts: dict[str, int] = {}
    first = -(-start_ns // (100 * MS)) * 100 * MS
    away = 0.0
    with path.open("w", encoding="utf-8") as handle:
        for tick, t_ns in enumerate(range(first, end_ns, 100 * MS)):
            # as far above the counter's 6 % as the tick after it below: few ticks have its mean too
            away = -away if tick % 2 else rng.uniform(0.0, 1.0)
            busy = 6.0 + away
            fields = {
                "pq_cpu": f"system_pct={busy + 8:.2f},steal_pct=0.0,system_busy_ms={26 * tick}i,"
                f"system_steal_ms=0i,system_total_ms={2 * (t_ns - T0_NS) // MS}i,"
                f"process_cpu_ns={6_000_000 * tick}i,"
                f"process_pct={busy:.2f},container_cpu_ns={7_000_000 * tick}i,container_pct={busy + 1:.2f},"
                f"sampler_cpu_ns={1_000_000 * tick}i,sampler_pct={rng.uniform(0.8, 1.4):.2f}",
                "pq_mem": "rss_bytes=41943040i,thread_count=7i,available_bytes=3221225472i",
                "pq_net": f"udp_in_datagrams={32 * tick}i,udp_in_errors=0i,"
                "udp_rcvbuf_errors=0i,if_rx_dropped=0i",
                "pq_tunnel": counted.at(t_ns),
                "pq_sampler": f"expected_count={tick + 1}i,got_count={tick + 1}i,late_count=0i,"
                f"lost_count=0i,stored_count={tick + 1}i,telegraf_dropped_count=0i",
            }
            if tick % 10 == 0:
                fields["pq_load"] = "load1=0.42,load5=0.31,load15=0.2"
            for name, values in fields.items():
                handle.write(f"{name},{tags} {values} {t_ns}\n")
                counts[f"{name},{tags}"] = counts.get(f"{name},{tags}", 0) + 1
    return counts


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def write_ndjson(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows), encoding="utf-8")
