"""Two bundles, cell against cell: the runs' difference with intervals and verdicts.

A pair is two cells that passed, of one suite, condition and repetition, one from each bundle. Unlike pairs
within a bundle they were not measured side by side: whatever changed between the two runs is in the effect,
the machine's drift as well as the change under test. origin.py lists what is known to differ. A cell that
both bundles hold byte for byte (`run --into`) is no second measurement and is left out, unless nothing else
is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable

from pqevidence.analysis.claims import (
    ALL_SUITES,
    NOT_DISTINGUISHABLE,
    Tested,
    adjusted,
    effect_values,
    tested_scopes,
)
from pqevidence.analysis.comparison import comparison_table
from pqevidence.analysis.conditions import (
    CellPair,
    Difference,
    costs_of,
    differences_of,
    equal_cells,
    null_of,
    pair_of,
)
from pqevidence.analysis.floor import ASSUMED, MIN_FLOOR_PAIRS_COUNT, Floor, Null
from pqevidence.analysis.groups import by_family_table, by_level_table
from pqevidence.analysis.handshakes import PRIMITIVES, handshake_table, primitive_table
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.merged import MergedData, joined
from pqevidence.analysis.metrics import HANDSHAKE, METRICS, Metric, Values, cell_values
from pqevidence.analysis.origin import imitated
from pqevidence.analysis.stats import INSUFFICIENT, median
from pqevidence.analysis.system import cpu_table
from pqevidence.analysis.table import Row, Table, Value, present
from pqevidence.analysis.traffic import traffic_table

NAME = "compare"
#: Metrics of these units are times of a processor, or shares of one.
TIMED_UNITS = ("ms", "%")
SAME_CELLS = "the same cells on both sides"
#: files that hold the times of one execution: equal bytes are one measurement
_EXECUTION = ("record.json", "events.ndjson", "spans.ndjson")
COLUMNS = (
    "condition", "metric", "unit", "scale", "scope", "ring", "n_pairs", "n_suites", "shared_pairs",
    "a_median", "b_median", "published", "published_source", "published_known_wrong",
    "mean_effect", "robust_effect", "low_effect", "high_effect", "interval_level", "method",
    "p_value", "p_holm", "q_bh", "family_count", "floor_effect", "floor_pairs", "floor_method", "floor_from",
    "visible_effect", "unit_of_inference", "verdict", "reason", "outlier_count", "outlier_cells", "cells_a",
    "cells_b",
)  # fmt: skip
Key = tuple[str, str, int]


@dataclass(frozen=True)
class Unpaired:
    """A cell without a partner, or a pair in which one did not pass."""

    suite_id: str
    condition: str
    repetition: int
    why: str


@dataclass(frozen=True)
class Between:
    """The table of effects, B in place of A, and what could not be compared.

    shared_count: cells that both bundles hold byte for byte; one_run: there are no others; left_out: why no
    time is compared.
    """

    table: Table
    unpaired: list[Unpaired]
    pairs_count: int
    shared_count: int
    one_run: bool
    left_out: str | None = None


@dataclass(frozen=True)
class _Side:
    bundle: BundleData
    values: Values
    handshakes: Table

    @property
    def cells(self) -> dict[Key, Cell]:
        return {(c.suite_id, c.condition, c.repetition): c for c in self.bundle.cells}

    def pair_of(self, cell_id: str) -> str | None:
        """The pair of hosts that measured the cell, where the bundle says so."""
        if isinstance(self.bundle, MergedData):
            return self.bundle.pairs[cell_id]
        told = self.bundle.plan.get("pair")
        return None if told is None else str(told)


def compare_bundles(a: BundleData, b: BundleData, published: Traversable | None = None) -> Between:
    """Every condition and metric that both bundles hold. ``published``: folder of the published tables."""
    sides = (_side(a), _side(b))
    pairs, shared, unpaired = _paired(*sides)
    known = _published(sides[0], published)
    table = Table(NAME, COLUMNS)
    untimed = imitated(a, b)
    for condition in pairs:
        by_metric: list[tuple[Metric, list[Tested]]] = []
        for metric in METRICS:
            if untimed and metric.unit in TIMED_UNITS:
                continue
            found = _differences(pairs[condition], metric, sides)
            if found:
                by_metric.append((metric, tested_scopes(found, a.seed, len(METRICS))))
        overall = adjusted([tests[0] for _, tests in by_metric])
        for (metric, tests), first in zip(by_metric, overall, strict=True):
            nulls = _nulls(metric, sides)
            for test, corrected in zip(tests, [first, *adjusted(tests[1:])], strict=True):
                floor, floor_from = _floor(nulls, test, metric)
                row: Row = {
                    "condition": condition,
                    "floor_from": floor_from,
                    **effect_values(metric, test, corrected, floor),
                    **_beside(metric, test, sides, shared),
                    **known.get((metric.name, test.scope), {}),
                }
                table.add(**_same_cells(row))
    used = [pair for of_condition in pairs.values() for pair in of_condition]
    one_run = bool(used) and all(pair.reference in shared for pair in used)
    return Between(table, unpaired, len(used), len(shared), one_run, untimed)


def _side(bundle: BundleData) -> _Side:
    handshakes = joined(bundle, handshake_table)
    values = cell_values(bundle, handshakes, joined(bundle, traffic_table), joined(bundle, cpu_table))
    return _Side(bundle, values, handshakes)


def _paired(side_a: _Side, side_b: _Side) -> tuple[dict[str, list[CellPair]], set[str], list[Unpaired]]:
    """Condition → pairs, the ids of cells that both hold, and what has no pair. Where a bundle is of several
    pairs of hosts, cells of unlike pairs are no pair: what lies between the hosts would be in the effect."""
    a, b = side_a.cells, side_b.cells
    by_pair = isinstance(side_a.bundle, MergedData) or isinstance(side_b.bundle, MergedData)
    fresh: dict[str, list[CellPair]] = defaultdict(list)
    same: dict[str, list[CellPair]] = defaultdict(list)
    unpaired = []
    for key in dict.fromkeys([*a, *b]):
        one, other = a.get(key), b.get(key)
        if one is None or other is None:
            unpaired.append(Unpaired(*key, "only in A" if other is None else "only in B"))
        elif one.verdict != "pass" or other.verdict != "pass":
            unpaired.append(Unpaired(*key, f"A {one.verdict}, B {other.verdict}"))
        elif by_pair and (on := (side_a.pair_of(one.cell_id), side_b.pair_of(other.cell_id)))[0] != on[1]:
            told = " and ".join(f"on pair {pair}" if pair else "on no named pair" for pair in on)
            unpaired.append(Unpaired(*key, f"measured {told}"))
        else:
            into = same if _same_execution(one, other) else fresh
            into[key[1]].append(_pair(one, other))
    shared = {pair.reference for pairs in same.values() for pair in pairs}
    # cells taken over by `run --into` would only water the effect down
    return {**same, **fresh}, shared, unpaired


def _same_execution(one: Cell, other: Cell) -> bool:
    def content(cell: Cell, name: str) -> bytes | None:
        path = cell.directory / name
        return path.read_bytes() if path.is_file() else None

    return all(content(one, name) == content(other, name) for name in _EXECUTION)


def _pair(one: Cell, other: Cell) -> CellPair:
    # the mean over the suites of one repetition is one value, as it is within a bundle
    return pair_of(one, other, one.repetition)


def _differences(pairs: list[CellPair], metric: Metric, sides: tuple[_Side, _Side]) -> list[Difference]:
    """Each side has its own values: equal cell ids may stand for other cells in the other bundle."""
    before, after = (side.values.get(metric.name, {}) for side in sides)
    marked = [replace(p, reference=f"A {p.reference}", condition=f"B {p.condition}") for p in pairs]
    values = {f"A {cell}": value for cell, value in before.items()}
    values |= {f"B {cell}": value for cell, value in after.items()}
    plain = {(m.reference, m.condition): p for m, p in zip(marked, pairs, strict=True)}
    return [
        Difference(plain[d.pair.reference, d.pair.condition], d.value, d.cost)
        for d in differences_of(marked, metric, values)
    ]


def _nulls(metric: Metric, sides: tuple[_Side, _Side]) -> list[tuple[Null, str]]:
    """What each bundle shows where nothing differs, with its name; none where too little was measured."""
    found = []
    for name, side in zip("AB", sides, strict=True):
        null, how = equal_cells(side.bundle, metric, side.values.get(metric.name, {}))
        if len(null) >= MIN_FLOOR_PAIRS_COUNT:
            found.append((null_of(null, metric), f"{how} of {name}"))
    return found


def _floor(nulls: list[tuple[Null, str]], test: Tested, metric: Metric) -> tuple[Floor, str]:
    """The larger of the two bundles' noise floors for this mean; assumed where neither was measured."""
    costs = costs_of(test.differences)
    if not nulls:
        return null_of([], metric).floor(costs), ASSUMED
    return max(((null.floor(costs), name) for null, name in nulls), key=lambda each: each[0].value)


