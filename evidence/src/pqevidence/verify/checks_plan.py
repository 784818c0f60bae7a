"""The plan: valid, complete, every cell in it exactly once, every id what its content says."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable

from pqbase.documents import numbers_of, part_or_none, rows_of, texts_of, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import MOST_CELLS, BundleView
from pqevidence.record.raw import Json
from pqevidence.verify.checks_share import owned

VERDICTS = ("pass", "fail", "unsupported", "invalid", "not-run")
CELL_BLOCKS = ("handshake", "traffic", "bulk", "ledger", "telemetry")
#: of a condition: where it applies, which is no part of a cell's identity
_SCOPE_KEYS = ("suites", "repetitions")


def scenario_schema(bundle: BundleView, tally: Tally) -> None:
    """The effective scenario is valid, and the plan was made from these very bytes."""
    tally.see()
    for text in bundle.scenario_errors:
        tally.fail(text)
    content = (bundle.data / "scenario.effective.yml").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    claimed = bundle.plan.get("scenario_sha256")
    tally.require(
        digest == claimed, f"scenario has sha256 {digest[:12]}…, the plan names {str(claimed)[:12]}…"
    )


def plan_schema(bundle: BundleView, tally: Tally) -> None:
    """plan.json is complete, and belongs to the run whose name the folder and run.json carry."""
    for text in bundle.plan_errors:
        tally.fail(text)
    tally.looked = len(bundle.plan["cells"])
    if tally.looked > MOST_CELLS:
        return
    positions = sorted(int(cell["position"]) for cell in bundle.plan["cells"])
    tally.require(positions == list(range(len(positions))), "positions are not 0, 1, 2, …")
    seed, asked = bundle.plan.get("seed"), bundle.raw.scenario.get("seed", 1)
    tally.require(seed == asked, f"the plan is of campaign seed {seed}, the scenario asks for {asked}")
    run_id = bundle.raw.run.get("run_id")
    tally.require(run_id == bundle.plan.get("run_id"), f"run.json is of {run_id}, the plan of another run")
    _budget(bundle, tally)


def _budget(bundle: BundleView, tally: Tally) -> None:
    """What the run foretold before its first cell was for as many cells as are planned. Not where it took
    cells over: it foretold its own, and one that corrects none."""
    foretold = bundle.plan["budget"].get("cells")
    counted = isinstance(foretold, int) and not isinstance(foretold, bool)
    if counted and not bundle.raw.run.get("lineage"):
        planned = len(bundle.plan["cells"])
        tally.require(
            foretold == planned,
            f"budget.cells of plan.json says that {foretold} cells were to be run, and {planned} are planned",
        )


def cells_accounted(bundle: BundleView, tally: Tally) -> None:
    """The plan is the scenario's whole matrix; each planned cell has one folder with its own record."""
    planned = Counter(str(cell["cell_id"]) for cell in bundle.plan["cells"])
    for cell_id, count in planned.items():
        tally.see()
        tally.require(count == 1, f"{cell_id} is planned {count} times")
    folder = bundle.data / "cells"
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    for cell_id in sorted(set(planned) - there):
        tally.fail(f"{cell_id} left no folder")
    for cell_id in sorted(there - set(planned)):
        tally.fail(f"{cell_id} was not planned")
    for row in bundle.plan["cells"]:
        path = folder / str(row["cell_id"]) / "record.json"
        if not path.is_file():
            tally.fail(f"{row['cell_id']} has no record.json")
            continue
        record = bundle.record(str(row["cell_id"]))
        for key in ("cell_id", "suite_id", "condition", "repetition", "position"):
            if record.get(key) != row[key]:
                tally.fail(f"{row['cell_id']}: record says {key} {record.get(key)!r}, plan {row[key]!r}")
    _matrix(bundle, tally)


def _matrix(bundle: BundleView, tally: Tally) -> None:
    """(suite, condition, repetition) planned and due are the same set; `only` takes cells out by their id, a
    share holds its own blocks."""
    scenario = bundle.raw.scenario
    rows = bundle.plan["cells"]
    planned = Counter((row["suite_id"], row["condition"], int(row["repetition"])) for row in rows)
    # whether repetitions count from 0 or 1 is the plan's own business
    first = min((place[2] for place in planned), default=1)
    first = min(first, 1)
    repetitions, suites = whole_of(scenario, "repetitions"), texts_of(scenario, "suites")
    mine = owned(bundle.plan, repetitions)
    asked = []
    for condition in rows_of(scenario, "conditions"):
        named = numbers_of(condition, "repetitions") if condition.get("repetitions") else None
        numbers = [number for number in range(repetitions) if named is None or number + 1 in named]
        numbers = [number for number in numbers if mine is None or number in mine]
        asked.append((str(condition["name"]), texts_of(condition, "suites", suites), numbers))
    total = sum(len(named) * len(numbers) for _, named, numbers in asked)
    if total > MOST_CELLS:
        tally.fail(f"the scenario asks for {total} cells, {MOST_CELLS} are the most")
        return
    due = {
        (suite_id, name, first + number)
        for name, named, numbers in asked
        for suite_id in named
        for number in numbers
    }
    if prefixes := tuple(texts_of(scenario, "only", [])):
        due_id = _due_ids(bundle)
        due = {place for place in due if due_id(*place).startswith(prefixes)}
    for place in sorted(set(planned) - due):
        tally.fail(f"{place[0]} under {place[1]} #{place[2]} is planned, the scenario does not ask for it")
    for place in sorted(due - set(planned)):
        tally.fail(f"{place[0]} under {place[1]} #{place[2]} is asked for and not planned")
    for place, count in sorted(planned.items()):
        tally.require(count == 1, f"{place[0]} under {place[1]} #{place[2]} is planned {count} times")


