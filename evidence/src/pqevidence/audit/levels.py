"""The recommendations of a NIST level, worked out a second time from the spans, the plan and the verdicts.

Neither the report's selection nor its number formats nor the analysis tables are used, so that a mistake
there cannot vouch for itself. Shared with the analysis are the reader of raw files, the interval of a
geometric mean and what takes the machine's moves out (docs/STATISTICS.md), which have tests of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from pqevidence import __version__
from pqevidence.analysis.blocks import without_blocks
from pqevidence.analysis.load import ROLES, BundleData, Cell
from pqevidence.analysis.stats import log_interval
from pqevidence.audit.claim import Claim
from pqtunnel import suites as registry
from pqtunnel.errors import SuiteUnknown

NAMED_COUNT = 4  # suites that the sentence names before it counts the rest


@dataclass(frozen=True)
class _Timed:
    """A suite under one condition: NIST level, cells that passed, median and 95 % interval of their cold
    handshakes at the drone in ms."""

    suite_id: str
    level: int
    n: int
    median_ms: float
    low_ms: float
    high_ms: float


def level_claims(bundle: BundleData) -> list[Claim]:
    """One claim a condition and NIST level at which the fastest suites leave others behind."""
    conditions = list(dict.fromkeys(cell.condition for cell in bundle.cells))
    claims = []
    for condition in conditions:
        suites = _timed([cell for cell in bundle.cells if cell.condition == condition], bundle.seed)
        under = f", under {condition}" if len(conditions) > 1 else ""
        for level in sorted({suite.level for suite in suites}):
            pool = [suite for suite in suites if suite.level >= level]
            end_ms = min(suite.high_ms for suite in pool)
            slower = [suite for suite in pool if suite.low_ms > end_ms]
            if slower:
                fast = [suite for suite in pool if suite.low_ms <= end_ms]
                claims.append(_claim(f"For NIST level {level} or more{under}", fast, slower))
    return claims


def owed(bundle: BundleData) -> bool:
    """Must the page print these claims? One of an earlier version that made no such table printed none."""
    has_table = (bundle.data / "analysis" / "pareto.csv").is_file()
    return has_table or bundle.run.get("pqlab_version") == __version__


def _timed(cells: Iterable[Cell], seed: int) -> list[_Timed]:
    """The suites of a NIST level with cells enough for an interval; the classical and the plain have none."""
    values: dict[str, dict[tuple[str | None, int], float]] = defaultdict(dict)
    for cell in cells:
        walls = _cold_walls_ms(cell)
        if cell.verdict == "pass" and walls:
            values[cell.suite_id][cell.earlier_run, cell.repetition] = median(walls)
    steady = without_blocks(values)
    found = []
    for suite_id, by_block in values.items():
        medians = list(by_block.values())
        level, interval = _nist_level(suite_id), log_interval(steady[suite_id], seed=seed)
        if level is not None and interval is not None:
            figures = (median(medians), interval.low, interval.high)
            found.append(_Timed(suite_id, level, len(medians), *map(_stored, figures)))
    return found


def _nist_level(suite_id: str) -> int | None:
    try:
        label = registry.get(suite_id).level_label
    except SuiteUnknown:
        return None
    return int(label) if label.isdigit() else None


def _cold_walls_ms(cell: Cell) -> list[float]:
    """The drone's wall of every cold handshake that both ends wrote whole."""
    walls: dict[str, dict[str, int]] = defaultdict(dict)
    for span in cell.spans:
        if span.mode == "cold" and span.step == "handshake":
            walls[span.handshake_id][span.host] = span.end_ns - span.start_ns
    return [wall["drone"] / 1e6 for wall in walls.values() if wall.keys() >= set(ROLES)]


def _stored(value: float) -> float:
    """As a bundle keeps a figure: nine significant digits (docs/STATISTICS.md)."""
    return float(f"{value:.9g}")


def _claim(wanted: str, fast: list[_Timed], slower: list[_Timed]) -> Claim:
    names = [s.suite_id for s in sorted(fast, key=lambda s: (s.median_ms, s.level, s.suite_id))]
    shown = ", ".join(names[:NAMED_COUNT])
    if len(names) > NAMED_COUNT:
        shown += f" and {len(names) - NAMED_COUNT} more"
    left = "suite of at least this level is"
    if len(slower) > 1:
        left = f"{len(slower)} suites of at least this level are"
    return Claim(
        f"{wanted}: {shown}. The other {left} distinguishably slower.",
        f"handshake {_span(fast)}, others {_span(slower)}",
        f"n = {min(s.n for s in (*fast, *slower))} cells a suite or more; 95 % intervals apart",
    )


def _span(suites: list[_Timed]) -> str:
    times = [suite.median_ms for suite in suites]
    return f"{_printed(min(times))} to {_printed(max(times))} ms"


def _printed(value: float) -> str:
    """Three significant digits, from a hundred on whole numbers, never an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{Decimal(f'{value:.2e}'):f}"
