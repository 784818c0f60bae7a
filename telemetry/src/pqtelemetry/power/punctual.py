"""Does the fast sampler keep its schedule, and at what cost? Measured beside a loop that only wakes up.

Rounds alternate: the sampler on its sensor, then the bare loop, in processes of their own, with the same
priority, core and kind of wait. What the bare loop misses is the machine's own doing (a hypervisor that ran
somebody else), so the ratio of the two is the sampler's, and the bare loop's figure tells how far the machine
can be trusted.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from pqbase.documents import Json, number_of, part_of, rows_of, whole_of
from pqtelemetry.clock import SystemClock
from pqtelemetry.errors import TelemetryError, UsageError
from pqtelemetry.ina219 import native
from pqtelemetry.power.realtime import be_punctual
from pqtelemetry.schedule import Schedule

WITHIN_PCT: Final = 99.5
CPU_PCT: Final = {"native": 2.0, "python": 5.0}
"""Targets: share of samples within ± 0.5 ms of their deadline; of one core, by the kind of loop."""
_HALF_MS_NS: Final = 500_000
_STAT: Final = Path("/proc/stat")


def measure(settings: Path | None, rounds: int, round_s: float) -> Json:
    """Rounds of sampler and bare loop, their medians, and the targets they met or missed.

    Raises UsageError for too few rounds, TelemetryError when the sampler does not run.
    """
    if rounds < 3 or round_s < 1:
        raise UsageError("a median needs three rounds of a second or more")
    rows: list[Json] = []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(rounds):
            given = ["--sensor", "model"] if settings is None else ["--settings", str(settings)]
            raw = Path(folder) / f"{index}.bin"
            sampler = ["power", *given, "--out", str(raw), "--duration-s", str(round_s)]
            rows.append({"kind": "sampler", **_measured(sampler, round_s)})
            rows.append({"kind": "bare", **_measured(["power-bare", "--duration-s", str(round_s)], round_s)})
    return {"rounds": rounds, "round_s": round_s, "rows": rows, **summary(rows)}


def summary(rows: list[Json]) -> Json:
    """Medians over the rounds of each kind, sampler ÷ bare, and each target with what was measured."""
    told: Json = {}
    for kind in ("sampler", "bare"):
        own = [row for row in rows if row["kind"] == kind]
        for name in ("within_half_ms_pct", "cpu_pct", "steal_pct"):
            told[f"{kind}_{name}"] = round(statistics.median(number_of(row, name) for row in own), 3)
    counts = [part_of(row, "counts") for row in rows if row["kind"] == "sampler"]
    accounted = all(
        whole_of(row, "expected_count") == _sum_of(row, "got_count", "late_count", "lost_count")
        and _sum_of(row, "got_count", "late_count")
        == _sum_of(row, "stored_count", "stale_count", "failed_count")
        for row in counts
    )
    loop = next(str(row["loop"]) for row in rows if row["kind"] == "sampler")
    cpu_limit = CPU_PCT[loop]
    within, cpu = number_of(told, "sampler_within_half_ms_pct"), number_of(told, "sampler_cpu_pct")
    bare_cpu = number_of(told, "bare_cpu_pct")
    targets = [
        {"target": f"within ± 0.5 ms ≥ {WITHIN_PCT} %", "measured": within, "met": within >= WITHIN_PCT},
        {"target": f"{loop} loop ≤ {cpu_limit:g} % of a core", "measured": cpu, "met": cpu <= cpu_limit},
        {"target": "expected = got + late + lost", "measured": len(counts), "met": accounted},
    ]
    ratios = {
        "within_ratio": round(within / number_of(told, "bare_within_half_ms_pct"), 4),
        "cpu_ratio": round(cpu / bare_cpu, 3) if bare_cpu else None,
    }
    return {"loop": loop, **told, **ratios, "targets": targets}


def _sum_of(row: Json, *names: str) -> int:
    return sum(whole_of(row, name) for name in names)


def bare(duration_s: float, rate_hz: float, clock: SystemClock) -> Json:
    """A loop that wakes up at each deadline and takes no sample; its counts as the sampler's.

    Raises TelemetryError when the kernel gives no timer.
    """
    scheduling = be_punctual()
    schedule = Schedule(clock.monotonic_ns() + 1_000_000, round(1e9 / rate_hz))
    within = 0
    cpu_s = time.process_time()
    if native.AVAILABLE:
        within = native.wake_up(schedule, round(duration_s * rate_hz))
    else:
        for _ in range(round(duration_s * rate_hz)):
            clock.wait_until(schedule.next_deadline_ns)
            tick = schedule.take(clock.monotonic_ns())
            within += tick is not None and tick.lateness_ns <= _HALF_MS_NS
    counts = {
        "expected_count": schedule.expected_count,
        "got_count": schedule.got_count,
        "late_count": schedule.late_count,
        "lost_count": schedule.lost_count,
        "cpu_pct": round(100 * (time.process_time() - cpu_s) / duration_s, 2),
        "within_half_ms_pct": round(100 * within / schedule.expected_count, 3),
    }
    loop = "native" if native.AVAILABLE else "python"
    return {"accounting": counts, "scheduling": scheduling, "loop": loop}


def _measured(arguments: list[str], round_s: float) -> Json:
    """One child, its accounting, and the machine's steal and load meanwhile."""
    before = _times()
    done = subprocess.run(
        [sys.executable, "-m", "pqtelemetry", *arguments],
        capture_output=True,
        text=True,
        timeout=60 + 2 * round_s,
        check=False,
    )
    if sys.platform == "win32":
        raise OSError("Linux alone: verbs.linux_only refuses it")
    after = _times()
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ends = [row for row in lines if "accounting" in row]
    if done.returncode != 0 or not ends:
        raise TelemetryError(f"{arguments[0]} did not run: {done.stderr.strip()[:300]}")
    said = next((row["ready"] for row in lines if "ready" in row), ends[0])
    total = sum(after) - sum(before)
    counts: Json = ends[0]["accounting"]
    return {
        "within_half_ms_pct": counts["within_half_ms_pct"],
        "cpu_pct": counts["cpu_pct"],
        "steal_pct": round(100 * (after[7] - before[7]) / total, 2) if total else 0.0,
        "load1": os.getloadavg()[0],
        "scheduling": said["scheduling"],
        "loop": said["loop"],
        "counts": counts,
    }