def _due_ids(bundle: BundleView) -> Callable[[str, str, int], str]:
    """(suite, condition, repetition) → 16 hex of SHA-256 over suite, effective settings, repetition and
    provider builds, as one JSON object with sorted keys. What cells of a condition share is hashed once."""
    scenario, providers = bundle.raw.scenario, bundle.raw.providers
    begun = {}

    def due_id(suite_id: str, condition: str, repetition: int) -> str:
        if condition not in begun:
            chosen = bundle.raw.condition(condition)
            shared = {
                "condition": {
                    **{key: value for key, value in chosen.items() if key not in _SCOPE_KEYS},
                    **{block: scenario.get(block) for block in CELL_BLOCKS},
                },
                "providers": {"drone": providers["drone"], "gcs": providers["gcs"]},
            }
            begun[condition] = hashlib.sha256(_canonical(shared)[:-1].encode())
        whole = begun[condition].copy()
        whole.update(b"," + _canonical({"repetition": repetition, "suite": suite_id})[1:].encode())
        return whole.hexdigest()[:16]

    return due_id


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def twins(bundle: BundleView, tally: Tally) -> None:
    """A condition that claims to repeat another one does, and each of its cells has its other half."""
    by_name = {str(c["name"]): c for c in rows_of(bundle.raw.scenario, "conditions")}
    told = bundle.plan.get("conditions")
    agree = told is None or told == list(by_name.values())
    tally.require(agree, "the plan lists other conditions than the scenario")
    planned = {(row["suite_id"], row["condition"], row["repetition"]) for row in bundle.plan["cells"]}
    pairs = 0
    for name, condition in by_name.items():
        base_name = condition.get("aa_of")
        if base_name is None:
            continue
        tally.see()
        base = by_name.get(str(base_name))
        if base is None or base.get("aa_of") is not None:
            tally.fail(f"{name} repeats {base_name}, which is no condition of its own here")
            continue
        apart = ("name", "aa_of", *_SCOPE_KEYS)
        ours, theirs = ({k: v for k, v in c.items() if k not in apart} for c in (condition, base))
        tally.require(ours == theirs, f"{name} claims to repeat {base_name} and is set otherwise")
        for suite_id, _, repetition in sorted(place for place in planned if place[1] == name):
            pairs += 1
            other = (suite_id, base_name, repetition) in planned
            tally.require(other, f"{suite_id} under {name} #{repetition} has no cell under {base_name}")
    tally.note = f"{pairs} A/A pairs"


def cell_ids(bundle: BundleView, tally: Tally) -> None:
    """Each id is 16 hex of SHA-256 over suite, effective settings, repetition and provider builds."""
    due_id = _due_ids(bundle)
    for row in bundle.plan["cells"]:
        tally.see()
        due = due_id(str(row["suite_id"]), str(row["condition"]), row["repetition"])
        if row["cell_id"] != due:
            tally.fail(
                f"{row['suite_id']} #{row['repetition']} is filed as {row['cell_id']}, its content says {due}"
            )


def verdict_counts(bundle: BundleView, tally: Tally) -> None:
    """Each planned cell has one verdict of the five; the counts of run.json, where it has them, are these."""
    counts: Counter[str] = Counter()
    for cell in bundle.cells:
        counts[cell.verdict] += 1
        tally.require(cell.verdict in VERDICTS, f"{cell.label}: verdict {cell.verdict!r}")
    tally.looked = len(bundle.plan["cells"])
    total = sum(counts[verdict] for verdict in VERDICTS)
    tally.require(total == tally.looked, f"{total} verdicts for {tally.looked} planned cells")
    claimed = part_or_none(bundle.raw.run, "verdict_counts")
    if claimed is not None:
        told = {key: value for key, value in claimed.items() if value}
        tally.require(told == dict(counts), f"run.json counts {told}, the records {dict(counts)}")
    tally.note = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
