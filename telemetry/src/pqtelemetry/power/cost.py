"""What the fast sampler costs the host it measures: a fixed piece of work with and without it, in turn.

Rounds alternate (off, on, off, on, …), so that a drift of the machine meets both alike. The work is the same
loop on every core but none is pinned: what is reported is how much less of it was done.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pqtelemetry.errors import TelemetryError, UsageError

_SETTLE_S: Final = 2.0
"""Preflight of the sampler, which is no part of its cost."""


def measure(settings: Path | None, rounds: int, round_s: float) -> dict[str, Any]:
    """Work per second without and with the sampler, and the sampler's own accounting.

    Raises UsageError for too few rounds, TelemetryError when the sampler does not run.
    """
    if rounds < 3 or round_s < 1:
        raise UsageError("a spread needs three rounds of a second or more")
    off: list[float] = []
    on: list[float] = []
    accounting: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            off.append(_work(round_s))
            accounting.append(_with_sampler(settings, Path(folder), round_s, on))
    losses = [100.0 * (1.0 - with_it / without) for without, with_it in zip(off, on, strict=True)]
    return {
        "rounds": rounds,
        "round_s": round_s,
        "load_average": list(os.getloadavg()),
        "work_off_per_s": round(statistics.fmean(off), 1),
        "work_on_per_s": round(statistics.fmean(on), 1),
        "loss_pct": {
            "mean": round(statistics.fmean(losses), 3),
            "u_95": round(2.0 * statistics.stdev(losses) / math.sqrt(rounds), 3),
        },
        "sampler_cpu_pct": [row["cpu_pct"] for row in accounting],
        "within_half_ms_pct": [row["within_half_ms_pct"] for row in accounting],
    }


def _work(seconds: float) -> float:
    """Thousands of additions a second, on as many processes as there are cores."""
    code = (
        "import sys,time\nend=time.monotonic()+float(sys.argv[1])\nn=0\n"
        "while time.monotonic()<end:\n for _ in range(1000): pass\n n+=1\nprint(n)"
    )
    cores = len(os.sched_getaffinity(0))
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(seconds)], stdout=subprocess.PIPE)
        for _ in range(cores)
    ]
    return sum(int(process.communicate()[0]) for process in running) / seconds


def _with_sampler(settings: Path | None, folder: Path, round_s: float, on: list[float]) -> dict[str, Any]:
    given = ["--sensor", "model"] if settings is None else ["--settings", str(settings)]
    command = [sys.executable, "-m", "pqtelemetry", "power", *given, "--out", str(folder / "power.bin")]
    sampler = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(_SETTLE_S)
        on.append(_work(round_s))
    finally:
        sampler.terminate()
        out, complaint = sampler.communicate()
    rows = [json.loads(line) for line in out.splitlines() if line.startswith('{"accounting"')]
    if not rows:
        raise TelemetryError(f"the sampler did not run: {complaint.strip()[:300]}")
    counts: dict[str, Any] = rows[0]["accounting"]
    return counts