def _times() -> list[int]:
    """Ticks of all cores: user, nice, system, idle, iowait, irq, softirq, steal."""
    return [int(word) for word in _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]


def table(result: Json) -> str:
    """The rows and the verdicts as Markdown."""
    lines = [
        f"{result['rounds']} rounds of {result['round_s']:g} s each, {result['loop']} loop",
        "",
        "| loop | within ± 0.5 ms, % | CPU, % of a core | expected = got + late + lost | steal, % | load |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows_of(result, "rows"):
        counts = part_of(row, "counts")
        parts = "{expected_count} = {got_count} + {late_count} + {lost_count}".format(**counts)
        lines.append(
            f"| {row['kind']} | {row['within_half_ms_pct']:.2f} | {row['cpu_pct']:.2f} | {parts} "
            f"| {row['steal_pct']:.1f} | {row['load1']:.2f} |"
        )
    for kind in ("sampler", "bare"):
        within, cpu = result[f"{kind}_within_half_ms_pct"], result[f"{kind}_cpu_pct"]
        steal = result[f"{kind}_steal_pct"]
        lines.append(f"| median of {kind} | {within:.2f} | {cpu:.2f} | | {steal:.1f} | |")
    cpu_ratio = "–" if result["cpu_ratio"] is None else f"{result['cpu_ratio']:.2f}"
    lines += [f"| sampler ÷ bare | {result['within_ratio']:.4f} | {cpu_ratio} | | | |", ""]
    for row in rows_of(result, "targets"):
        lines.append(f"[{'x' if row['met'] else ' '}] {row['target']}: {row['measured']}")
    lines.append(f"scheduling: {rows_of(result, 'rows')[0]['scheduling']}")
    return "\n".join(lines)
