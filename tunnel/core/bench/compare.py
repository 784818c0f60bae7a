"""CPU a packet and latency of three two-hop forwarders: the Python data plane, the native one, and
a bare UDP forwarder on the native one's sockets. One load generator, interleaved rounds, on loopback.

    PYTHONPATH=tunnel/src:base/src python tunnel/core/bench/compare.py BARE_FORWARDER [--rounds N]
        [--suite-aead TOKEN] [--kinds native,bare] [--loads 320_hz] [--json FILE]

BARE_FORWARDER is the example of that name (`cargo build --release --example bare_forwarder`). Each hop seals
or opens once; the bare one copies. The ledger is off, as for every CPU figure. CPU is what the scheduler
charged to all threads of the forwarder's process (/proc/PID/task/*/schedstat). Latency is taken around both
hops by the load generator, which has to wake up as well: differences count, not the absolute value.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pqbase.stats import TOO_FEW, tail

HOSTS = {"python": "127.0.1.1", "native": "127.0.1.2", "bare": "127.0.1.3"}
LOAD, SINK = ("127.0.1.9", 45_001), ("127.0.1.9", 45_002)
PLAIN, SEALED, PEER = 45_010, 45_011, 45_012
SIZE_BYTES = 64
RATE_HZ = 320
BURST = 32
LOADS = {"320_hz": (RATE_HZ * 3, 1, 1 / RATE_HZ), "bursts_of_32": (BURST * 100, BURST, 0.01)}
"""Datagrams of a round, datagrams sent together, seconds from one group to the next."""


def serve(kind: str, aead: str) -> None:
    """Child: two planes with keys installed, until standard input ends."""
    from pqtunnel.config import EndpointConfig
    from pqtunnel.endpoint.plane import make_plane
    from pqtunnel.handshake.established import Established, TrafficKeys
    from pqtunnel.primitives import load
    from pqtunnel.suites import match

    suite = next(s for s in match(["cs-*", "xs-*"]) if s.aead.token == aead)
    key, iv = bytes(range(suite.aead.key_bytes)), bytes(suite.aead.nonce_bytes)
    host = HOSTS[kind]
    planes = {}
    for role, sealed, peer, plain in (("drone", SEALED, PEER, PLAIN), ("gcs", PEER, SEALED, PLAIN + 9)):
        config = EndpointConfig.from_environment(
            role,  # type: ignore[arg-type]
            {
                "PQ_BIND": host,
                "PQ_PEER": host,
                "PQ_SEALED_PORT": str(sealed),
                "PQ_PEER_SEALED_PORT": str(peer),
                "PQ_PLAINTEXT_PORT": str(plain),
                "PQ_PLAINTEXT_SOURCE": LOAD[0],
                "PQ_PLAINTEXT_TARGET": f"{SINK[0]}:{SINK[1]}",
                "PQ_DATAPLANE": kind,
            },
        )
        plane = planes[role] = make_plane(config, lambda text: print(text, file=sys.stderr))
        plane.open()
        cell = plane.new_cell(load(), ledger=False)
        plane.attach(cell)
        plane.set_gate(config.routes["mavproxy"], 1, is_open=True)
        indices = (1, 2) if role == "drone" else (2, 1)
        keys = TrafficKeys(key, iv, key[::-1], iv)
        if role == "gcs":
            keys = TrafficKeys(key[::-1], iv, key, iv)
        cell.session.install(
            Established(role, suite, 0, bytes(16), bytes(8), "00" * 8, *indices, keys, b"", b""),  # type: ignore[arg-type]
            time.monotonic_ns(),
        )
    planes["drone"].send_keepalive()
    if not planes["gcs"].confirmed.wait(2.0):
        raise SystemExit("the gcs heard nothing from the drone")
    print("ready", flush=True)
    sys.stdin.read()


def start(kind: str, bare: Path, aead: str) -> subprocess.Popen[str]:
    """A forwarder, ready to forward."""
    host = HOSTS[kind]
    if kind == "bare":
        command = [str(bare), f"{host}:{PLAIN}", f"{host}:{PEER}", f"{host}:{PEER}", f"{SINK[0]}:{SINK[1]}"]
    else:
        command = [sys.executable, __file__, "--serve", kind, "--suite-aead", aead]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(2 if kind == "bare" else 1):
        if not process.stdout.readline().startswith("ready"):
            raise SystemExit(f"the {kind} forwarder did not start")
    return process


def cpu_ns(process: subprocess.Popen[str]) -> int:
    """CPU time of all threads so far."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def load(kind: str, process: subprocess.Popen[str], count: int, burst: int, pause_s: float) -> dict[str, Any]:
    """Send `count` datagrams, `burst` at a time, one group each `pause_s`; wait for each group."""
    latencies_us: list[float] = []
    lost = 0
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
    ):
        out.bind(LOAD)
        sink.bind(SINK)
        sink.settimeout(0.25)
        target = (HOSTS[kind], PLAIN)
        before_ns = cpu_ns(process)
        next_s = time.monotonic()
        for first in range(0, count, burst):
            group = range(first, first + burst)
            for number in group:
                payload = struct.pack(">QQ", number, time.monotonic_ns()) + bytes(SIZE_BYTES - 16)
                out.sendto(payload, target)
            for _ in group:
                try:
                    got = sink.recv(2048)
                except TimeoutError:
                    lost += 1
                    continue
                now_ns = time.monotonic_ns()
                latencies_us.append((now_ns - struct.unpack_from(">Q", got, 8)[0]) / 1e3)
            next_s += pause_s
            time.sleep(max(0.0, next_s - time.monotonic()))
        spent_ns = cpu_ns(process) - before_ns
    return {"cpu_us": spent_ns / 1e3 / count / 2, "latencies_us": latencies_us, "lost_count": lost}


