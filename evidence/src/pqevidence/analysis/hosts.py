"""Effects over hosts: one value a host and contrast, Student's t over hosts, and how far hosts differ.

A contrast is made within one pair of hosts, so what a host is slower by as a whole is in no effect. "On
these boards" is what `claims.py` and `effects.py` say of all blocks together. "On boards like these" has the
host as its unit: n counts hosts, df = n − 1, and below three hosts nothing is inferred.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pqevidence.analysis.claims import ALPHA, BLOCK, IMPROVED, REGRESSED, verdict_of
from pqevidence.analysis.conditions import (
    conditions_of,
    contrasts_of,
    costs_of,
    differences_of,
    equal_cells,
    null_of,
    pairs_of,
)
from pqevidence.analysis.effects import DISTINGUISHABLE, family_comparisons
from pqevidence.analysis.effects import null_of as null_of_families
from pqevidence.analysis.estimate import LEVEL, NO_SPREAD, Estimate, hodges_lehmann
from pqevidence.analysis.floor import Floor, visible
from pqevidence.analysis.groups import SUITE, by_suite_table
from pqevidence.analysis.handshakes import handshake_table
from pqevidence.analysis.merged import MergedData, joined
from pqevidence.analysis.metrics import HANDSHAKE, METRICS, cell_values
from pqevidence.analysis.multiplicity import holm
from pqevidence.analysis.stats import (
    INSUFFICIENT,
    MIN_RUNS_COUNT,
    mean,
    outlier_indices,
    sd,
    student_t_quantile,
    student_t_two_sided,
)
from pqevidence.analysis.system import cpu_table
from pqevidence.analysis.table import Row, Table, Value
from pqevidence.analysis.traffic import traffic_table
from pqevidence.record.rings import weakest

#: What n of an interval over hosts counts.
HOST = "host"
OVER_HOSTS = "Student t over hosts"
DIFFER, ALIKE = "differ", "not distinguishable"
CONDITION, FAMILY = "condition", "family"


@dataclass(frozen=True)
class Contrasted:
    """One contrast and metric: what each host's units gave (block means of log ratios or points; for families
    one value a pair of suites), and the floor of the mean of all of it."""

    kind: str
    what: str
    reference: str
    metric: str
    unit: str
    scale: str
    family: str
    by_host: Mapping[str, Sequence[float]]
    floor: Floor

    def shown(self, value: float | None) -> Value:
        """On the scale that people read."""
        return None if value is None else math.exp(value) if self.scale == "ratio" else value

    @property
    def values(self) -> dict[str, float]:
        """Host → its one value."""
        return {host: math.fsum(units) / len(units) for host, units in self.by_host.items() if units}


def over_hosts(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """The mean over hosts of one value each: Student's t, df = n − 1; no inference below three hosts, nor
    where none differs from another."""
    n, centre, spread = len(values), mean(values), sd(values)
    found = (n, centre, hodges_lehmann(values))
    outliers = outlier_indices(values)
    if n < MIN_RUNS_COUNT or centre is None or spread is None:
        return Estimate(*found, None, None, None, INSUFFICIENT, outliers, spread)
    if spread <= 1e-12 * abs(centre) or spread == 0.0:
        return Estimate(*found, None, None, None, NO_SPREAD, outliers, spread)
    error = spread / math.sqrt(n)
    half = student_t_quantile(0.5 + level / 2.0, n - 1) * error
    p_value = student_t_two_sided(centre / error, n - 1)
    return Estimate(*found, centre - half, centre + half, p_value, OVER_HOSTS, outliers, spread)


def welch_p(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Two-sided p of "both have one mean" (Welch 1947); None below three values a side or without spread."""
    if min(len(one), len(other)) < MIN_RUNS_COUNT:
        return None
    parts = [(sd(values) or 0.0) ** 2 / len(values) for values in (one, other)]
    error = sum(parts)
    if error == 0.0:
        return None
    freedom = error**2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True)
    )
    gap = math.fsum(one) / len(one) - math.fsum(other) / len(other)
    return student_t_two_sided(gap / math.sqrt(error), freedom)


def contrasted(data: MergedData) -> list[Contrasted]:
    """Every contrast of conditions and metric, and every comparison of families, host by host."""
    if data.untimed:
        return []
    handshakes = joined(data, handshake_table)
    values = cell_values(data, handshakes, joined(data, traffic_table), joined(data, cpu_table))
    found = []
    for contrast in contrasts_of(conditions_of(data)):
        pairs = pairs_of(data.cells, contrast)
        for metric in METRICS:
            differences = differences_of(pairs, metric, values[metric.name])
            if not differences:
                continue
            blocks: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
            for difference in differences:
                host = data.boards[data.pairs[difference.pair.condition]]
                blocks[host][difference.pair.block].append(difference.value)
            null, _ = equal_cells(data, metric, values[metric.name])
            found.append(
                Contrasted(
                    CONDITION,
                    contrast.condition,
                    contrast.reference,
                    metric.name,
                    metric.unit,
                    metric.scale,
                    f"{contrast.condition} {contrast.reference}",
                    {
                        host: [math.fsum(mine[block]) / len(mine[block]) for block in sorted(mine)]
                        for host, mine in sorted(blocks.items())
                    },
                    null_of(null, metric).floor(costs_of(differences)),
                )
            )
    return [*found, *_families(data, handshakes)]


