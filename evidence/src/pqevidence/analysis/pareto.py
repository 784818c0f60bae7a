"""The front of NIST level and handshake: which suites no other suite of at least their level beats.

A suite is *dominated* where a suite of at least its level has an interval that ends below its own; all others
are the *front*, ties included. Below three cells a suite has no interval, and nothing is said of it.
"""

from __future__ import annotations

from collections import defaultdict

from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.analysis.table import Row, Table, number
from pqtunnel import suites as registry

FRONT, DOMINATED = "front", "dominated"
COLUMNS = (
    "suite_id", "condition", "level", "ring", "n_cells", "median_ms", "interval_low_ms", "interval_high_ms",
    "public_key_bytes", "phi_60s_pct", "fastest", "verdict", "dominated_by",
)  # fmt: skip


def pareto_table(by_suite: Table, phi: Table) -> Table:
    """One row a suite with a NIST level and condition, by condition, level and median."""
    shares = {(row["suite_id"], row["condition"]): row["phi_60s_pct"] for row in phi.rows}
    groups: dict[str, list[tuple[int, Row]]] = defaultdict(list)
    for row in by_suite.rows:
        facts = suite_facts(str(row["suite_id"]))
        if facts is not None and facts.has_level:
            groups[str(row["condition"])].append((facts.level, row))
    table = Table("pareto", COLUMNS)
    for condition, members in groups.items():
        members.sort(key=lambda one: (one[0], number(one[1], "median_ms"), str(one[1]["suite_id"])))
        for level, row in members:
            rivals = [other for at, other in members if at >= level and other is not row]
            verdict, by = _verdict(row, rivals)
            table.add(
                suite_id=row["suite_id"],
                condition=condition,
                level=level,
                ring=row["ring"],
                n_cells=row["n_cells"],
                median_ms=row["median_ms"],
                interval_low_ms=row["interval_low_ms"],
                interval_high_ms=row["interval_high_ms"],
                public_key_bytes=registry.get(str(row["suite_id"])).kem.public_key_bytes,
                phi_60s_pct=shares.get((row["suite_id"], condition)),
                fastest=all(number(row, "median_ms") <= number(r, "median_ms") for r in rivals),
                verdict=verdict,
                dominated_by=by,
            )
    return table


def _verdict(row: Row, rivals: list[Row]) -> tuple[str, str | None]:
    """(verdict, the fastest suite that dominates)."""
    if row["interval_low_ms"] is None:
        return INSUFFICIENT, None
    low = number(row, "interval_low_ms")
    better = [
        rival
        for rival in rivals
        if rival["interval_high_ms"] is not None and number(rival, "interval_high_ms") < low
    ]
    if not better:
        return FRONT, None
    first = min(better, key=lambda r: (number(r, "median_ms"), str(r["suite_id"])))
    return DOMINATED, str(first["suite_id"])
