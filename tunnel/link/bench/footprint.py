"""What one `pqlink` takes: bytes of the program, resident memory with one peer, start to first handshake.

    python tunnel/link/bench/footprint.py PQLINK [--rounds 9]

Both ends run on loopback. A round starts the station, waits until it listens, starts the drone, and reads the
drone's log: from just before the process is made to its line of the first session, ms, which `exec`, the
reading of keys and the handshake are in. Resident memory is read two seconds later, from /proc (VmRSS, and of
it what is shared with files: RssFile), and again after a flood of plaintext. Prints JSON; judges nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

SETTLED_S = 2.0
FLOOD_COUNT = 50_000


def free_port(kind: socket.SocketKind) -> int:
    """A port that is free now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def configure(folder: Path) -> int:
    """Both configurations; returns the drone's port of plaintext."""
    udp, tcp = socket.SOCK_DGRAM, socket.SOCK_STREAM
    handshake, gcs, drone = free_port(tcp), free_port(udp), free_port(udp)
    plaintext = free_port(udp)
    for role, own, peer in (("gcs", gcs, drone), ("drone", drone, gcs)):
        lines = [
            f'role = "{role}"',
            f'handshake = "127.0.0.1:{handshake}"',
            f'sealed = "127.0.0.1:{own}"',
            f"peer_port = {peer}",
            f'plaintext = "127.0.0.1:{plaintext if role == "drone" else free_port(udp)}"',
            f'application = "127.0.0.1:{free_port(udp)}"',
            f'gcs_key = "keys/{"gcs.key" if role == "gcs" else "gcs.pub"}"',
            'drone_key = "keys/drone.key"',
        ]
        (folder / f"{role}.toml").write_text("\n".join(lines) + "\n", "utf-8")
    return plaintext


def flood(port: int) -> None:
    """Datagrams of 1,200 B as fast as they go: every receive buffer is used."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
        for _ in range(FLOOD_COUNT):
            source.sendto(bytes(1200), ("127.0.0.1", port))


def memory_kib(pid: int) -> dict[str, int]:
    """VmRSS and its parts, KiB."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    pairs = (line.split(":", 1) for line in lines)
    return {name: int(value.split()[0]) for name, value in pairs if name in {"VmRSS", "RssAnon", "RssFile"}}


def one_round(program: Path) -> dict[str, Any]:
    """One start of both ends."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run([program, "keygen", folder / "keys"], check=True, stdout=subprocess.DEVNULL)
        plaintext = configure(folder)
        station = subprocess.Popen([program, "up", folder / "gcs.toml"], stderr=subprocess.DEVNULL)
        drone: subprocess.Popen[str] | None = None
        try:
            while not (folder / "gcs.sock").exists():
                if station.poll() is not None:
                    raise RuntimeError(f"the station ended with {station.returncode}")
                time.sleep(0.01)
            begun_ns = time.monotonic_ns()
            drone = subprocess.Popen(
                [program, "up", folder / "drone.toml"], stderr=subprocess.PIPE, text=True, bufsize=1
            )
            assert drone.stderr is not None
            line = next(line for line in drone.stderr if "new session" in line)
            start_ms = (time.monotonic_ns() - begun_ns) / 1e6
            time.sleep(SETTLED_S)
            quiet = memory_kib(drone.pid), memory_kib(station.pid)
            flood(plaintext)
            time.sleep(SETTLED_S)
            return {
                "start_to_handshake_ms": start_ms,
                "line": line.strip(),
                "drone_kib": quiet[0],
                "gcs_kib": quiet[1],
                "drone_after_flood_kib": memory_kib(drone.pid),
                "gcs_after_flood_kib": memory_kib(station.pid),
            }
        finally:
            for process in (drone, station):
                if process is not None:
                    process.terminate()
                    process.wait(10)


def main() -> None:
    """Run the rounds and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    rounds = [one_round(given.program) for _ in range(given.rounds)]
    starts = sorted(one["start_to_handshake_ms"] for one in rounds)
    print(
        json.dumps(
            {
                "program_bytes": given.program.stat().st_size,
                "rounds": given.rounds,
                "start_to_handshake_ms": {
                    "median": statistics.median(starts),
                    "min": starts[0],
                    "max": starts[-1],
                },
                **{
                    name: max((one[name] for one in rounds), key=lambda kib: kib["VmRSS"])
                    for name in rounds[0]
                    if name.endswith("_kib")
                },
                "load_average": os.getloadavg()[0],
                "example": rounds[-1]["line"],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
