"""What the fast sampler costs the host it measures: a fixed piece of work with and without it, in turn.

Rounds alternate (off, on, off, on, …), so that a drift of the machine meets both alike. The work is the same
loop on every core. Told are the processor time that the sampler takes; how much less work is done in each
second of the worker's own processor time (caches, interrupts); and how much less in each second of the clock,
which on a busy machine is noise, and says so by its uncertainty.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqbase.documents import Json
from pqtelemetry.errors import TelemetryError, UsageError

_SETTLE_S: Final = 2.0
"""Preflight of the sampler, which is no part of its cost."""


def measure(settings: Path | None, rounds: int, round_s: float) -> Json:
    """Work per second without and with the sampler, and the sampler's own accounting.

    Raises UsageError for too few rounds, TelemetryError when the sampler does not run.
    """
    if sys.platform == "win32":
        raise OSError("Linux alone: verbs.linux_only refuses it")
    if rounds < 3 or round_s < 1:
        raise UsageError("a spread needs three rounds of a second or more")
    off: list[Work] = []
    on: list[Work] = []
    accounting: list[Json] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            off.append(_work(round_s))
            accounting.append(_with_sampler(settings, Path(folder), round_s, on))
    return {
        "rounds": rounds,
        "round_s": round_s,
        "load_average": list(os.getloadavg()),
        "loss_per_cpu_second_pct": _loss([(a.per_cpu_s, b.per_cpu_s) for a, b in zip(off, on, strict=True)]),
        "loss_per_second_pct": _loss([(a.per_s, b.per_s) for a, b in zip(off, on, strict=True)]),
        "sampler_cpu_pct": [row["cpu_pct"] for row in accounting],
        "within_half_ms_pct": [row["within_half_ms_pct"] for row in accounting],
    }


@dataclass(frozen=True, slots=True)
class Work:
    """Turns of the loop for each second of the clock, and of the workers' own processor time."""

    per_s: float
    per_cpu_s: float


def _loss(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Mean loss from the first to the second of each pair, per cent, and twice its standard error."""
    losses = [100.0 * (1.0 - with_it / without) for without, with_it in pairs]
    u_pct = 2.0 * statistics.stdev(losses) / math.sqrt(len(losses))
    return {"mean": round(statistics.fmean(losses), 3), "u": round(u_pct, 3)}


def _work(seconds: float) -> Work:
    """The same loop in as many processes as there are cores."""
    code = (
        "import sys,time\nend=time.monotonic()+float(sys.argv[1])\nn=0\n"
        "while time.monotonic()<end:\n for _ in range(1000): pass\n n+=1\nprint(n,time.process_time())"
    )
    if sys.platform == "win32":
        raise OSError("Linux alone: verbs.linux_only refuses it")
    cores = len(os.sched_getaffinity(0))
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(seconds)], stdout=subprocess.PIPE)
        for _ in range(cores)
    ]
    told = [process.communicate()[0].split() for process in running]
    turns, cpu_s = sum(int(row[0]) for row in told), sum(float(row[1]) for row in told)
    return Work(turns / seconds, turns / cpu_s)


def _with_sampler(settings: Path | None, folder: Path, round_s: float, on: list[Work]) -> Json:
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
    counts: Json = rows[0]["accounting"]
    return counts
