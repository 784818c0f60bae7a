"""commands.csv: what the ground asked of the vehicle, by suite, condition, kind and phase of rekeys.

A row pools the exchanges of its cells for median, P95 and counts; the interval is of the geometric mean of
the cells' medians, so that its unit is the repetition. Times are the ground's own clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pqbase.stats import TOO_FEW, least_count, tail
from pqevidence.analysis.column import Column, names
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.stats import MIN_RUNS_COUNT, log_interval, median
from pqevidence.analysis.table import Table
from pqevidence.measures.commands.record import Asked, asked_of, meets_rekey, rekey_spans
from pqevidence.record.raw import load_cell
from pqevidence.scenario.conditions import workload_of

NAME = "commands"
COLUMNS = (
    Column("suite_id", "suite", "suite"),
    Column("condition", "condition", "condition"),
    Column("kind", "what was asked for, as the scenario's workload names it", "asked"),
    Column("phase", "all, rekey (a rekey was under way meanwhile) or no rekey", "rekey under way"),
    Column("ring", "ring of the first of the cells", "ring"),
    Column("n_cells", "cells that passed and asked for it", "cells", "n", numeric=True),
    Column("sent_count", "requests that were sent"),
    Column("acknowledged_count", "of those: answered in the end", "acknowledged", "n", numeric=True),
    Column("unanswered_count", "of those: not within their limit", "unanswered", "n", numeric=True),
    Column("cut_count", "not over when the session ended", "cut off", "n", numeric=True),
    Column("refused_count", "answered with anything but accepted", "refused", "n", numeric=True),
    Column("retries_count", "requests sent again", "sent again", "n", numeric=True),
    Column("p50_ms", "first sending to acknowledgement: median of all cells' requests", "median", "ms", True),
    Column("p95_ms", "the same: 95th percentile, from 20 values on", "P95", "ms", True),
    Column("max_ms", "the same: the longest", "most", "ms", True),
    Column("mean_ms", "geometric mean of the cells' medians", "mean of cells", "ms", True),
    Column("low_ms", "lower end of its 95 % interval", "95 % interval", "ms"),
    Column("high_ms", "upper end of its 95 % interval"),
    Column("reason", "why a number is missing"),
    Column("cells", "ids of the cells behind the row"),
)
#: phase of a row: every exchange, those that met a rekey, those that met none
ALL, DURING, BETWEEN = "all", "rekey", "no rekey"


def make_tables(bundle: BundleData, _made: Mapping[str, Table]) -> Iterator[Table]:
    """One row a suite, condition, kind and phase, of cells that passed; none where nothing was asked.

    Phases are told apart where a condition rekeys at all.
    """
    if not workload_of(bundle.scenario):
        return
    groups: dict[tuple[str, str, str, str], list[tuple[Cell, list[Asked]]]] = defaultdict(list)
    for cell in bundle.cells:
        if cell.verdict != "pass":
            continue
        raw = load_cell(cell.directory)
        rekeys = rekey_spans(raw.spans or [])
        kinds: dict[str, list[Asked]] = defaultdict(list)
        for one in asked_of(raw.traffic) or []:
            kinds[one.kind].append(one)
        for kind, members in kinds.items():
            groups[cell.suite_id, cell.condition, kind, ALL].append((cell, members))
            if not rekeys:
                continue
            for phase, during in ((DURING, True), (BETWEEN, False)):
                phased = [one for one in members if meets_rekey(one, rekeys) is during]
                groups[cell.suite_id, cell.condition, kind, phase].append((cell, phased))
    table = Table(NAME, names(COLUMNS))
    for (suite_id, condition, kind, phase), found in sorted(groups.items()):
        _add(table, (suite_id, condition, kind, phase), found, bundle.seed)
    yield table


def _add(
    table: Table, key: tuple[str, str, str, str], found: Sequence[tuple[Cell, list[Asked]]], seed: int
) -> None:
    every = [one for _, members in found for one in members]
    values = _values(every)
    by_cell = [m for _, members in found if (m := median(_values(members))) is not None]
    interval = log_interval(by_cell, seed=seed)
    suite_id, condition, kind, phase = key
    table.add(
        suite_id=suite_id,
        condition=condition,
        kind=kind,
        phase=phase,
        ring=found[0][0].ring,
        n_cells=len(found),
        sent_count=sum(one.sent_ns is not None for one in every),
        acknowledged_count=len(values),
        unanswered_count=sum(one.unanswered for one in every),
        cut_count=sum(one.cut for one in every),
        refused_count=sum(one.refused for one in every),
        retries_count=sum(one.retries_count for one in every),
        p50_ms=median(values),
        p95_ms=tail(values, 0.95),
        max_ms=max(values, default=None),
        mean_ms=interval.estimate if interval else None,
        low_ms=interval.low if interval else None,
        high_ms=interval.high if interval else None,
        reason=_reason(values, by_cell),
        cells=" ".join(cell.cell_id for cell, _ in found),
    )


def _values(members: Sequence[Asked]) -> list[float]:
    return [one.ack_ms for one in members if one.ack_ms is not None]


def _reason(values: Sequence[float], by_cell: Sequence[float]) -> str | None:
    """Why a number is missing, in one sentence."""
    told = []
    if not values:
        return "none was acknowledged"
    if len(values) < least_count(0.95):
        told.append(f"P95: {TOO_FEW}: {len(values)} of {least_count(0.95)}")
    if len(by_cell) < MIN_RUNS_COUNT:
        told.append(f"interval: {len(by_cell)} of {MIN_RUNS_COUNT} cells")
    return "; ".join(told) or None
