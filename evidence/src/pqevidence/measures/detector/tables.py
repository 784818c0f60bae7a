"""Detectors: what each cell's said and cost, what the conditions with one cost beside those without, how well
they did against ground truth and beside trivial rules on the same windows.

Overhead pairs two cells of one suite and block that differ in their detector alone; the unit of its interval
is the suite.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from pqbase.documents import Json, number_of
from pqdetect.service.verdict import BINS, WINDOW_NS
from pqevidence.analysis.claims import seen_from, verdict_of
from pqevidence.analysis.column import CELL, Column, names
from pqevidence.analysis.conditions import (
    Contrast,
    Difference,
    conditions_of,
    costs_of,
    differences_of,
    equal_cells,
    null_of,
    pairs_of,
)
from pqevidence.analysis.estimate import estimate
from pqevidence.analysis.groups import SUITE
from pqevidence.analysis.handshakes import cell_columns
from pqevidence.analysis.load import BundleData, Cell, read_ndjson
from pqevidence.analysis.metrics import HANDSHAKE, Metric
from pqevidence.analysis.multiplicity import holm
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Row, Table, Value, as_value, number
from pqevidence.measures.detector.record import due_windows, episodes_of
from pqevidence.measures.detector.roc import roc_table
from pqevidence.measures.detector.scenarios import scenario_table
from pqevidence.measures.detector.watched import alarm_is_caused, due_windows_of, gate_of, watched_cells
from pqevidence.scenario.conditions import NO_DETECTOR as NONE
from pqevidence.scenario.conditions import detector_of, settings_of

#: record field of category S → column
FIELDS = {
    "detector_name": Column("detector", "detector of the condition, or none"),
    "detector_model": Column("model", "model that judged"),
    "detector_history": Column("history", "cold or warm", "history"),
    "detector_history_windows_count": Column(
        "history_windows_count", "behind the first verdict", "history at first verdict", "windows", True
    ),
    "detector_ready": Column("ready", "it saw packets, judged and raised the canary", "ready"),
    "detector_packets_seen_count": Column("packets_seen_count", "datagrams in the judged windows"),
    "detector_windows_due_count": Column("due_count", "windows in the session", "due", "windows", True),
    "detector_verdict_count": Column("verdict_count", "of those: judged", "verdicts", "n", True),
    "detector_missing_count": Column("missing_count", "of those: not judged"),
    "detector_deadline_missed_count": Column(
        "deadline_missed_count", "judged more than a window after their end", "late", "n", True
    ),
    "detector_latency_p50_ms": Column(
        "latency_p50_ms", "end of a window to its verdict: median", "latency p50", "ms", True
    ),
    "detector_latency_p95_ms": Column(
        "latency_p95_ms", "the same: 95th percentile", "latency p95", "ms", True
    ),
    "detector_latency_max_ms": Column("latency_max_ms", "the same: the longest"),
    "detector_first_verdict_s": Column(
        "first_verdict_s", "opening of the gate to the first verdict", "first verdict", "s", True
    ),
    "detector_alarm_count": Column("alarm_count", "windows judged ATTACK", "ATTACK", "windows", True),
    "detector_degraded_count": Column(
        "degraded_count", "windows judged DEGRADED", "DEGRADED", "windows", True
    ),
    "detector_false_alarm_count": Column(
        "false_alarm_count", "alarms that began without a cause", "false alarms", "n", True
    ),
    "detector_episode_count": Column("episode_count", "visible attacks", "attacks", "n", True),
    "detector_detected_count": Column("detected_count", "of those: told", "detected", "n", True),
    "detector_delay_s": Column("delay_s", "begin of an attack to its verdict: median"),
    "detector_canary_raised": Column("canary_raised", "was the canary told?"),
    "detector_canary_delay_s": Column(
        "canary_delay_s", "begin of the canary to its verdict", "canary after", "s", True
    ),
    "detector_cpu_mean_pct": Column("cpu_mean_pct", "its processor time", "CPU", "% of a core", True),
    "detector_rss_mb": Column("rss_mb", "its memory", "RSS", "MB", True),
    "detector_others_cpu_ms": Column("others_cpu_ms", "processor time of all others; must be 0"),
}
COLUMNS = (*CELL, *FIELDS.values(), Column("reason", "why a field is missing, the commonest"))
OVERHEAD_COLUMNS = (
    Column("condition", "condition with a detector", "condition"),
    Column("reference", "the same without one", "against"),
    Column("detector", "detector"),
    Column("metric", "what was measured, by name"),
    Column("label", "the same in words", "metric"),
    Column("unit", "unit of medians and delta", "unit"),
    Column("scale", "effects are ratios or differences"),
    Column("scope", "all suites, or those of a KEM family", "scope"),
    Column("ring", "ring of the first pair", "ring"),
    Column("n_pairs", "pairs of cells of one suite and block", "pairs", "n", True),
    Column("n_suites", "suites among them"),
    Column("unit_of_inference", "what counts as one observation"),
    Column("reference_median", "median over the pairs' references", "without", "", True),
    Column("condition_median", "median over the pairs' conditions", "with", "", True),
    Column("delta", "the difference of both medians", "Δ", "", True),
    Column("delta_pct", "the same, per cent of the reference", "Δ", "%", True),
    Column("effect_mean", "ratio of geometric means, or mean difference"),
    Column("effect_low", "lower end of its interval", "95 % interval of the effect"),
    Column("effect_high", "upper end of its interval"),
    Column("p_holm", "p-value of no effect, by Holm over the rows of the metric"),
    Column("floor", "effect that A/A pairs show by chance", "noise floor", "", True),
    Column("floor_pairs", "A/A pairs behind the floor"),
    Column("floor_method", "measured, or assumed while there are too few", "floor from"),
    Column("visible_effect", "smallest effect that would have been seen", "seen from", "", True),
    Column("verdict", "improved, regressed, not distinguishable or insufficient", "verdict"),
    Column("cells", "ids of the cells with a detector"),
)
QUALITY_COLUMNS = (
    Column("watcher", "detector, or rule on the windows that it judged", "judge"),
    Column("kind", "detector or rule"),
    Column("detector", "detector of the cells", "on cells of"),
    Column("n_cells", "cells that pass or fail", "cells", "n", True),
    Column("judged_count", "windows", "windows", "n", True),
    Column("quiet_h", "time without a visible attack", "attack-free", "h", True),
    Column("false_alarm_count", "alarms that began in it", "false alarms", "n", True),
    Column("false_alarms_per_h", "the same over the time", "false alarms", "1/h", True),
    Column("false_alarms_low_per_h", "lower end of the exact 95 % interval", "95 % interval", "1/h"),
    Column("false_alarms_high_per_h", "upper end of the exact 95 % interval"),
    Column("episode_count", "visible attacks", "attacks", "n", True),
    Column("detected_count", "of those: told", "detected", "n", True),
    Column("recall_pct", "the same, per cent", "recall", "%", True),
    Column("delay_median_s", "begin of an attack to its verdict", "delay, median", "s", True),
    Column("canary_count", "canaries; rules have none"),
    Column("canary_raised_count", "of those: told", "canaries raised", "n", True),
    Column("degraded_count", "windows judged DEGRADED"),
    Column("missing_count", "windows without a verdict", "without", "n", True),
    Column("deadline_missed_count", "verdicts more than a window late", "late", "n", True),
)
#: cost to others; the detector's own stands in category S
METRICS = (
    Metric(HANDSHAKE, "cold handshake at the drone", "ms", "ratio", 1.10),
    Metric("system_pct", "CPU of the whole machine", "points", "difference", 0.5),
    Metric("drone_pct", "CPU of the drone's tunnel", "points", "difference", 0.5),
    Metric("gcs_pct", "CPU of the ground's tunnel", "points", "difference", 0.5),
    Metric("drone_rss_mb", "memory of the drone's tunnel", "MB", "difference", 1.0),
    Metric("temperature_c", "temperature at the drone", "°C", "difference", 0.5),
)
ALL = "all suites"
#: rules that need no model, on the very windows that the detectors judged: refused datagrams by counter
RULES = {
    "any authentication failure": ("auth_failed",),
    "any refused datagram": ("bad_header", "unknown_index", "auth_failed", "replay", "old_epoch"),
}


def make_tables(bundle: BundleData, made: Mapping[str, Table]) -> Iterator[Table]:
    """None in a bundle without detectors."""
    if all(detector_of(condition) == NONE for condition in conditions_of(bundle)):
        return
    handshakes, cpu = made["handshakes"], made["cpu"]
    cells = cell_table(bundle)
    yield cells
    yield overhead_table(bundle, handshakes, cpu)
    yield quality_table(bundle)
    yield scenario_table(handshakes, cpu, made["traffic"], cells, bundle)
    curves = roc_table(bundle)
    if curves.rows:
        yield curves


# ---------------------------------------------------------------------- cell by cell


def cell_table(bundle: BundleData) -> Table:
    """detectors.csv: one row a cell, cells without a detector among them: they show what none cost."""
    table = Table("detectors", names(COLUMNS))
    for cell in bundle.cells:
        found = {column.name: cell.value("S", name) for name, column in FIELDS.items()}
        reasons = [str(field["reason"]) for field in found.values() if field and field["reason"]]
        table.add(
            **cell_columns(cell),
            **{column: as_value(field["value"]) if field else None for column, field in found.items()},
            reason=commonest(reasons),
        )
    return table


def commonest(reasons: list[str]) -> str | None:
    """What was said most often; of several the first, so that the same files give the same table anywhere."""
    return max(dict.fromkeys(reasons), key=reasons.count, default=None)


# ---------------------------------------------------------------------- overhead


def detector_contrasts(conditions: list[Json]) -> list[Contrast]:
    """Each condition with a detector against the one that is the same without it."""
    apart = ("name", "detector", "detector_history", "aa_of")

    def rest(condition: Json) -> Json:
        return {key: value for key, value in settings_of(condition).items() if key not in apart}

    found = []
    for condition in conditions:
        if str(condition.get("detector", NONE)) == NONE or condition.get("aa_of"):
            continue
        for base in conditions:
            without = str(base.get("detector", NONE)) == NONE and not base.get("aa_of")
            if without and rest(base) == rest(condition):
                found.append(Contrast(str(condition["name"]), str(base["name"]), False))
                break
    return found


def overhead_table(bundle: BundleData, handshakes: Table, cpu: Table) -> Table:
    """detector_overhead.csv: a row a contrast, metric, scope (all suites; for handshakes each KEM family)."""
    table = Table("detector_overhead", names(OVERHEAD_COLUMNS))
    conditions = conditions_of(bundle)
    named = {str(c["name"]): str(c.get("detector", NONE)) for c in conditions}
    families = {cell.suite_id: cell.facts.kem_family for cell in bundle.cells if cell.facts}
    values = _values(handshakes, cpu)
    for metric in METRICS:
        mine = values[metric.name]
        null, _ = equal_cells(bundle, metric, mine)
        shown = null_of(null, metric)
        groups: list[tuple[Contrast, str, list[Difference]]] = []
        for contrast in detector_contrasts(conditions):
            found = differences_of(pairs_of(bundle.cells, contrast), metric, mine)
            scopes = {ALL: found} if found else {}
            if metric.name == HANDSHAKE:
                for difference in found:
                    scopes.setdefault(families.get(difference.pair.suite_id, "other"), []).append(difference)
            groups += [(contrast, scope, ds) for scope, ds in scopes.items()]
        # the size of the family sets how many resamples reach far enough into the tails for a claim
        results = [estimate(_by_suite(ds), seed=bundle.seed, tests=len(groups)) for _, _, ds in groups]
        corrected = holm([result.p_value for result in results])
        for (contrast, scope, ds), result, p_holm in zip(groups, results, corrected, strict=True):
            floor = shown.floor(costs_of(ds))
            before = median([mine[d.pair.reference] for d in ds]) or 0.0
            after = median([mine[d.pair.condition] for d in ds]) or 0.0
            scale = math.exp if metric.scale == "ratio" else float
            low, high = (None if v is None else scale(v) for v in (result.low, result.high))
            table.add(
                condition=contrast.condition,
                reference=contrast.reference,
                detector=named[contrast.condition],
                metric=metric.name,
                label=metric.label,
                unit=metric.unit,
                scale=metric.scale,
                scope=scope,
                ring=ds[0].pair.ring,
                n_pairs=len(ds),
                n_suites=result.n,
                unit_of_inference=SUITE,
                visible_effect=_scaled(seen_from(result, floor, len(groups)), scale),
                reference_median=before,
                condition_median=after,
                delta=after - before,
                delta_pct=100.0 * (after / before - 1.0) if before > 0.0 else None,
                effect_mean=None if result.mean is None else scale(result.mean),
                effect_low=low,
                effect_high=high,
                p_holm=p_holm,
                floor=scale(floor.value),
                floor_pairs=floor.pairs,
                floor_method=floor.method,
                verdict=verdict_of(result, p_holm, floor),
                cells=" ".join(sorted(d.pair.condition for d in ds)),
            )
    return table


def _by_suite(differences: list[Difference]) -> list[float]:
    """One value a suite, the median over its pairs: what stays with a suite is no noise between pairs."""
    suites: dict[str, list[float]] = defaultdict(list)
    for difference in differences:
        suites[difference.pair.suite_id].append(difference.value)
    return [middle for values in suites.values() if (middle := median(values)) is not None]


def _scaled(value: float | None, scale: Callable[[float], float]) -> float | None:
    return None if value is None else scale(value)


def _values(handshakes: Table, cpu: Table) -> dict[str, dict[str, float]]:
    """Metric → cell id → value, of cells that passed."""
    values: dict[str, dict[str, float]] = defaultdict(dict)

    def put(name: str, row: Row, column: str) -> None:
        if row["verdict"] == "pass" and row[column] is not None:
            values[name][str(row["cell_id"])] = number(row, column)

    for row in handshakes.rows:
        put(HANDSHAKE, row, "drone_wall_median_ms")
    for row in cpu.rows:
        if row["host"] == "drone":
            put("temperature_c", row, "temperature_mean_c")
            put("drone_rss_mb", row, "rss_max_mb")
            if row["cpu_valid"] is True:
                put("system_pct", row, "system_mean_pct")
        if row["cpu_valid"] is True:
            put(f"{row['host']}_pct", row, "process_mean_pct")
    return values


# ---------------------------------------------------------------------- quality


def quality_table(bundle: BundleData) -> Table:
    """detector_quality.csv: each detector, and each rule on the same windows, against ground truth."""
    table = Table("detector_quality", names(QUALITY_COLUMNS))
    for detector, cells in watched_cells(bundle).items():
        told = {column.name: [_whole(cell, name) for cell in cells] for name, column in FIELDS.items()}
        judged = sum(told["verdict_count"])
        delays = [
            number_of(f, "value")
            for c in cells
            if (f := c.value("S", "detector_delay_s")) and f["value"] is not None
        ]
        table.add(
            watcher=detector,
            kind="detector",
            detector=detector,
            n_cells=len(cells),
            judged_count=judged,
            **_alarm_rate(
                sum(told["false_alarm_count"]), sum(_quiet_h(cell, _judged(cell)) for cell in cells)
            ),
            **_recall(sum(told["detected_count"]), sum(told["episode_count"])),
            delay_median_s=median(delays),
            canary_count=len(cells),
            canary_raised_count=sum(told["canary_raised"]),
            degraded_count=sum(told["degraded_count"]),
            missing_count=sum(told["missing_count"]),
            deadline_missed_count=sum(told["deadline_missed_count"]),
        )
        for rule, counters in RULES.items():
            results = [_rule(cell, counters) for cell in cells]
            table.add(
                watcher=rule,
                kind="rule",
                detector=detector,
                n_cells=len(cells),
                judged_count=sum(r.judged for r in results),
                **_alarm_rate(sum(r.false for r in results), sum(r.quiet_h for r in results)),
                **_recall(sum(len(r.delays_s) for r in results), sum(r.episodes for r in results)),
                delay_median_s=median([d for r in results for d in r.delays_s]),
            )
    return table


class _RuleResult:
    """What a rule without memory would have said of the windows of one cell."""

    def __init__(self) -> None:
        self.judged = self.false = self.episodes = 0
        self.quiet_h = 0.0
        self.delays_s: list[float] = []


def _rule(cell: Cell, counters: tuple[str, ...]) -> _RuleResult:
    """ATTACK in each window in which any of the counters moved; told at its window's end."""
    result = _RuleResult()
    gate = gate_of(cell)
    path = cell.directory / "bins.ndjson"
    if gate is None or not path.is_file():
        return result
    moved: dict[int, int] = defaultdict(int)
    places: list[int] = []
    for text in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(text)
        if isinstance(row, list):
            moved[int(row[0]) // BINS] += sum(int(row[1][place]) for place in places)
        elif "fields" in row:
            places = [row["fields"].index(name) for name in counters if name in row["fields"]]
    episodes = [e for e in episodes_of(read_ndjson(cell.directory / "attack.ndjson")) if e[0] < gate[1]]
    due = due_windows(gate)
    result.judged, result.episodes = len(due), len(episodes)
    result.quiet_h = _quiet_h(cell, due)
    alarms = [k for k in due if moved.get(k)]
    for k in alarms:
        result.false += not alarm_is_caused(k, episodes) and k - 1 not in alarms
    for on, off in episodes:
        first = next(
            (k for k in alarms if (k + 1) * WINDOW_NS > on and k * WINDOW_NS < off + WINDOW_NS), None
        )
        if first is not None:
            result.delays_s.append(((first + 1) * WINDOW_NS - on) / 1e9)
    return result


def _judged(cell: Cell) -> set[int]:
    """The due windows that the cell's detector gave a verdict on."""
    due = due_windows_of(cell)
    lines = read_ndjson(cell.directory / "detector.ndjson")
    return {k for line in lines if line["state"] == "ready" and (k := int(line["k"])) in due}


def _quiet_h(cell: Cell, judged: Iterable[int]) -> float:
    """Hours of the judged windows in which an alarm is false; where nobody judged, none can be."""
    episodes = episodes_of(read_ndjson(cell.directory / "attack.ndjson"))
    return sum(not alarm_is_caused(k, episodes) for k in judged) * WINDOW_NS / 3.6e12


def _whole(cell: Cell, name: str) -> int:
    """A count of the record; 0 where that cell says null, which its own row shows."""
    field = cell.value("S", name)
    value = field["value"] if field else None
    return int(value) if isinstance(value, bool | int) else 0


def _alarm_rate(count: int, hours: float) -> dict[str, Value]:
    low, high = poisson_interval(count)
    return {
        "quiet_h": hours,
        "false_alarm_count": count,
        "false_alarms_per_h": count / hours if hours else None,
        "false_alarms_low_per_h": low / hours if hours else None,
        "false_alarms_high_per_h": high / hours if hours else None,
    }


def _recall(detected: int, episodes: int) -> dict[str, Value]:
    return {
        "episode_count": episodes,
        "detected_count": detected,
        "recall_pct": 100.0 * detected / episodes if episodes else None,
    }


def poisson_interval(count: int, level: float = 0.95) -> tuple[float, float]:
    """Exact (Garwood 1936) two-sided interval of a Poisson mean from one count."""
    tail = (1.0 - level) / 2.0
    low = 0.0 if count == 0 else _solve(lambda mean: 1.0 - _poisson_cdf(count - 1, mean), tail, count)
    return low, _solve(lambda mean: 1.0 - _poisson_cdf(count, mean), 1.0 - tail, count)


def _poisson_cdf(count: int, mean: float) -> float:
    return math.fsum(
        math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) if mean > 0 else float(i == 0)
        for i in range(count + 1)
    )


def _solve(rising: Callable[[float], float], wanted: float, count: int) -> float:
    low, high = 0.0, 10.0 + 3.0 * count
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return high
