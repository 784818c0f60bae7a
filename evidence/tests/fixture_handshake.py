"""The synthetic handshakes of one cell: invented times, real sizes, both hosts on one timeline.

Nothing here was measured (see fixtures_make.py), and nothing of the code under test is imported.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

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
#: Beside the 72; in a bundle only where a test asks for them.
EXTRA_SUITES: dict[str, tuple[float, float, float, float, float]] = {
    "xs-x25519-aesgcm-ed25519": (0.035, 0.040, 0.110, 0.090, 0.060),
    "xs-x25519mlkem768-asconaead128-mldsa65": (0.066, 0.110, 0.045, 0.120, 0.100),
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
    "x25519": (32, 32),
    "x25519mlkem768": (1216, 1120),
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
    "ed25519": 64,
}


TIMES = {**SUITES, **EXTRA_SUITES}


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


def handshake_window(
    clock: CellClock,
    suite_id: str,
    count: int,
    rng: random.Random,
    mode: str = "cold",
    *,
    signs: bool = False,
    queue_us: float | None = None,
) -> list[dict[str, Any]]:
    """queue_us: what each end's thread waited for a processor; None: hosts that do not tell."""
    clock.event("controller", "window_start", window=f"handshake_{mode}")
    spans: list[dict[str, Any]] = []
    for index in range(count):
        handshake_id = rng.randbytes(8).hex()
        clock.now_ns += 2 * MS + 200_000  # the drone's pause between two of them
        rows = _one_handshake(clock, suite_id, handshake_id, index, rng, mode, signs)
        spans += rows if queue_us is None else _with_scheduling(rows, queue_us)
    clock.now_ns += 300_000
    clock.event("controller", "window_end", window=f"handshake_{mode}")
    return spans


def _one_handshake(
    clock: CellClock,
    suite_id: str,
    handshake_id: str,
    index: int,
    rng: random.Random,
    mode: str,
    signs: bool,
) -> list[dict[str, Any]]:
    """Lay both hosts' steps on one timeline, in microseconds after the drone's connect."""
    keygen, sign, verify, encaps, decaps = (ms * 1e3 * rng.uniform(0.95, 1.1) for ms in TIMES[suite_id])
    keygen = 2.0 if mode == "pooled" else keygen
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
    d = run(drone, d, [("encaps", "crypto", encaps), ("kdf", "kdf", 20)])
    if signs:
        d = run(drone, d, [("sign", "crypto", 3 * sign)])
    d = run(drone, d, [("client_kem", "codec", 12)])
    d = run(drone, d, [("send_client_kem", "io", 15)])
    g = run(gcs, g, [("wait_client_kem", "network_wait", d + 10 - g), ("check_finished", "kdf", 10)])
    if signs:
        g = run(gcs, g, [("verify", "crypto", 2 * verify)])
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
                    "mode": mode,
                    **({"keygen": mode} if role == "gcs" else {}),
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


def _with_scheduling(rows: list[dict[str, Any]], queue_us: float) -> list[dict[str, Any]]:
    """The rows of one handshake as a host tells them whose scheduler counts: it works where it does not wait
    for the network, but for `queue_us` of its wall."""
    for role in ("drone", "gcs"):
        mine = [row for row in rows if row["host"] == role]
        steps, wall = mine[:-1], mine[-1]
        queue_ns = round(queue_us * 1e3)
        busy_ns = sum(row["end_ns"] - row["start_ns"] for row in steps if row["kind"] != "network_wait")
        wall.update(cpu_ns=max(0, busy_ns - queue_ns), runqueue_ns=queue_ns, involuntary=int(queue_us > 50))
        for row in steps:
            if row["kind"] == "crypto":
                row["cpu_ns"] = row["end_ns"] - row["start_ns"]
    return rows
