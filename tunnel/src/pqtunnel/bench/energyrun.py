"""A whole energy run: known answers, sensor, blocks into blocks.ndjson as they end."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pqbase.documents import Json, whole_of
from pqtunnel.bench import energy, folder, powerlog, runner, timing
from pqtunnel.bench.operations import Benchmark
from pqtunnel.bench.progress import Progress
from pqtunnel.bench.rawfiles import BenchError, write_whole

MODE: Final = "energy"
BLOCKS: Final = "blocks.ndjson"


class _Clock:
    monotonic_ns = staticmethod(time.monotonic_ns)
    sleep = staticmethod(time.sleep)


def run(
    root: Path,
    benchmarks: Sequence[Benchmark],
    plan: energy.Plan,
    cpu: int | None,
    sensor: str | None,
    settings: Path | None,
    progress: Progress,
) -> Json:
    """Fill a fresh `root`. Raises BenchError without a named, working sensor, or where `root` is in use."""
    with folder.held(root, MODE):
        if (root / BLOCKS).exists():
            raise BenchError(
                "this folder holds an energy run already", hint="give another --out, or report this one"
            )
        path = powerlog.settings(sensor, settings, root)
        bound = powerlog.bound_bytes(path, root, energy.length_s(len(benchmarks), plan))
        answers = runner.known_answers()
        turns = energy.order(benchmarks, plan)
        # in this order: the sampler must not inherit the core where the work will be
        with (
            powerlog.PowerLog(path, root, bound, runner.other_cpu(cpu)) as log,
            runner.pinned(cpu) as core,
        ):
            facts = runner.environment(MODE, core, timing.timer_overhead_ns())
            write_whole(root / folder.ENVIRONMENT, {**facts, "selftest": answers, "power": log.header})
            lost_at = _write(root, turns, plan, facts, log, progress)
        end = {"sampler_lost_at_block": lost_at, "accounting": log.accounting}
        write_whole(root / "power.json", end)
        dropped = whole_of(log.accounting or {}, "dropped_count", 0)
        ok = lost_at is None and dropped == 0
        return {
            "blocks": len(turns),
            "operations": len(benchmarks),
            **end,
            "samples_dropped": dropped,
            "ok": ok,
        }


def _write(
    root: Path,
    turns: Sequence[energy.Turn],
    plan: energy.Plan,
    facts: Json,
    log: powerlog.PowerLog,
    progress: Progress,
) -> int | None:
    """All rows; returns the block at which the sampler was found dead, if it was."""
    each_ms = energy.length_s(1, plan) / (2 * plan.blocks) * 1e3
    lost_at: int | None = None
    try:
        with (root / BLOCKS).open("w", encoding="utf-8") as file:
            file.write(energy.header(plan, facts, log.header) + "\n")
            for row in energy.rows(turns, plan, _Clock()):
                file.write(json.dumps(row) + "\n")
                file.flush()
                index = row["index"]
                if row["kind"] == "idle" and index < len(turns):
                    turn = turns[index]
                    what = f"{turn.benchmark.algorithm} {turn.benchmark.operation} × {turn.multiple}"
                    progress.begin(index + 1, len(turns), what, each_ms * (len(turns) - index))
                if lost_at is None and not log.alive:
                    lost_at = index
    except OSError as error:
        raise BenchError(
            f"{BLOCKS} cannot be written: {error.strerror}", hint="free some space, or give another --out"
        ) from error
    progress.end()
    return lost_at
