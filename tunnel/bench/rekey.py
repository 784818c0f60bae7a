#!/usr/bin/env python3
"""Rekeys under traffic between two endpoint processes on loopback: what was lost, and how long it paused.

    python tunnel/bench/rekey.py --json OUT.json [--full]

Short by default; `--full` runs 1,000 rekeys at 1/s with ML-KEM-768, 20 with Classic-McEliece-8192128, and 300
that wrap the epoch on the wire. Traffic: 320 datagrams a second each way, evenly spaced, 64 bytes. Exit code:
0 nothing lost in any run, 1 otherwise.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from pqtunnel.blackout import EPOCH_SHIFT, Switch, around, largest_gap_ns, switches
from pqtunnel.keys import provision
from pqtunnel.primitives import load
from pqtunnel.rpc import AgentUnreachableError, RpcClient, TlsFiles, fetch_all

HZ = 320
SPAN_NS = 100_000_000
"""How far around a switch, and around the moment halfway between two, gaps are looked for."""
PACE = 1.5
"""Send intervals that may lie between two datagrams as they come to the tunnel, for a switch to be judged."""
LIMIT = 2.0
"""Send intervals that a gap may last."""
JUDGED = ("judged_switches", "judged_over_count", "judged_between", "judged_between_over_count")
PAYLOAD_BYTES = 64
CELL = "rekey-bench"
MLKEM = "cs-mlkem768-aesgcm-mldsa65"
MCELIECE = "cs-classicmceliece8192128-aesgcm-mldsa87"
HOSTS = {"gcs": "127.0.0.1", "drone": "127.0.0.2"}
PEERS = {"gcs": "127.0.0.4", "drone": "127.0.0.3"}
START_LIMIT_S = 60.0


@dataclass(frozen=True)
class Run:
    """One series of rekeys."""

    name: str
    suites: tuple[str, ...]
    rekeys: int
    every_s: float


SHORT = (Run("mlkem768", (MLKEM,), 20, 1.0), Run("mceliece8192128", (MCELIECE,), 3, 3.0),
         Run("epoch wrap", (MLKEM,), 40, 0.25))  # fmt: skip
FULL = (Run("mlkem768", (MLKEM,), 1000, 1.0), Run("mceliece8192128", (MCELIECE,), 20, 3.0),
        Run("epoch wrap", (MLKEM,), 300, 0.5))  # fmt: skip


def free_port(host: str, kind: int) -> int:
    """A port that nobody holds now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


class End:
    """One agent process, its plaintext peer, and a controller's connection to it."""

    def __init__(self, role: str, folder: Path, ports: dict[str, int]) -> None:
        self.role = role
        self.plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.plain.bind((PEERS[role], 0))
        other = "gcs" if role == "drone" else "drone"
        host, port = self.plain.getsockname()
        settings = {
            "PQ_PEER": HOSTS[other],
            "PQ_BIND": HOSTS[role],
            "PQ_CONTROL_BIND": "127.0.0.1",
            "PQ_HANDSHAKE_PORT": str(ports["handshake"]),
            "PQ_SEALED_PORT": str(ports[f"{role} sealed"]),
            "PQ_PEER_SEALED_PORT": str(ports[f"{other} sealed"]),
            "PQ_CONTROL_PORT": str(ports[f"{role} control"]),
            "PQ_PLAINTEXT_PORT": str(ports[f"{role} plain"]),
            "PQ_PLAINTEXT_TARGET": f"{host}:{port}",
            "PQ_KEYS": str(folder / role),
            "PQ_STATE": str(folder / "state" / role),
            "PQ_TELEMETRY_RATE_HZ": "0",
        }
        self.target = (HOSTS[role], ports[f"{role} plain"])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pqtunnel", role],
            env={**os.environ, **settings},
            stdout=subprocess.DEVNULL,
        )
        tls = TlsFiles.in_folder(folder / "controller")
        self.rpc = RpcClient("127.0.0.1", ports[f"{role} control"], tls, server_name=role)

    def ready(self) -> dict[str, Any]:
        """What the agent says of itself, once its self-test is over: it must not run beside the traffic."""
        give_up_s = time.monotonic() + START_LIMIT_S
        while True:
            try:
                return self.rpc.call("hello", {}, timeout_s=START_LIMIT_S)
            except AgentUnreachableError:
                if time.monotonic() > give_up_s or self.process.poll() is not None:
                    raise
                time.sleep(0.2)

    def event(self, kind: str, timeout_s: float = 60.0, **params: Any) -> dict[str, Any]:
        """An event of the cell."""
        return self.rpc.call("event", {"cell_id": CELL, "kind": kind, **params}, timeout_s=timeout_s)

    def cpu_s(self) -> float:
        """CPU time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the process and free its peer's port."""
        self.rpc.close()
        self.process.terminate()
        self.process.wait(timeout=10)
        self.plain.close()


