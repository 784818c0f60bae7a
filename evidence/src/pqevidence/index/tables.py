"""The index as two tables, a row a bundle and a row a suite; runs of equal scenario and hosts in lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.analysis.table import Table
from pqevidence.index.entries import VERDICTS, Entry, Place

BUNDLES, HANDSHAKES = "index", "index-handshakes"


@dataclass(frozen=True)
class Line:
    """Runs of one scenario on hosts that are equal in all that moves times, oldest first; `places`: suites
    and conditions that at least two of them measured, in the order of the first run that has them."""

    key: str
    runs: tuple[Entry, ...]
    places: tuple[Place, ...]

    @property
    def scenario(self) -> str:
        return str(self.runs[0].scenario)

    @property
    def ring(self) -> str:
        return str(self.runs[0].ring)


def lines_of(entries: Sequence[Entry]) -> list[Line]:
    """Every line of two runs and more, in order of its first run. Broken bundles name none."""
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.line is not None:
            groups[entry.line].append(entry)
    found = []
    for key, runs in groups.items():
        if len(runs) < 2:
            continue
        known = dict.fromkeys(place for run in runs for place in run.medians_ms)
        shared = [place for place in known if sum(place in run.medians_ms for run in runs) > 1]
        found.append(Line(key, tuple(runs), tuple(shared)))
    return found


def bundle_table(entries: Sequence[Entry]) -> Table:
    """One row a bundle, broken ones included with the reason."""
    columns = (
        "bundle", "run_id", "scenario", "ring", "created_utc", "line", "checked", "broken", "busy", "untimed",
        *(f"{verdict.replace('-', '_')}_count" for verdict in VERDICTS),
    )  # fmt: skip
    table = Table(BUNDLES, columns)
    for entry in entries:
        counts = entry.verdicts or {}
        table.add(
            bundle=entry.name,
            run_id=entry.run_id,
            scenario=entry.scenario,
            ring=entry.ring,
            created_utc=entry.created_utc,
            line=entry.line,
            checked=entry.checked,
            broken=entry.broken,
            busy=entry.busy,
            untimed=entry.untimed,
            **{f"{verdict.replace('-', '_')}_count": counts.get(verdict) for verdict in VERDICTS},
        )
    return table


def handshake_table(entries: Sequence[Entry]) -> Table:
    """One row a bundle, suite and condition: median cold handshake at the drone, over cells that passed."""
    table = Table(
        HANDSHAKES,
        ("bundle", "created_utc", "line", "ring", "suite_id", "condition", "cells_count", "median_ms"),
    )
    for entry in entries:
        for (suite_id, condition), value in entry.medians_ms.items():
            table.add(
                bundle=entry.name,
                created_utc=entry.created_utc,
                line=entry.line,
                ring=entry.ring,
                suite_id=suite_id,
                condition=condition,
                cells_count=entry.cells_counts[suite_id, condition],
                median_ms=value,
            )
    return table
