"""Pairs of conditions, cell against cell within a block, and the noise floor from A/A twins.

A pair is two cells that passed, of one run, suite, block and repetition, under the two conditions. Blocks
are short and their order is drawn from the seed, so slow drift of the machine reaches both cells of a pair
alike and what is left of it has no preferred sign; `gap` keeps how far apart the two stood. A bundle that was
added to holds blocks whose cells are of different runs, maybe days apart: such cells are no pair.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from pqbase.documents import Json, rows_of, whole_of
from pqevidence.analysis.floor import Null, cost_class
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.metrics import Metric
from pqevidence.limits import MIN_FLOOR_PAIRS_COUNT
from pqevidence.record.rings import weakest

#: what a noise floor was measured on
TWINS = "A/A twins"


@dataclass(frozen=True)
class Contrast:
    """`condition` against `reference`; twins: an A/A pair, where no effect can be true."""

    condition: str
    reference: str
    twins: bool


@dataclass(frozen=True)
class CellPair:
    """Two comparable cells; gap: positions from the reference to the condition's cell."""

    suite_id: str
    block: int
    reference: str
    condition: str
    ring: str
    gap: int


@dataclass(frozen=True)
class Difference:
    """One pair's effect: ln(condition / reference), or points; cost: the class of the reference's value."""

    pair: CellPair
    value: float
    cost: int = 0


def conditions_of(bundle: BundleData) -> list[Json]:
    """The effective conditions, in the order of the plan."""
    listed = rows_of(bundle.plan, "conditions", []) or bundle.conditions
    return [dict(condition) for condition in listed]


def scenario_order(bundle: BundleData) -> dict[str, int]:
    """Condition → its place in the scenario."""
    return {str(condition.get("name")): index for index, condition in enumerate(bundle.conditions)}


def first_conditions(bundle: BundleData) -> dict[str, str]:
    """Suite → the first condition of the scenario that it was planned in, whether or not a cell passed."""
    place = scenario_order(bundle)
    first: dict[str, str] = {}
    for cell in bundle.cells:
        known = first.setdefault(cell.suite_id, cell.condition)
        if place.get(cell.condition, len(place)) < place.get(known, len(place)):
            first[cell.suite_id] = cell.condition
    return first


def contrasts_of(conditions: list[Json]) -> list[Contrast]:
    """Every condition against the first; twins against what they repeat; a set link also against the empty
    one (the router in the path, nothing set), which isolates the impairment from the router."""
    found: list[Contrast] = []
    own = [c for c in conditions if not c.get("aa_of")]
    for condition in conditions:
        if condition.get("aa_of"):
            found.append(Contrast(str(condition["name"]), str(condition["aa_of"]), True))
    for condition in own[1:]:
        found.append(Contrast(str(condition["name"]), str(own[0]["name"]), False))
    for condition in own:
        if not _link_is_set(condition.get("link")):
            continue
        for control in own[1:]:
            if _link_is_empty(control.get("link")) and _agree(condition, control):
                found.append(Contrast(str(condition["name"]), str(control["name"]), False))
    return found


def _link_is_set(link: object) -> bool:
    return isinstance(link, dict) and not _link_is_empty(link)


def _link_is_empty(link: object) -> bool:
    """A router that changes nothing: no direction, or directions whose every setting is absent or zero."""
    return isinstance(link, dict) and not any(_any_set(link.get(way)) for way in ("up", "down"))


def _any_set(value: object) -> bool:
    if isinstance(value, dict):
        return any(_any_set(inner) for key, inner in value.items() if key != "distribution")
    return value not in (None, 0, 0.0, "none", "")


def _agree(one: Json, other: Json) -> bool:
    apart = {"name", "link", "aa_of"}
    return {k: v for k, v in one.items() if k not in apart} == {
        k: v for k, v in other.items() if k not in apart
    }


def pairs_of(cells: Iterable[Cell], contrast: Contrast) -> list[CellPair]:
    """Pairs within blocks of one run, in the order of suites and blocks."""
    sides: dict[str, dict[tuple[str, int, int], Cell]] = defaultdict(dict)
    for cell in cells:
        if cell.verdict == "pass" and cell.condition in (contrast.condition, contrast.reference):
            block = whole_of(cell.plan, "block")
            sides[cell.condition][cell.suite_id, block, cell.repetition] = cell
    found = []
    for key, cell in sides[contrast.condition].items():
        reference = sides[contrast.reference].get(key)
        if reference is not None and cell.earlier_run == reference.earlier_run:
            found.append(pair_of(reference, cell, key[1]))
    return found


def pair_of(reference: Cell, cell: Cell, block: int) -> CellPair:
    """The pair of that block."""
    return CellPair(
        suite_id=reference.suite_id,
        block=block,
        reference=reference.cell_id,
        condition=cell.cell_id,
        ring=weakest((reference.ring, cell.ring)),
        gap=whole_of(cell.plan, "position") - whole_of(reference.plan, "position"),
    )


def differences_of(pairs: Iterable[CellPair], metric: Metric, values: dict[str, float]) -> list[Difference]:
    """Effects of the pairs that have the metric at both ends; a ratio needs two positive values."""
    found = []
    for pair in pairs:
        before, after = values.get(pair.reference), values.get(pair.condition)
        if before is None or after is None:
            continue
        if metric.scale == "difference":
            found.append(Difference(pair, after - before))
        elif before > 0.0 and after > 0.0:
            found.append(Difference(pair, math.log(after / before), cost_class(before)))
    return found


def equal_cells(bundle: BundleData, metric: Metric, values: dict[str, float]) -> tuple[list[Difference], str]:
    """Differences where nothing differs, and what they are of: A/A twins where they suffice for a floor, else
    steps between consecutive repetitions of one suite, condition and run, which hold drift as well."""
    twins = [
        difference
        for contrast in contrasts_of(conditions_of(bundle))
        if contrast.twins
        for difference in differences_of(pairs_of(bundle.cells, contrast), metric, values)
    ]
    if len(twins) >= MIN_FLOOR_PAIRS_COUNT:
        return twins, TWINS
    steps = steps_of(bundle.cells, metric, values)
    return (steps, "repetitions") if len(steps) >= MIN_FLOOR_PAIRS_COUNT else (twins, TWINS)


def steps_of(cells: Iterable[Cell], metric: Metric, values: dict[str, float]) -> list[Difference]:
    """From each repetition of a suite, condition and run to the next one among these cells."""
    groups: dict[tuple[str, str, str | None], list[Cell]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: cell.repetition):
        if cell.verdict == "pass":
            groups[cell.suite_id, cell.condition, cell.earlier_run].append(cell)
    return differences_of((_step(*two) for row in groups.values() for two in pairwise(row)), metric, values)


def _step(one: Cell, other: Cell) -> CellPair:
    ring = weakest((one.ring, other.ring))
    gap = whole_of(other.plan, "position") - whole_of(one.plan, "position")
    return CellPair(one.suite_id, one.repetition, one.cell_id, other.cell_id, ring, gap)


def null_of(differences: Iterable[Difference], metric: Metric) -> Null:
    """A/A differences as what a metric's effects are held against."""
    assumed = math.log(metric.assumed_floor) if metric.scale == "ratio" else metric.assumed_floor
    return Null(((d.value, d.cost) for d in differences), assumed)


def costs_of(differences: Iterable[Difference]) -> list[int]:
    """Class of cost of every difference, as `Null.floor` takes them."""
    return [difference.cost for difference in differences]
