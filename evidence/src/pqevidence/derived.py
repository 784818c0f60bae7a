"""Every table that the raw files and records of a bundle give; pqevidence.tables writes them as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable

from pqevidence.analysis.claims import condition_effects_table
from pqevidence.analysis.comparison import comparison_table
from pqevidence.analysis.drift import drift_table
from pqevidence.analysis.effects import effects_table
from pqevidence.analysis.explorer import explorer_table
from pqevidence.analysis.faults import fault_table
from pqevidence.analysis.fingerprints import fingerprint_table
from pqevidence.analysis.groups import by_family_table, by_level_table, by_suite_table, phi_table
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.pareto import pareto_table
from pqevidence.analysis.table import Table
from pqevidence.analysis.timeline import timeline_tables
from pqevidence.measures import MEASURES

#: tables of no measure that compare times: without a row where a host's times are no claim
COMPARING = frozenset(
    {
        "effects",
        "drift",
        "condition_effects",
        "pareto",
        "comparison",
    }
)


def tables_of(bundle: BundleData, published: Traversable | None = None) -> list[Table]:
    """Every analysis table of a bundle; ``published`` = folder with the published tables (None: none)."""
    made: dict[str, Table] = {}
    for measure in MEASURES:
        if measure.make_tables is not None:
            made |= {table.name: table for table in measure.make_tables(bundle, made)}
    made |= {table.name: table for table in _joined_tables(bundle, made, published)}
    if not bundle.untimed:
        return [*made.values()]
    comparing = COMPARING.union(*(measure.comparing for measure in MEASURES))
    return [Table(table.name, table.columns) if table.name in comparing else table for table in made.values()]


def _joined_tables(
    bundle: BundleData, made: Mapping[str, Table], published: Traversable | None
) -> Iterator[Table]:
    """Tables of no one measure, from those that measures made."""
    handshakes, primitives, traffic, cpu = (made[n] for n in ("handshakes", "primitives", "traffic", "cpu"))
    runs = {cell.cell_id: cell.earlier_run for cell in bundle.cells}
    by_suite = by_suite_table(handshakes, bundle.seed, runs)
    by_level = by_level_table(handshakes, bundle.seed, runs)
    by_family = by_family_table(handshakes, bundle.seed, runs)
    conditions = condition_effects_table(bundle, handshakes, traffic, cpu)
    faults = fault_table(bundle)
    phi = phi_table(by_suite)
    yield from (
        by_suite,
        by_level,
        by_family,
        effects_table(handshakes, bundle.seed, runs),
        drift_table(bundle, handshakes),
        *([conditions] if conditions is not None else []),
        *timeline_tables(bundle),
        phi,
        pareto_table(by_suite, phi),
        explorer_table(by_suite, primitives, traffic, cpu),
        *([faults] if faults is not None else []),
        comparison_table(bundle, handshakes, primitives, by_level, by_family, published),
        fingerprint_table(bundle),
    )
