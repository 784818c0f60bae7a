"""Every table that the raw files and records of a bundle give; pqevidence.tables writes them as CSV."""

from __future__ import annotations

from importlib.resources.abc import Traversable

from pqevidence.analysis.aead import aead_table
from pqevidence.analysis.claims import condition_effects_table
from pqevidence.analysis.comparison import comparison_table
from pqevidence.analysis.detectors import detector_tables
from pqevidence.analysis.drift import drift_table
from pqevidence.analysis.effects import effects_table
from pqevidence.analysis.explorer import explorer_table
from pqevidence.analysis.faults import fault_table
from pqevidence.analysis.fingerprints import fingerprint_table
from pqevidence.analysis.groups import by_family_table, by_level_table, by_suite_table, phi_table
from pqevidence.analysis.handshakes import handshake_table, primitive_table, size_table
from pqevidence.analysis.latency import LatencyShares
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.pareto import pareto_table
from pqevidence.analysis.pooled import pooled_table
from pqevidence.analysis.roc import roc_table
from pqevidence.analysis.system import cpu_table, overhead_table
from pqevidence.analysis.table import Table
from pqevidence.analysis.timeline import timeline_tables
from pqevidence.analysis.traffic import throughput_table, traffic_table
from pqevidence.measures import MEASURES

#: tables of no measure that compare times: without a row where a host's times are no claim
COMPARING = frozenset(
    {
        "effects",
        "drift",
        "condition_effects",
        "detector_overhead",
        "pareto",
        "comparison",
    }
)


def tables_of(bundle: BundleData, published: Traversable | None = None) -> list[Table]:
    """Every analysis table of a bundle; ``published`` = folder with the published tables (None: none)."""
    tables = _general_tables(bundle, published)
    made = {table.name: table for table in tables}
    for measure in MEASURES:
        if measure.make_tables is not None:
            made |= {table.name: table for table in measure.make_tables(bundle, made)}
    if not bundle.untimed:
        return [*made.values()]
    comparing = COMPARING.union(*(measure.comparing for measure in MEASURES))
    return [Table(table.name, table.columns) if table.name in comparing else table for table in made.values()]


def _general_tables(bundle: BundleData, published: Traversable | None) -> list[Table]:
    """Tables of no measure."""
    handshakes = handshake_table(bundle)
    primitives = primitive_table(bundle)
    runs = {cell.cell_id: cell.earlier_run for cell in bundle.cells}
    by_suite = by_suite_table(handshakes, bundle.seed, runs)
    by_level = by_level_table(handshakes, bundle.seed, runs)
    by_family = by_family_table(handshakes, bundle.seed, runs)
    shares = LatencyShares()
    traffic, cpu = traffic_table(bundle, shares), cpu_table(bundle)
    conditions = condition_effects_table(bundle, handshakes, traffic, cpu)
    special = (
        pooled_table(bundle),
        fault_table(bundle),
    )
    phi = phi_table(by_suite)
    roc = roc_table(bundle)
    return [
        handshakes,
        primitives,
        size_table(bundle),
        by_suite,
        by_level,
        by_family,
        effects_table(handshakes, bundle.seed, runs),
        drift_table(bundle, handshakes),
        *([conditions] if conditions is not None else []),
        traffic,
        shares.table(),
        *timeline_tables(bundle),
        throughput_table(bundle),
        aead_table(bundle),
        overhead_table(bundle),
        cpu,
        phi,
        pareto_table(by_suite, phi),
        explorer_table(by_suite, primitives, traffic, cpu),
        *(table for table in special if table is not None),
        *detector_tables(bundle, handshakes, cpu, traffic),
        *([roc] if roc.rows else []),
        comparison_table(bundle, handshakes, primitives, by_level, by_family, published),
        fingerprint_table(bundle),
    ]
