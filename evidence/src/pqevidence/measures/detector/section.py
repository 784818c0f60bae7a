"""The detector part of a report: what the published detector sections show; silent without one."""

from __future__ import annotations

from collections.abc import Callable

from pqevidence.analysis.metrics import HANDSHAKE
from pqevidence.analysis.stats import mean, median
from pqevidence.measures.detector import listed
from pqevidence.measures.detector.scenarios import NAME as SCENARIOS
from pqevidence.measures.detector.scores import scores
from pqevidence.measures.detector.tables import ALL
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Cell, Column, Figure, Section, Table, label, missing, number
from pqevidence.report.panels import Panel, PanelBar, panels
from pqevidence.report.roc import RocCurve, roc
from pqevidence.report.sections.over_time import SHADES_COUNT
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import counted, significant

FAMILIES = ("ML-KEM", "HQC", "Classic-McEliece")
Values = dict[str, list[float]]


def detectors(source: Source) -> Section | None:
    """Only where a condition of the bundle names a detector."""
    if not source.has("detectors"):
        return None
    parts: list[blocks.Block] = [
        listed.recommendations(source),
        *scores(source),
        listed.models(source),
        listed.quality(source),
        *_roc(source),
        *_scenarios(source),
        _system(source),
        _overhead_figure(source),
        listed.overhead(source),
        *_heat(source),
        _families(source),
        _keygen(source),
        listed.verdicts(source),
    ]
    return Section(
        "detectors",
        "Detectors",
        tuple(parts),
        "A detector reads the counters of the drone's sealed side, one window of 0.6 s at a time, in a "
        "container of its own, which is frozen in every cell but its own. After each of its cells a known "
        "attack, the canary, must be raised; nothing of that window enters a figure.",
    )


# ---------------------------------------------------------------------- conditions side by side


def _conditions(source: Source) -> list[str]:
    """In the order of the scenario, twins left out."""
    return [str(c["name"]) for c in source.bundle.conditions if not c.get("aa_of")]


def _column(
    source: Source, table: str, column: str, keep: Callable[[RawRow], bool] = lambda row: True
) -> Values:
    """Condition → values of cells that passed."""
    found: Values = {name: [] for name in _conditions(source)}
    for row in source.rows(table):
        if row["verdict"] == "pass" and row["condition"] in found and row[column] and keep(row):
            found[row["condition"]].append(float(row[column]))
    return found


def _drone(row: RawRow) -> bool:
    return row["host"] == "drone"


def _down(row: RawRow) -> bool:
    return row["window"] == "traffic" and row["direction"] == "down"


def _scenarios(source: Source) -> list[Table]:
    rows = source.rows(SCENARIOS) if source.has(SCENARIOS) else []
    if not rows:
        return []
    names = list(dict.fromkeys(row["condition"] for row in rows))
    by_metric: dict[tuple[str, str], dict[str, RawRow]] = {}
    for row in rows:
        by_metric.setdefault((row["metric"], row["unit"]), {})[row["condition"]] = row
    no_zone = next(
        (row["temperature_reason"] for row in source.rows("cpu") if row["temperature_reason"]), None
    )

    def value(metric: str, row: RawRow) -> Cell:
        if row["passed_count"] == "0":
            return missing("no cell passed")
        if metric.startswith("temperature"):
            return number(row["value"], reason=no_zone)
        if "of the detector" in metric:
            return number(row["value"], reason="no detector in this condition")
        return number(row["value"], reason="the raw files do not hold it")

    lines = [
        [label(metric), label(unit), *(value(metric, found[name]) for name in names)]
        for (metric, unit), found in by_metric.items()
    ]
    some = next(iter(by_metric.values()))
    counts = [label(f"{some[name]['passed_count']} of {some[name]['planned_count']}") for name in names]
    return [
        Table(
            "det-scenarios",
            "Conditions side by side; differences that mean something stand in the table of costs",
            (Column("metric"), Column("unit"), *(Column(name, "", True) for name in names)),
            blocks.rows_of([*lines, [label("cells passed"), label("of planned"), *counts]]),
            source.ring,
            f"analysis/{SCENARIOS}.csv",
            "All containers share the cores of one machine; no figure here is a claim about a board.",
            sortable=False,
        )
    ]


# ---------------------------------------------------------------------- figures


def _bars(
    values: Values, function: Callable[[list[float]], float | None], missing: str
) -> tuple[PanelBar, ...]:
    return tuple(PanelBar(name, function(found), missing) for name, found in values.items())


def _figure(source: Source, figure_id: str, caption: str, parts: list[Panel], table: str) -> Figure:
    markup = panels(f"svg-{figure_id}", caption, parts)
    return Figure(figure_id, caption, markup, source.ring, f"analysis/{table}.csv")


def _system(source: Source) -> Figure:
    parts = [
        Panel(
            "CPU of the machine, mean",
            "% of all cores",
            _bars(_column(source, "cpu", "system_mean_pct", _drone), mean, "not measured"),
        ),
        Panel(
            "CPU of the detector, mean",
            "% of a core",
            _bars(_column(source, "detectors", "cpu_mean_pct"), mean, "not measured"),
        ),
        Panel(
            "temperature, mean",
            "°C",
            _bars(_column(source, "cpu", "temperature_mean_c", _drone), mean, "no thermal zone here"),
        ),
        Panel(
            "datagrams sent, median",
            "datagrams",
            _bars(_column(source, "traffic", "sent_count", _down), median, "not measured"),
        ),
    ]
    return _figure(source, "det-fig-system", "CPU, temperature and datagrams by condition", parts, "cpu")