def _families(data: MergedData, handshakes: Table) -> list[Contrasted]:
    runs = {cell.cell_id: cell.earlier_run for cell in data.cells}
    null = null_of_families(handshakes.rows, runs)
    by_name: dict[tuple[str, str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    costs: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    hosts = sorted(set(data.boards.values()))
    for host in hosts:
        mine = [row for row in handshakes.rows if data.boards[data.pairs[str(row["cell_id"])]] == host]
        for comparison in family_comparisons(mine, runs):
            key = comparison.part, comparison.family, comparison.reference
            by_name[key][host] = comparison.by_suites
            costs[key] += comparison.costs
    found = []
    for (part, family, reference), told in sorted(by_name.items()):
        # of suites that every host has: another list of suites would be another effect
        common = set.intersection(*(set(suites) for suites in told.values()))
        if common:
            found.append(
                Contrasted(
                    FAMILY,
                    f"{part} {family}",
                    reference,
                    HANDSHAKE,
                    "ms",
                    "ratio",
                    "families",
                    {host: [told[host][name] for name in sorted(common)] for host in sorted(told)},
                    null.floor(costs[part, family, reference]),
                )
            )
    return found


_NAMED = ("kind", "contrast", "reference", "metric", "unit", "scale", "ring")
HOST_COLUMNS = (
    *_NAMED, "n_hosts", "df", "mean_effect", "robust_effect", "low_effect", "high_effect", "interval_level",
    "method", "p_value", "p_holm", "family_count", "spread", "least_host_effect", "most_host_effect",
    "least_left_out_effect", "most_left_out_effect", "hangs_on_host", "floor_effect", "floor_method",
    "visible_effect", "unit_of_inference", "verdict", "reason",
)  # fmt: skip
BY_HOST_COLUMNS = (
    *_NAMED, "host", "n_units", "mean_effect", "low_effect", "high_effect", "interval_level", "method",
    "unit_of_inference", "reason",
)  # fmt: skip
LEFT_OUT_COLUMNS = (
    *_NAMED, "left_out_host", "n_hosts", "mean_effect", "low_effect", "high_effect", "interval_level",
    "p_holm", "unit_of_inference", "verdict", "reason",
)  # fmt: skip
DIFFERENCE_COLUMNS = (
    *_NAMED, "host", "other_host", "n_units", "n_other_units", "difference_effect", "p_value", "p_holm",
    "family_count", "unit_of_inference", "verdict",
)  # fmt: skip


def host_tables(data: MergedData) -> list[Table]:
    """effects_over_hosts, effects_by_host, leave_one_host_out, host_differences, times_by_host."""
    found = contrasted(data)
    ring = weakest(part.ring for part in data.parts)
    return [
        _over(found, ring),
        _by_host(found, ring),
        _left_out(found, ring),
        _differences(found, ring),
        _times(data),
    ]


def _named(one: Contrasted, ring: str) -> Row:
    told = one.kind, one.what, one.reference, one.metric, one.unit, one.scale, ring
    return dict(zip(_NAMED, told, strict=True))


def _estimated(one: Contrasted, result: Estimate) -> Row:
    return {
        "mean_effect": one.shown(result.mean),
        "low_effect": one.shown(result.low),
        "high_effect": one.shown(result.high),
        "interval_level": None if result.low is None else LEVEL,
    }


def _judged(
    found: Sequence[Contrasted], without: str | None = None
) -> list[tuple[Estimate, float | None, str]]:
    """(estimate, Holm's p, verdict) of each contrast; `without`: the host that is left out."""
    results = [over_hosts([value for host, value in one.values.items() if host != without]) for one in found]
    corrected: dict[int, float | None] = {}
    for family in dict.fromkeys(one.family for one in found):
        places = [place for place, one in enumerate(found) if one.family == family]
        p_values = holm([results[place].p_value for place in places])
        corrected |= dict(zip(places, p_values, strict=True))
    return [
        (result, corrected[place], _verdict(one, result, corrected[place]))
        for place, (one, result) in enumerate(zip(found, results, strict=True))
    ]


def _verdict(one: Contrasted, result: Estimate, p_holm: float | None) -> str:
    verdict = verdict_of(result, p_holm, one.floor)
    return DISTINGUISHABLE if one.kind == FAMILY and verdict in (IMPROVED, REGRESSED) else verdict


def _over(found: Sequence[Contrasted], ring: str) -> Table:
    table = Table("effects_over_hosts", HOST_COLUMNS)
    whole = _judged(found)
    hosts = sorted({host for one in found for host in one.by_host})
    without = {host: _judged(found, host) for host in hosts}
    counts = {
        family: sum(
            result.p_value is not None
            for one, (result, _, _) in zip(found, whole, strict=True)
            if one.family == family
        )
        for family in dict.fromkeys(one.family for one in found)
    }
    for place, (one, (result, p_holm, verdict)) in enumerate(zip(found, whole, strict=True)):
        values = one.values
        left = {host: without[host][place] for host in values if len(values) > 1}
        means = [told[0].mean for told in left.values() if told[0].mean is not None]
        hangs = [h for h, told in left.items() if told[2] != verdict and told[0].n >= MIN_RUNS_COUNT]
        seen = None
        if result.low is not None:
            seen = visible(one.floor, result.n, result.spread, max(counts[one.family], 1))
        table.add(
            **_named(one, ring),
            n_hosts=result.n,
            df=result.n - 1 if result.low is not None else None,
            **_estimated(one, result),
            robust_effect=one.shown(result.hodges_lehmann),
            method=result.method,
            p_value=result.p_value,
            p_holm=p_holm,
            family_count=counts[one.family],
            spread=one.shown(result.spread),
            least_host_effect=one.shown(min(values.values())),
            most_host_effect=one.shown(max(values.values())),
            least_left_out_effect=one.shown(min(means, default=None)),
            most_left_out_effect=one.shown(max(means, default=None)),
            hangs_on_host=" ".join(hangs),
            floor_effect=one.shown(one.floor.value),
            floor_method=one.floor.method,
            visible_effect=one.shown(None if seen is None else min(seen, 50.0)),
            unit_of_inference=HOST,
            verdict=verdict,
            reason=_reason(result),
        )
    return table


def _reason(result: Estimate) -> str | None:
    if result.n < MIN_RUNS_COUNT:
        return f"{result.n} host{'' if result.n == 1 else 's'}: an interval over hosts needs {MIN_RUNS_COUNT}"
    return result.method if result.low is None else None


def _by_host(found: Sequence[Contrasted], ring: str) -> Table:
    table = Table("effects_by_host", BY_HOST_COLUMNS)
    for one in found:
        for host, units in one.by_host.items():
            # the very arithmetic of an interval over hosts, over the units of one
            result = over_hosts(units)
            known = result.low is not None
            table.add(
                **_named(one, ring),
                host=host,
                n_units=result.n,
                **_estimated(one, result),
                method="Student t" if known else result.method,
                unit_of_inference=SUITE if one.kind == FAMILY else BLOCK,
                reason=None if known else result.method,
            )
    return table


def _left_out(found: Sequence[Contrasted], ring: str) -> Table:
    table = Table("leave_one_host_out", LEFT_OUT_COLUMNS)
    hosts = sorted({host for one in found for host in one.by_host})
    if len(hosts) < 2:
        return table
    without = {host: _judged(found, host) for host in hosts}
    for place, one in enumerate(found):
        for host in one.by_host:
            result, p_holm, verdict = without[host][place]
            if result.n:
                table.add(
                    **_named(one, ring),
                    left_out_host=host,
                    n_hosts=result.n,
                    **_estimated(one, result),
                    p_holm=p_holm,
                    unit_of_inference=HOST,
                    verdict=verdict,
                    reason=_reason(result),
                )
    return table


def _differences(found: Sequence[Contrasted], ring: str) -> Table:
    """Hosts two by two, where conditions are compared: does the effect on one differ from that on the other?
    Families share their suites on all hosts, so their units are no independent samples and are left out."""
    table = Table("host_differences", DIFFERENCE_COLUMNS)
    for family in dict.fromkeys(one.family for one in found if one.kind == CONDITION):
        rows = []
        for one in (one for one in found if one.family == family):
            hosts = list(one.by_host)
            for place, host in enumerate(hosts):
                for other in hosts[place + 1 :]:
                    rows.append((one, host, other, welch_p(one.by_host[host], one.by_host[other])))
        corrected = holm([p_value for *_, p_value in rows])
        count = sum(p_value is not None for *_, p_value in rows)
        for (one, host, other, p_value), p_holm in zip(rows, corrected, strict=True):
            table.add(
                **_named(one, ring),
                host=host,
                other_host=other,
                n_units=len(one.by_host[host]),
                n_other_units=len(one.by_host[other]),
                difference_effect=one.shown(one.values[host] - one.values[other]),
                p_value=p_value,
                p_holm=p_holm,
                family_count=count,
                unit_of_inference=BLOCK,
                verdict=INSUFFICIENT if p_holm is None else DIFFER if p_holm <= ALPHA else ALIKE,
            )
    return table


def _times(data: MergedData) -> Table:
    """Cold handshakes by host and suite; never pooled over hosts. Parts of one pair stand under one name."""
    rows: list[Row] = []
    columns: tuple[str, ...] = ()
    for pair in dict.fromkeys(part.pair for part in data.parts):
        mine = [part for part in data.parts if part.pair == pair]
        handshakes = Table(
            "handshakes", (), [row for part in mine for row in handshake_table(part.bundle).rows]
        )
        runs = {cell.cell_id: cell.earlier_run for part in mine for cell in part.bundle.cells}
        table = by_suite_table(handshakes, data.seed, runs)
        columns = table.columns
        rows += [{"pair": pair, "host": data.boards[pair], **row} for row in table.rows]
    if data.untimed:
        rows = []
    return Table("times_by_host", ("pair", "host", *columns), rows)
