"""Long searches, one target after another in a few niced processes; facts go to campaign-log/.

    python tests/fuzz/campaign.py --hours 1 --jobs 3 [--seed N] [TARGET...]

Each finished search adds one row to campaign-log/<target>.json: executions, wall and CPU seconds, findings.
Stop it with Ctrl-C: rows written so far stay. New inputs join the corpus at the end of each search.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import targets  # noqa: E402

LOG = HERE / "campaign-log"
ORDER = (
    "wire-body",
    "handshake-relay",
    "session",
    "session-native",
    "handshake-gcs",
    "handshake-drone",
    "rpc-server",
    "wire-header",
    "rpc-client",
)
"""What strangers reach first; the rest follows."""


def rows_of(target: str) -> list[dict[str, Any]]:
    """Rows of the searches so far."""
    path = LOG / f"{target}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))["searches"]) if path.is_file() else []


def add(target: str, row: dict[str, Any]) -> None:
    """One more search, and the sums."""
    rows = [*rows_of(target), row]
    document = {
        "target": target,
        "wall_h": round(sum(r["wall_s"] for r in rows) / 3600, 3),
        "cpu_h": round(sum(r["cpu_s"] for r in rows) / 3600, 3),
        "executions": sum(r["executions"] for r in rows),
        "searches": rows,
    }
    LOG.mkdir(exist_ok=True)
    (LOG / f"{target}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def search(target: str, seconds: float, seed: int, lock: threading.Lock) -> None:
    """One search in a process of its own, at the lowest priority."""
    command = [
        "nice",
        "-n",
        "19",
        sys.executable,
        str(HERE / "run.py"),
        target,
        "--seconds",
        str(seconds),
        "--seed",
        str(seed),
        "--keep",
    ]
    asked = ["git", "-C", str(HERE), "rev-parse", "--short=12", "HEAD"]
    revision = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode not in (0, 1) or not lines:
        print(f"{target}: no result (code {done.returncode}): {(done.stderr or '')[-300:]}", flush=True)
        return
    row = {"began": began, "revision": revision, **json.loads(lines[-1])}
    row.pop("target")
    with lock:
        add(target, row)
    print(
        f"{target}: {row['executions']} executions in {row['wall_s']:.0f} s, {len(row['findings'])} findings",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    everything = [*ORDER, *sorted(set(targets.names()) - set(ORDER))]
    wanted = [name for name in args.targets or everything if not targets.find(name).missing()]
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in wanted:
        todo.put(name)
    lock = threading.Lock()

    def work() -> None:
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                return
            search(name, args.hours * 3600, args.seed, lock)

    workers = [threading.Thread(target=work) for _ in range(args.jobs)]
    print(
        f"{len(wanted)} targets, {args.jobs} at a time, {args.hours:g} h each; pid {os.getpid()}", flush=True
    )
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return 1 if any(row["findings"] for name in wanted for row in rows_of(name)) else 0


if __name__ == "__main__":
    sys.exit(main())