@contextmanager
def two_ends() -> Iterator[dict[str, End]]:
    """A gcs and a drone with keys of their own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        provision(folder, load())
        ports = {"handshake": free_port(HOSTS["gcs"], socket.SOCK_STREAM)}
        for role in HOSTS:
            ports[f"{role} control"] = free_port("127.0.0.1", socket.SOCK_STREAM)
            for use in ("sealed", "plain"):
                ports[f"{role} {use}"] = free_port(HOSTS[role], socket.SOCK_DGRAM)
        ends: dict[str, End] = {}
        try:
            for role in HOSTS:
                ends[role] = End(role, folder, ports)
            yield ends
        finally:
            for end in ends.values():
                end.close()


def send_evenly(ends: dict[str, End], ended: Event) -> None:
    """Both ways at HZ until told to end; in a process of its own, so that no answer that the controller reads
    keeps a datagram waiting."""
    gc.disable()
    start_s, sent = time.monotonic(), 0
    while not ended.is_set():
        wait_s = start_s + sent / HZ - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        payload = sent.to_bytes(8, "big") + bytes(PAYLOAD_BYTES - 8)
        for end in ends.values():
            end.plain.sendto(payload, end.target)
        sent += 1


def ledger(end: End) -> dict[str, list[tuple[int, int, int]]]:
    """Rows (key, t_in_ns, t_out_ns) by direction."""
    rows: dict[str, list[tuple[int, int, int]]] = {"tx": [], "rx": []}
    for line in fetch_all(end.rpc, CELL, "ledger", timeout_s=60.0)[1:]:
        direction, epoch, sequence, _, t_in, t_out, _ = line.split(",")
        rows[direction].append((int(epoch) << EPOCH_SHIFT | int(sequence), int(t_in), int(t_out)))
    return rows


def direction_report(
    sent: list[tuple[int, int, int]], received: list[tuple[int, int, int]]
) -> dict[str, Any]:
    """Losses and gaps of one direction."""
    found: list[Switch] = switches(
        [row[0] for row in sent],
        [row[1] for row in sent],
        [row[0] for row in received],
        [row[2] for row in received],
        SPAN_NS,
    )
    got = {row[0] for row in received}
    sent_at = {row[0]: row[1] for row in sent}
    delays = sorted(row[2] - sent_at[row[0]] for row in received)
    gaps = sorted(one.gap_ns for one in found)
    judged = [one.gap_ns for one in found if one.send_gap_ns <= PACE * 1e9 / HZ]
    over = sum(1 for gap_ns in judged if gap_ns > LIMIT * 1e9 / HZ)
    # The same look halfway between two switches: what this machine does to packets when nobody rekeys.
    came = sorted((row[2], row[2] - sent_at[row[0]]) for row in received)
    left, arrived = sorted(row[1] for row in sent), [row[0] for row in came]
    halfway = [(one.at_ns + two.at_ns) // 2 for one, two in pairwise(found)]
    near = [came[around(arrived, at_ns, SPAN_NS)] for at_ns in halfway]
    quiet = [max((two[1] - one[1] for one, two in pairwise(rows)), default=0) for rows in near]
    pauses = [largest_gap_ns(left[around(left, at_ns, SPAN_NS)]) for at_ns in halfway]
    paced = [rows for rows, pause_ns in zip(near, pauses, strict=True) if pause_ns <= PACE * 1e9 / HZ]
    over_between = sum(1 for rows in paced if largest_gap_ns([row[0] for row in rows]) > LIMIT * 1e9 / HZ)
    return {
        "sent_count": len(sent),
        "received_count": len(received),
        "lost_count": sum(1 for row in sent if row[0] not in got),
        "duplicate_count": len(received) - len(got),
        "switches": len(found),
        "late_old_epoch_count": sum(one.late for one in found),
        "judged_switches": len(judged),
        "judged_over_count": over,
        "judged_between": len(paced),
        "judged_between_over_count": over_between,
        "largest_judged_gap_ms": max(judged) / 1e6 if judged else None,
        "largest_gap_ms": gaps[-1] / 1e6 if gaps else None,
        "median_gap_ms": statistics.median(gaps) / 1e6 if gaps else None,
        "largest_added_gap_ms": max((one.added_ns for one in found), default=0) / 1e6,
        "median_added_gap_ms": statistics.median([one.added_ns for one in found]) / 1e6 if found else None,
        "largest_added_gap_between_ms": max(quiet, default=0) / 1e6,
        "median_added_gap_between_ms": statistics.median(quiet) / 1e6 if quiet else None,
        "largest_send_gap_ms": max((one.send_gap_ns for one in found), default=0) / 1e6,
        "gaps_over_two_intervals": sum(1 for one in found if one.gap_ns > LIMIT * 1e9 / HZ),
        "largest_gap_anywhere_ms": largest_gap_ns(sorted(row[2] for row in received)) / 1e6,
        "delay_p50_ms": statistics.median(delays) / 1e6,
        "delay_max_ms": delays[-1] / 1e6,
    }


def measure(ends: dict[str, End], run: Run) -> dict[str, Any]:
    """One run: prepare, handshake, rekey under traffic, stop, read both ledgers."""
    params = {"cell_id": CELL, "suite_id": run.suites[0], "accepted_suites": list(run.suites), "seed": 1}
    for end in ends.values():
        end.rpc.call("prepare", params)
        end.rpc.call("start", {"cell_id": CELL})
    drone, gcs = ends["drone"], ends["gcs"]
    drone.event("handshake_block", count=1, min_count=1, max_s=30)
    drone.event("rekey_schedule", every_s=run.every_s, count=run.rekeys, suites=list(run.suites), start_s=1.0)
    for end in (gcs, drone):
        end.event("traffic_open", window="traffic", route="mavproxy", spec=None)
    context = multiprocessing.get_context("fork")  # the sockets go with it
    ended = context.Event()
    sender = context.Process(target=send_evenly, args=(ends, ended), daemon=True)
    cpu_s = {role: end.cpu_s() for role, end in ends.items()}
    begin_s = time.monotonic()
    load_before = os.getloadavg()[0]
    sender.start()
    give_up_s = begin_s + 60 + run.rekeys * (run.every_s + 5)
    while time.monotonic() < give_up_s:
        time.sleep(1.0)
        gcs.rpc.call("counters")  # a sign of life, or its watchdog gives the cell up
        counted = drone.rpc.call("counters")["counters"]
        if counted["rekey_completed"] + counted["rekey_failed"] >= run.rekeys:
            break
    time.sleep(1.0)
    wall_s = time.monotonic() - begin_s
    cpu_share = {role: (end.cpu_s() - cpu_s[role]) / wall_s for role, end in ends.items()}
    ended.set()
    sender.join()
    for end in (drone, gcs):
        end.event("traffic_close", window="traffic")
    counters = {role: ends[role].rpc.call("stop", {"cell_id": CELL})["counters"] for role in ("drone", "gcs")}
    rows = {role: ledger(end) for role, end in ends.items()}
    events = [json.loads(line) for line in fetch_all(drone.rpc, CELL, "events")]
    walls = sorted(row["end_ns"] - row["start_ns"] for row in events if row["event"] == "rekey")
    both = {
        "down": direction_report(rows["drone"]["tx"], rows["gcs"]["rx"]),
        "up": direction_report(rows["gcs"]["tx"], rows["drone"]["rx"]),
    }
    return {
        "name": run.name,
        "suites": list(run.suites),
        "every_s": run.every_s,
        "rekeys": counters["drone"]["rekey_completed"],
        "rekeys_failed": counters["drone"]["rekey_failed"],
        "rekeys_asked": run.rekeys,
        "last_epoch": max(key for key, _, _ in rows["drone"]["tx"]) >> EPOCH_SHIFT,
        "send_interval_ms": 1e3 / HZ,
        "wall_s": wall_s,
        "lost_count": sum(side["lost_count"] for side in both.values()),
        "not_ready_count": sum(counters[role]["not_ready"] for role in counters),
        "queue_full_count": sum(counters[role]["queue_full"] for role in counters),
        "largest_gap_ms": max(side["largest_gap_ms"] or 0.0 for side in both.values()),
        "switches": sum(side["switches"] for side in both.values()),
        **{name: sum(side[name] for side in both.values()) for name in JUDGED},
        "largest_judged_gap_ms": max(
            (side["largest_judged_gap_ms"] for side in both.values() if side["judged_switches"]), default=None
        ),
        "largest_added_gap_ms": max(side["largest_added_gap_ms"] for side in both.values()),
        "largest_added_gap_between_ms": max(side["largest_added_gap_between_ms"] for side in both.values()),
        "rekey_median_ms": statistics.median(walls) / 1e6 if walls else None,
        "rekey_max_ms": walls[-1] / 1e6 if walls else None,
        "cpu_share": cpu_share,
        "load_average": [load_before, os.getloadavg()[0]],
        "directions": both,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the series and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--json", type=Path, help="write the report here too")
    parser.add_argument("--full", action="store_true", help="1,000 + 20 + 300 rekeys (about 22 min)")
    parser.add_argument("--only", help="the run of this name alone")
    options = parser.parse_args(argv)
    planned = [run for run in (FULL if options.full else SHORT) if options.only in (None, run.name)]
    if not planned:
        parser.error("--only names no run: " + ", ".join(run.name for run in SHORT))
    report: dict[str, Any] = {"hz": HZ, "runs": []}
    with two_ends() as ends:
        for end in ends.values():
            end.ready()
        for run in planned:
            print(f"{run.name}: {run.rekeys} rekeys, one each {run.every_s:g} s …", file=sys.stderr)
            report["runs"].append(measure(ends, run))
    text = json.dumps(report, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")
    whole = all(not run["lost_count"] and run["rekeys"] == run["rekeys_asked"] for run in report["runs"])
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
