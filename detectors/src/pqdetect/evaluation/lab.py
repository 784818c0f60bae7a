"""What detectors cost and said in campaigns of the lab: from the analysis files of sealed bundles.

Read are `data/run.json`, `data/analysis/detectors.csv` (one row a cell, from the lab's analysis) and the line
of an episode in `data/cells/<id>/attack.ndjson`; nothing of the lab's code.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from pqdetect.errors import DetectError
from pqdetect.evaluation.metrics import proportion, rate
from pqdetect.evaluation.results import Attack, Campaign, Condition, Lab, Spread
from pqdetect.evaluation.truth import WINDOW_S

Row = dict[str, str]
NONE: Final = "none"
#: fewer values give their range, no interval
LEAST_FOR_INTERVAL: Final = 6


def read(bundles: Sequence[Path]) -> Lab:
    """Figures by bundle and condition. Raises DetectError for a folder that is no bundle with detectors."""
    return {"bundles": [_bundle(path) for path in bundles]}


def _bundle(folder: Path) -> Campaign:
    data = folder / "data"
    try:
        run = json.loads((data / "run.json").read_text())
        with (data / "analysis" / "detectors.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError as error:
        raise DetectError(
            f"{folder} is no bundle of a campaign with detectors: it has no {Path(error.filename).name}",
            code="bundle",
            hint="./pqlab run detectors; other campaigns are judged by recordings (--live)",
        ) from error
    except (OSError, ValueError) as error:
        raise DetectError(
            f"{folder} is no bundle of a campaign with detectors: {error}",
            code="bundle",
            hint="./pqlab run detectors",
        ) from error
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["verdict"] == "pass":
            groups[row["condition"]].append(row)
    verdicts = [row["verdict"] for row in rows]
    return {
        "run_id": run["run_id"],
        "scenario": run["scenario"],
        "ring": rows[0]["ring"] if rows else None,
        "loadavg": [round(run["loadavg_start"][0], 1), round(run["loadavg_end"][0], 1)],
        "cells": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        "conditions": [_condition(name, members, data) for name, members in groups.items()],
    }


def _condition(name: str, rows: list[Row], data: Path) -> Condition:
    others = _numbers(rows, "others_cpu_ms")
    told: Condition = {
        "condition": name,
        "detector": rows[0]["detector"],
        "n": len(rows),
        "attack": _attack(rows, data),
        "others_cpu_ms_max": max(others, default=None),
        "others_n": len(others),
    }
    if rows[0]["detector"] in ("", NONE):
        return told
    due, made = sum(_numbers(rows, "due_count")), sum(_numbers(rows, "verdict_count"))
    episodes, found = sum(_numbers(rows, "episode_count")), sum(_numbers(rows, "detected_count"))
    quiet_h = made * WINDOW_S / 3600
    return {
        **told,
        "model": rows[0]["model"],
        "history": rows[0]["history"],
        "cpu_pct": spread(_numbers(rows, "cpu_mean_pct")),
        "rss_mb": spread(_numbers(rows, "rss_mb")),
        # Of each cell its largest: a cell of a few seconds has too few windows for a p95.
        "latency_max_ms": spread(_numbers(rows, "latency_max_ms")),
        "due": int(due),
        "verdicts": int(made),
        "late": int(sum(_numbers(rows, "deadline_missed_count"))),
        # of a condition with an attack the time of the attack is not told apart here
        "false_alarms": rate(int(sum(_numbers(rows, "false_alarm_count"))), 0.0 if episodes else quiet_h),
        "found": proportion(int(found), int(episodes)),
        "delay_s": spread(_numbers(rows, "delay_s")),
        "canaries": proportion(sum(row["canary_raised"] == "true" for row in rows), len(rows)),
        "canary_delay_s": spread(_numbers(rows, "canary_delay_s")),
    }


def _attack(rows: list[Row], data: Path) -> Attack | None:
    """Kind and rate of the first episode in the first cell of a condition; None without an attack."""
    path = data / "cells" / rows[0]["cell_id"] / "attack.ndjson"
    if not path.is_file():
        return None
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "kind" in row:
            return {
                "kind": row["kind"],
                "rate_pps": row["rate_pps"],
                "for_s": row["for_s"],
                "path": row["path"],
            }
    return None


def _numbers(rows: list[Row], column: str) -> list[float]:
    return [float(row[column]) for row in rows if row[column] != ""]


def spread(values: Sequence[float]) -> Spread:
    """Median with its exact 95 % interval from order statistics; of fewer than 6 values their range."""
    n, ordered = len(values), sorted(values)
    if n == 0:
        return {"value": None, "reason": "no such figure in these cells", "n": 0}
    place = 0
    if n >= LEAST_FOR_INTERVAL:
        # the greatest k with P(Bin(n, 1/2) < k) ≤ 2.5 %: k values may lie beyond either bound
        tail = 0.0
        while (tail := tail + math.comb(n, place) / 2**n) <= 0.025:
            place += 1
        place = max(place - 1, 0)
    return {
        "value": round(median(ordered), 4),
        "low": round(ordered[place], 4),
        "high": round(ordered[n - 1 - place], 4),
        "max": round(ordered[-1], 4),
        "n": n,
        "what": "95 % interval of the median" if n >= LEAST_FOR_INTERVAL else "range",
    }