def at(values: list[float], share: float) -> float:
    """The quantile of pqbase.stats; LookupError where too few values carry it."""
    found = tail(values, share)
    if found is None:
        raise LookupError(f"{TOO_FEW}: {len(values)} values for the quantile at {share}; next: more --rounds")
    return found


def ratio(mine: list[float], bare: list[float]) -> dict[str, float]:
    """Ratios to the bare forwarder in the same round: median and quartiles over the rounds."""
    ratios = [one / other for one, other in zip(mine, bare, strict=True)]
    names = {"median": 0.5, "q1": 0.25, "q3": 0.75}
    return {name: round(at(ratios, part), 3) for name, part in names.items()}


def summary(taken: list[dict[str, Any]], bare: list[dict[str, Any]]) -> dict[str, Any]:
    """CPU: median of the rounds, and its ratio to the bare forwarder of the same round. Latency: quantiles
    over the datagrams of all rounds, and the ratio of each round's quantile to the bare forwarder's."""
    latencies_us = [value for row in taken for value in row["latencies_us"]]
    ratios = {"cpu": ratio([row["cpu_us"] for row in taken], [row["cpu_us"] for row in bare])}
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        both = [[at(row["latencies_us"], part) for row in rows] for rows in (taken, bare)]
        ratios[name] = ratio(*both)
    return {
        "cpu_us_per_packet_and_hop": round(statistics.median(row["cpu_us"] for row in taken), 2),
        "p50_us": round(at(latencies_us, 0.5), 1),
        "p99_us": round(at(latencies_us, 0.99), 1),
        "ratio_to_bare": ratios,
        "datagrams_count": len(latencies_us),
        "lost_count": sum(row["lost_count"] for row in taken),
    }


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("bare", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--suite-aead", default="aesgcm")
    parser.add_argument("--kinds", default=",".join(HOSTS), help="forwarders, the bare one always included")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    parser.add_argument("--serve", choices=("python", "native"))
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.suite_aead)
        return
    if given.bare is None:
        parser.error("name the bare_forwarder binary")
    loadavg_start = os.getloadavg()
    kinds = [kind for kind in HOSTS if kind in given.kinds.split(",") or kind == "bare"]
    loads = {name: LOADS[name] for name in given.loads.split(",")}
    processes = {kind: start(kind, given.bare, given.suite_aead) for kind in kinds}
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {name: {kind: [] for kind in kinds} for name in loads}
    for kind, process in processes.items():
        load(kind, process, 320, BURST, 0.01)  # warm-up, not counted
    for _ in range(given.rounds):
        kinds = kinds[1:] + kinds[:1]  # who begins changes from round to round
        for name, (count, burst, pause_s) in loads.items():
            for kind in kinds:
                rows[name][kind].append(load(kind, processes[kind], count, burst, pause_s))
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait(5)
    result = {
        "schema": "pqtunnel/forwarding/v1",
        "aead": given.suite_aead,
        "size_bytes": SIZE_BYTES,
        "rounds": given.rounds,
        "loadavg_start": loadavg_start,
        "loadavg_end": os.getloadavg(),
        "cpu_count": os.cpu_count(),
        "loads": {
            name: {kind: summary(taken, by_kind["bare"]) for kind, taken in by_kind.items()}
            for name, by_kind in rows.items()
        },
    }
    text = json.dumps(result, indent=1)
    if given.json is not None:
        given.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