def _beside(metric: Metric, test: Tested, sides: tuple[_Side, _Side], shared: set[str]) -> dict[str, Value]:
    pairs = [difference.pair for difference in test.differences]
    a, b = (side.values.get(metric.name, {}) for side in sides)
    if len({sides[0].pair_of(pair.reference) for pair in pairs}) > 1:
        a, b = {}, {}  # values of several hosts have no common median
    return {
        "a_median": median(present(a.get(pair.reference) for pair in pairs)),
        "b_median": median(present(b.get(pair.condition) for pair in pairs)),
        "shared_pairs": sum(1 for pair in pairs if pair.reference in shared),
        "cells_a": " ".join(sorted({pair.reference for pair in pairs})),
        "cells_b": " ".join(sorted({pair.condition for pair in pairs})),
    }


def _same_cells(row: Row) -> Row:
    """One measurement beside itself: no effect can be there, however few the pairs."""
    if not row["shared_pairs"]:
        return row
    return {**row, "verdict": NOT_DISTINGUISHABLE, "reason": SAME_CELLS}


def _published(side: _Side, folder: Traversable | None) -> dict[tuple[str, str], Row]:
    """(metric, suite) → the published value with its source and what is wrong with it."""
    bundle, handshakes = side.bundle, side.handshakes
    rows = comparison_table(
        bundle,
        handshakes,
        joined(bundle, primitive_table),
        by_level_table(handshakes, bundle.seed),
        by_family_table(handshakes, bundle.seed),
        folder,
    ).rows
    by_subject: dict[tuple[str, str], Row] = {}
    # of two sources the one with the larger campaign comes last and counts
    for quantity in ("handshake, total", "handshake, baseline", "primitive, median"):
        for row in reversed(rows):
            if row["quantity"] == quantity:
                kind = "handshake" if quantity.startswith("handshake") else "primitive"
                by_subject[kind, str(row["subject"])] = row
    found: dict[tuple[str, str], Row] = {}
    for cell in bundle.cells:
        subjects: Iterable[tuple[str, str, str]] = [(HANDSHAKE, "handshake", cell.suite_id)]
        if cell.facts is not None:
            names = {"kem": cell.facts.kem, "sig": cell.facts.sig}
            subjects = [
                *subjects,
                *((f"{step}_ms", "primitive", f"{names[part]} {step}") for step, part in PRIMITIVES.items()),
            ]
        for metric, kind, subject in subjects:
            value = by_subject.get((kind, subject))
            if value is not None:
                found[metric, cell.suite_id] = {
                    "published": value["published"],
                    "published_source": value["source"],
                    "published_known_wrong": value["known_wrong"],
                }
    return found


def claimed(table: Table) -> list[Row]:
    """Rows that say improved or regressed."""
    return [row for row in table.rows if row["verdict"] not in (NOT_DISTINGUISHABLE, INSUFFICIENT)]


def overall(table: Table) -> list[Row]:
    """The means over all suites."""
    return [row for row in table.rows if row["scope"] == ALL_SUITES]