def _roc(source: Source) -> list[Figure]:
    """A curve a detector; [] where no window was attacked, or all were."""
    if not source.has("detector_roc"):
        return []
    by_name: dict[str, list[RawRow]] = {}
    for row in source.rows("detector_roc"):
        by_name.setdefault(row["detector"], []).append(row)
    curves = [
        RocCurve(
            f"{name}: area {significant(float(rows[0]['area']))}",
            f"s-{place % SHADES_COUNT + 1}",
            tuple((float(row["false_pct"]), float(row["found_pct"])) for row in rows),
        )
        for place, (name, rows) in enumerate(by_name.items())
    ]
    told = "; ".join(
        f"{name}: {counted(int(rows[0]['attacked_count']), 'attacked window')}, "
        f"{rows[0]['quiet_count']} quiet"
        for name, rows in by_name.items()
    )
    return [
        Figure(
            "det-fig-roc",
            f"Attacked windows found, quiet windows named, at every threshold of the ATTACK score ({told})",
            roc(
                "svg-det-roc",
                "Detectors at every threshold",
                "quiet windows named, %",
                "attacked windows found, %",
                curves,
            ),
            source.ring,
            "analysis/detector_roc.csv",
        )
    ]


def _by_family(source: Source, table: str, column: str) -> dict[str, Values]:
    return {
        family: _column(source, table, column, lambda row, family=family: row["kem_family"] == family)  # type: ignore[misc]
        for family in FAMILIES
    }


def _families(source: Source) -> Figure:
    found = _by_family(source, "handshakes", "drone_wall_median_ms")
    parts = [
        Panel(family, "ms, median over cells", _bars(values, median, "no cell of this family"), family)
        for family, values in found.items()
        if any(values.values())
    ]
    return _figure(
        source, "det-fig-family", "Cold handshake by KEM family under each condition", parts, "handshakes"
    )


def _keygen(source: Source) -> Figure:
    found: dict[str, Values] = {family: {name: [] for name in _conditions(source)} for family in FAMILIES}
    for cell in source.bundle.cells:
        field = cell.value("E", "kem_keygen_ms")
        family = cell.facts.kem_family if cell.facts else ""
        value = None if field is None else field["value"]
        known = cell.verdict == "pass" and cell.condition in found.get(family, {})
        if known and isinstance(value, int | float):
            found[family][cell.condition].append(float(value))
    parts = [
        Panel(family, "ms, median over cells", _bars(values, median, "no cell of this family"), family)
        for family, values in found.items()
        if any(values.values())
    ]
    return _figure(
        source, "det-fig-keygen", "KEM key generation by family under each condition", parts, "primitives"
    )


def _overhead_figure(source: Source) -> Figure:
    parts = []
    rows = [row for row in source.rows("detector_overhead") if row["metric"] == HANDSHAKE]
    for scope in dict.fromkeys(row["scope"] for row in rows):
        members = [row for row in rows if row["scope"] == scope]
        bars = []
        for base in dict.fromkeys(row["reference"] for row in members):
            mine = [row for row in members if row["reference"] == base]
            bars.append(PanelBar(f"{base} (without)", float(mine[0]["reference_median"])))
            bars += [PanelBar(row["condition"], float(row["condition_median"])) for row in mine]
        family = scope if scope != ALL else None
        parts.append(Panel(f"cold handshake, {scope}", "ms, median over pairs", tuple(bars), family))
    if not parts:
        parts = [Panel("cold handshake", "ms", (PanelBar("no pair of cells with and without", None),))]
    return _figure(
        source,
        "det-fig-overhead",
        "Handshakes beside a running detector and without one",
        parts,
        "detector_overhead",
    )


def _heat(source: Source) -> list[Figure]:
    found = []
    for figure_id, column, caption, unit in (
        (
            "det-fig-heat",
            "system_mean_pct",
            "CPU of the machine by KEM family and condition",
            "% of all cores",
        ),
        ("det-fig-heat-temperature", "temperature_mean_c", "Temperature by KEM family and condition", "°C"),
    ):
        values: dict[tuple[str, str], float] = {}
        for family in FAMILIES:
            by_condition = _column(
                source,
                "cpu",
                column,
                lambda row, family=family: _drone(row) and row["kem_family"] == family,  # type: ignore[misc]
            )
            for name, members in by_condition.items():
                if (value := mean(members)) is not None:
                    values[family, name] = value
        if not values:
            continue  # a host without a thermal zone has no such map; the table says why
        markup = figures.heat_map(
            f"svg-{figure_id}",
            caption,
            [name for name in FAMILIES if any(name == key[0] for key in values)],
            _conditions(source),
            values,
            unit,
            empty="no cell",
            darker="more",
        )
        found.append(Figure(figure_id, caption, markup, source.ring, "analysis/cpu.csv"))
    return found
