"""What chance decided, drawn again: seeds of cells and traffic, and the order of the plan, all of them from
the seed of the campaign. Nobody chose them afterwards."""

from __future__ import annotations

import hashlib
import json
import random

from pqbase.documents import rows_of, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import MOST_CELLS, BundleView, CellView
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.record.raw import Json

#: seeds stay exact in every JSON reader
_SEED_BITS = 53
Place = tuple[str, str, int]


def seed_of(campaign_seed: int, suite_id: str, condition: str, repetition: int) -> int:
    """53 bits of SHA-256 over the campaign's seed and the place in the matrix."""
    text = json.dumps([campaign_seed, suite_id, condition, repetition], separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - _SEED_BITS)


def seeds(cell: CellView, tally: Tally) -> None:
    """The plan's seed of each cell follows from the campaign's, and every source of traffic was given it."""
    if not has_witnesses(cell.run):
        tally.note = "not asked of another version"
        return
    tally.see()
    scenario, row = cell.run.scenario, cell.plan
    campaign = whole_of(scenario, "seed") if "seed" in scenario else 1
    due = seed_of(campaign, str(row["suite_id"]), str(row["condition"]), int(row["repetition"]))
    told = row["seed"]
    text = f"seed {told} in plan.json, seed {campaign} of scenario.effective.yml gives {due}"
    tally.require(told == due, f"{cell.label}: {text}")
    for window, report in (cell.raw.traffic or {}).items():
        spec = report.get("spec")
        used = spec.get("seed") if isinstance(spec, dict) else None
        if used is not None:
            same = used == told
            tally.require(same, f"{cell.label} {window}: traffic.json of seed {used}, plan.json has {told}")


def order(bundle: BundleView, tally: Tally) -> None:
    """The order of each run's plan is the one that its scenario's seed and method give. Cells that a run took
    over keep their places; the others follow in its own order."""
    before: set[str] = set()
    for raw in bundle.runs:
        rows = sorted(map(dict, rows_of(raw.plan, "cells")), key=lambda row: whole_of(row, "position"))
        mine = [row for row in rows if str(row["cell_id"]) not in before]
        before |= {str(row["cell_id"]) for row in rows}
        if not has_witnesses(raw):
            tally.note = "not asked of another version"
            continue
        tally.looked += len(mine)
        told = [_place(row) for row in mine]
        _compare(str(raw.run.get("run_id")), told, _due(raw.scenario, told), tally)


def whole_order(scenario: Json) -> list[Place]:
    """Every place of the scenario's matrix in the order in which it is due, repetitions counted from 1."""
    return _due(scenario, [])


def _place(row: Json) -> Place:
    return str(row["suite_id"]), str(row["condition"]), int(row["repetition"])


def _compare(run_id: str, told: list[Place], due: list[Place], tally: Tally) -> None:
    """`due` without what is not planned: whether that is right is for `cells_accounted`."""
    planned = set(told)
    due = [place for place in due if place in planned]
    for number, (ours, theirs) in enumerate(zip(due, told, strict=False)):
        if ours != theirs:
            tally.fail(
                f"run {run_id}: {theirs[0]} under {theirs[1]} #{theirs[2]} is number {number} of plan.json, "
                f"the seed of scenario.effective.yml puts {ours[0]} under {ours[1]} #{ours[2]} there"
            )
            return


def _due(scenario: Json, told: list[Place]) -> list[Place]:
    """Every place of the matrix in the order in which it is due; [] for a matrix beyond reason."""
    conditions, suites = scenario["conditions"], [str(suite) for suite in scenario["suites"]]
    repetitions = int(scenario["repetitions"])
    if len(conditions) * len(suites) * repetitions > MOST_CELLS:
        return []
    # whether repetitions count from 0 or 1 is the plan's own business
    first = min(min((place[2] for place in told), default=1), 1)
    method = str((scenario.get("order") or {}).get("method", "blocked-random"))
    found: list[Place] = []
    for block in range(repetitions):
        matrix = [
            (suite, str(condition["name"]))
            for suite in suites
            for condition in conditions
            if _applies(condition, suite, block)
        ]
        rng = random.Random(f"{scenario.get('seed', 1)}/{block}")
        found += [(*place, first + block) for place in _ordered(matrix, method, block, rng)]
    return found


def _applies(condition: dict[str, object], suite: str, block: int) -> bool:
    suites, repetitions = condition.get("suites"), condition.get("repetitions")
    return (suites is None or (isinstance(suites, list) and suite in suites)) and (
        repetitions is None or (isinstance(repetitions, list) and block + 1 in repetitions)
    )


def _ordered(
    matrix: list[tuple[str, str]], method: str, block: int, rng: random.Random
) -> list[tuple[str, str]]:
    if method == "blocked-random":
        rng.shuffle(matrix)
    elif method == "abba":
        suites = list(dict.fromkeys(suite for suite, _ in matrix))
        rng.shuffle(suites)
        turned = []
        for place, suite in enumerate(suites):
            mine = [row for row in matrix if row[0] == suite]
            turned += mine if (place + block) % 2 == 0 else mine[::-1]
        matrix = turned
    return matrix
