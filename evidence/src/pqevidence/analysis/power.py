"""What a planned comparison of conditions can show: expected interval width and minimum detectable effect.

The spread comes from a named earlier bundle; without one every figure is unknown, and says why.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path

from pqevidence.analysis.floor import of_spread, visible
from pqevidence.analysis.metrics import METRICS, Metric, table_values
from pqevidence.analysis.noncentral import POWER, noncentrality
from pqevidence.analysis.stats import MIN_RUNS_COUNT, student_t_quantile
from pqevidence.analysis.table import Row, read_rows
from pqevidence.errors import LabError


@dataclass(frozen=True)
class Precision:
    """Of one metric: sd of a pair's difference (log ratio, or points) from `sd_pairs` pairs of the source;
    half_width and detectable as a ratio ≥ 1, or points. detectable: of one suite; overall: of the mean
    over all suites. None with a reason where unknown."""

    metric: str
    unit: str
    scale: str
    sd: float | None
    sd_pairs: int
    half_width: float | None
    detectable: float | None
    reason: str | None
    overall: float | None = None


def precision(source: Path | None, n_pairs: int, tests: int) -> list[Precision]:
    """What `n_pairs` pairs a suite would show, claimed within a family of `tests` suites, by metric.

    source: root of an earlier bundle. A bundle that cannot be read costs the figures, not the plan.
    """
    blank = [Precision(m.name, m.unit, m.scale, None, 0, None, None, None) for m in METRICS]
    if source is None:
        return [replace(entry, reason="no earlier bundle") for entry in blank]
    try:
        if is_simulated(source):
            return [replace(entry, reason="the earlier bundle is simulated") for entry in blank]
        spreads = pair_spreads(source)
    except (LabError, OSError, ValueError, KeyError):
        return [replace(entry, reason="the earlier bundle has no readable analysis") for entry in blank]
    found = []
    for metric, entry in zip(METRICS, blank, strict=True):
        sd, pairs = spreads.get(metric.name, (None, 0))
        entry = replace(entry, sd=sd, sd_pairs=pairs)
        if sd is None:
            entry = replace(entry, reason="the earlier bundle holds no two comparable cells with this figure")
        elif n_pairs < MIN_RUNS_COUNT:
            entry = replace(entry, reason=f"insufficient: fewer than {MIN_RUNS_COUNT} pairs")
        else:
            width, one = half_width(sd, n_pairs), claimed(sd, n_pairs, 1, tests)
            overall = claimed(sd, n_pairs, tests, 1)
            if metric.scale == "ratio":
                # beyond this a ratio says nothing, and exp() would overflow
                width, one, overall = (math.exp(min(value, 50.0)) for value in (width, one, overall))
            entry = replace(entry, half_width=width, detectable=one, overall=overall)
        found.append(entry)
    return found


def half_width(sd: float, n_pairs: int, level: float = 0.95) -> float:
    """Expected half width of Student's interval of the mean difference; E[s] is c4(n) times sd."""
    df = n_pairs - 1
    c4 = math.sqrt(2.0 / df) * math.exp(math.lgamma(n_pairs / 2.0) - math.lgamma(df / 2.0))
    return student_t_quantile(0.5 + level / 2.0, df) * c4 * sd / math.sqrt(n_pairs)


def claimed(sd: float, n_blocks: int, suites: int, tests: int) -> float:
    """Least effect on the mean over `suites` that is claimed in 80 % of campaigns whose A/A pairs give the
    floor: beyond it, and at Holm's first step among `tests`."""
    error = sd / math.sqrt(n_blocks * suites)
    found = visible(of_spread(sd, n_blocks * suites), n_blocks, None, tests, error)
    assert found is not None
    return found


def detectable(sd: float, n_pairs: int, tests: int = 1, power: float = POWER) -> float:
    """Least mean difference found with probability `power` at Holm's first step, α / tests, two-sided."""
    return sd / math.sqrt(n_pairs) * noncentrality(n_pairs - 1, max(tests, 1), power)


def is_simulated(source: Path) -> bool:
    """Does any number of the bundle come from ring sim? Its spread is a model's, and no machine's."""
    rows = read_rows(source / "data" / "analysis" / "handshakes.csv")
    return any(row["ring"] == "sim" for row in rows)


def pair_spreads(source: Path) -> dict[str, tuple[float, int]]:
    """Metric → (sd of a pair's difference, pairs), from the analysis tables of a bundle.

    Pairs of conditions within a repetition, each suite's own effect taken out; in a bundle of one condition,
    successive repetitions of a suite, which are A/A pairs.
    """
    folder = source / "data" / "analysis"
    tables = {name: _typed(read_rows(folder / f"{name}.csv")) for name in ("handshakes", "traffic", "cpu")}
    places = {
        str(row["cell_id"]): (str(row["suite_id"]), str(row["condition"]), int(str(row["repetition"])))
        for row in tables["handshakes"]
    }
    values = table_values(tables["handshakes"], tables["traffic"], tables["cpu"])
    found = {}
    for metric in METRICS:
        spread = _pooled(metric, {places[c]: v for c, v in values[metric.name].items()})
        if spread is not None:
            found[metric.name] = spread
    return found


def _pooled(metric: Metric, values: dict[tuple[str, str, int], float]) -> tuple[float, int] | None:
    """Pooled over suites: √(Σ squares / Σ degrees of freedom)."""
    series: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for (suite_id, condition, repetition), value in values.items():
        if metric.scale == "difference" or value > 0.0:
            series[suite_id, condition][repetition] = value
    squares, freedom, pairs = 0.0, 0, 0
    single = len({condition for _, condition in series}) == 1
    for suite_id in sorted({suite for suite, _ in series}):
        own = [by_repetition for (suite, _), by_repetition in sorted(series.items()) if suite == suite_id]
        if single:
            steps = [_gap(metric, own[0][a], own[0][b]) for a, b in pairwise(sorted(own[0]))]
            squares, freedom, pairs = squares + _squares(steps, 0.0), freedom + len(steps), pairs + len(steps)
            continue
        for one, other in combinations(own, 2):
            gaps = [_gap(metric, one[r], other[r]) for r in sorted(one.keys() & other.keys())]
            if len(gaps) > 1:
                squares += _squares(gaps, math.fsum(gaps) / len(gaps))
                freedom, pairs = freedom + len(gaps) - 1, pairs + len(gaps)
    return (math.sqrt(squares / freedom), pairs) if freedom else None


def _gap(metric: Metric, before: float, after: float) -> float:
    return math.log(after / before) if metric.scale == "ratio" else after - before


def _squares(values: Iterable[float], centre: float) -> float:
    return math.fsum((value - centre) ** 2 for value in values)


def _typed(rows: list[dict[str, str]]) -> list[Row]:
    """CSV text back to values where the metrics need them; ids and names stay text."""
    return [{name: _value(name, text) for name, text in row.items()} for row in rows]


def _value(name: str, text: str) -> str | float | bool | None:
    if text == "":
        return None
    if text in ("true", "false"):
        return text == "true"
    return float(text) if name.endswith(("_ms", "_pct")) else text
