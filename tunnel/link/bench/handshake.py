"""Handshakes of the native machines beside the Python ones: wall and processor time, in turn, in one run.

    OQS_INSTALL_PATH=/opt/liboqs python tunnel/link/bench/handshake.py [--rounds 9] [--suites ID:COUNT …]

Each block is COUNT new sessions over TCP on loopback between two processes of one kind, one after another;
blocks of both kinds follow each other in random order, `--rounds` times. Wall is the drone's, from the
beginning of connect to the keys; processor time is that of both ends' threads, within the handshake.
Machines are made before the clock starts, and the first handshakes of a block, which load what is loaded
once, are left out. The ratio is the median of the rounds' ratios of medians.

Needs the built oracle: cd tunnel/link && cargo build --release --locked --examples
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

_TREE = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(_TREE / part) for part in ("base/src", "tunnel/src", "spec/src")]

from pqspec.handshake import DroneHandshake, GcsHandshake, PskStore  # noqa: E402
from pqspec.shell.stream import FrameStream, converse  # noqa: E402
from pqtunnel.handshake.identity import (  # noqa: E402
    DronePsk,
    GcsIdentity,
    GcsPublicIdentity,
)
from pqtunnel.primitives import load  # noqa: E402
from pqtunnel.suites import get  # noqa: E402
from pqtunnel.trace import Tracer  # noqa: E402

SUITES = (
    "cs-mlkem512-aesgcm-mldsa44:100",
    "cs-mlkem768-aesgcm-mldsa65:100",
    "cs-hqc256-aesgcm-falcon1024:20",
)
WARM_UP = 5
ORACLE = os.environ.get("PQ_ORACLE", str(_TREE / "tunnel/link/target/release/examples/oracle"))
Sample = tuple[float, float]
"""(wall, processor time) of one end, µs."""


class Keys:
    """One drone and one GCS with a key of one scheme, as text that both kinds of ends read."""

    def __init__(self, suite_id: str) -> None:
        self.token = get(suite_id).sig.token
        public, secret = load().sig(self.token).generate()
        self.text = {
            "suite": suite_id,
            "id": os.urandom(8).hex(),
            "psk": os.urandom(32).hex(),
            "public": public.hex(),
            "secret": secret.hex(),
        }

    def spec(self) -> list[str]:
        """What the oracle takes."""
        text = self.text
        gcs = f"{self.token}:{text['public']}:{text['secret']}"
        return [
            f"suite={text['suite']}",
            f"id={text['id']}",
            f"psk={text['psk']}",
            f"gcs={gcs}",
            "level=1",
            "index=9",
            "quiet=1",
        ]


def _python_end(role: str, address: str, count: int) -> None:
    text = json.load(sys.stdin)
    suite, primitives = get(text["suite"]), load()
    psk = DronePsk(bytes.fromhex(text["id"]), bytes.fromhex(text["psk"]))
    public = GcsPublicIdentity({suite.sig.token: bytes.fromhex(text["public"])})
    identity = GcsIdentity(public, {suite.sig.token: bytes.fromhex(text["secret"])})
    psks = PskStore([psk])
    psk_keys = psks.lookup(psk.key_id)
    host, port = address.split(":")
    server = socket.create_server((host, int(port))) if role == "gcs" else None
    if server is not None:
        print("listening {}:{}".format(*server.getsockname()), flush=True)
    for epoch in range(count):
        machine: DroneHandshake | GcsHandshake
        tracer = Tracer(host=role)
        if server is not None:
            machine = GcsHandshake(
                identity=identity,
                psks=psks,
                accepted={suite.id},
                min_level=1,
                primitives=primitives,
                rng=os.urandom,
                tracer=tracer,
                counters={},
                rx_index=9,
            )
            sock, _ = server.accept()
            started_ns, before_ns = time.monotonic_ns(), time.thread_time_ns()
        else:
            machine = DroneHandshake(
                suite=suite,
                psk=psk,
                psk_keys=psk_keys,
                trusted=[public],
                min_level=1,
                epoch=epoch,
                primitives=primitives,
                rng=os.urandom,
                tracer=tracer,
                counters={},
                rx_index=9,
            )
            before_ns, started_ns = time.thread_time_ns(), time.monotonic_ns()
            sock = socket.create_connection((host, int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        converse(FrameStream(sock, started_ns), machine, tracer)
        wall_ns, spent_ns = time.monotonic_ns() - started_ns, time.thread_time_ns() - before_ns
        sock.close()
        print(f"wall_ns={wall_ns} cpu_ns={spent_ns}", flush=True)


def _samples(text: str) -> list[Sample]:
    found = []
    for line in text.splitlines():
        if line.startswith("wall_ns="):
            wall, spent = (int(word.split("=")[1]) for word in line.split())
            found.append((wall / 1e3, spent / 1e3))
    return found[WARM_UP:]


def _block(kind: str, keys: Keys, count: int) -> Sample:
    """Median wall, µs, and median processor time of both ends together, µs."""

    def start(role: str, address: str) -> subprocess.Popen[str]:
        number = str(count + WARM_UP)
        if kind == "native":
            words = [ORACLE, role, address, number, *keys.spec()]
        else:
            words = [sys.executable, __file__, "--end", role, address, number]
        end = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert end.stdin is not None
        if kind == "python":
            end.stdin.write(json.dumps(keys.text))
        end.stdin.close()
        end.stdin = None
        return end

    gcs = start("gcs", "127.0.0.1:0")
    assert gcs.stdout is not None
    address = gcs.stdout.readline().split()[1]
    drone = start("drone", address)
    told = [_samples(end.communicate(timeout=300)[0]) for end in (drone, gcs)]
    if any(len(samples) != count for samples in told):
        raise SystemExit(
            f"error: {kind} ends completed {[len(samples) for samples in told]} of {count} handshakes"
        )
    processor = [a[1] + b[1] for a, b in zip(*told, strict=True)]
    return statistics.median(wall for wall, _ in told[0]), statistics.median(processor)


def main() -> int:
    """Run the blocks and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--suites", nargs="+", default=list(SUITES), metavar="ID:COUNT")
    parser.add_argument("--end", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.end:
        _python_end(given.end[0], given.end[1], int(given.end[2]))
        return 0
    print(
        f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {given.rounds} rounds, medians, µs"
    )
    print("| suite | native wall | Python wall | ratio | native CPU | Python CPU | ratio |")
    print("|---|---|---|---|---|---|---|")
    for entry in given.suites:
        suite_id, count = entry.split(":")
        keys = Keys(suite_id)
        rounds: list[dict[str, Sample]] = []
        for _ in range(given.rounds):
            order = random.sample(["native", "python"], 2)
            rounds.append({kind: _block(kind, keys, int(count)) for kind in order})
        cells = []
        for place in (0, 1):
            middle = {
                kind: statistics.median(one[kind][place] for one in rounds) for kind in ("native", "python")
            }
            ratio = statistics.median(one["native"][place] / one["python"][place] for one in rounds)
            cells += [f"{middle['native']:.0f}", f"{middle['python']:.0f}", f"{ratio:.2f}"]
        print(f"| {suite_id} | {' | '.join(cells)} |", flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
