"""The detector part of a report: what the published detector sections show; silent without one."""

from __future__ import annotations

from collections.abc import Callable

from pqlab.analysis.detectors import ALL
from pqlab.analysis.metrics import HANDSHAKE
from pqlab.analysis.stats import mean, median, quantile
from pqlab.report import blocks, figures
from pqlab.report.blocks import Cell, Column, Figure, Section, Table, label, number
from pqlab.report.panels import Panel, PanelBar, panels
from pqlab.report.sections import detector_tables as tables
from pqlab.report.source import RawRow, Source

FAMILIES = ("ML-KEM", "HQC", "Classic-McEliece")
Values = dict[str, list[float]]


def detectors(source: Source) -> Section | None:
    """Only where a condition of the bundle names a detector."""
    if not source.has("detectors"):
        return None
    parts: list[blocks.Block] = [
        tables.recommendations(source), tables.models(source), tables.quality(source), _scenarios(source),
        _system(source), _overhead_figure(source), tables.overhead(source),
        *_heat(source), _families(source), _keygen(source), tables.verdicts(source),
    ]  # fmt: skip
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
    listed = source.bundle.scenario.get("conditions") or []
    return [str(c["name"]) for c in listed if not c.get("aa_of")]


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


def _scenarios(source: Source) -> Table:
    names = _conditions(source)
    shakes = _column(source, "handshakes", "drone_wall_median_ms")
    system = _column(source, "cpu", "system_mean_pct", _drone)
    tunnel = _column(source, "cpu", "process_mean_pct", _drone)
    heat = _column(source, "cpu", "temperature_mean_c", _drone)
    sent, loss = (_column(source, "traffic", name, _down) for name in ("sent_count", "loss_pct"))
    own, rss = (_column(source, "detectors", name) for name in ("cpu_mean_pct", "rss_mb"))
    no_zone = next(
        (row["temperature_reason"] for row in source.rows("cpu") if row["temperature_reason"]), None
    )
    counted = {name: [c for c in source.bundle.cells if c.condition == name] for name in names}

    def of(values: Values, function: Callable[[list[float]], float | None], why: str) -> list[Cell]:
        return [number(function(values[name]), reason=why) for name in names]

    def p95(values: list[float]) -> float | None:
        return quantile(values, 0.95)

    def largest(values: list[float]) -> float | None:
        return max(values, default=None)

    none, asleep = "no cell passed", "no detector in this campaign's cells"
    lines = [
        ("handshake, median over cells", "ms", of(shakes, median, none)),
        ("handshake, mean over cells", "ms", of(shakes, mean, none)),
        ("handshake, P95 over cells", "ms", of(shakes, p95, none)),
        ("CPU of the machine, mean", "% of all cores", of(system, mean, none)),
        ("CPU of the machine, busiest cell", "% of all cores", of(system, largest, none)),
        ("CPU of the drone's tunnel, mean", "% of a core", of(tunnel, mean, none)),
        ("CPU of the detector, mean", "% of a core", of(own, mean, asleep)),
        ("memory of the detector, largest", "MB", of(rss, largest, "no detector in this condition")),
        ("temperature, mean", "°C", of(heat, mean, no_zone or none)),
        ("datagrams sent, median", "datagrams", of(sent, median, none)),
        ("loss, mean", "%", of(loss, mean, none)),
        ("cells passed", "of planned", [
            label(f"{sum(c.verdict == 'pass' for c in cells)} of {len(cells)}") for cells in counted.values()
        ]),
    ]  # fmt: skip
    return Table(
        "det-scenarios",
        "Conditions side by side; differences that mean something stand in the table of costs",
        (Column("metric"), Column("unit"), *(Column(name, "", True) for name in names)),
        blocks.rows_of([[label(title), label(unit), *cells] for title, unit, cells in lines]),
        source.ring,
        "analysis/handshakes.csv",
        "All containers share the cores of one machine; no figure here is a claim about a board.",
        sortable=False,
    )


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
        Panel("CPU of the machine, mean", "% of all cores",
              _bars(_column(source, "cpu", "system_mean_pct", _drone), mean, "not measured")),
        Panel("CPU of the detector, mean", "% of a core",
              _bars(_column(source, "detectors", "cpu_mean_pct"), mean, "not measured")),
        Panel("temperature, mean", "°C",
              _bars(_column(source, "cpu", "temperature_mean_c", _drone), mean, "no thermal zone here")),
        Panel("datagrams sent, median", "datagrams",
              _bars(_column(source, "traffic", "sent_count", _down), median, "not measured")),
    ]  # fmt: skip
    return _figure(source, "det-fig-system", "CPU, temperature and datagrams by condition", parts, "cpu")


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
        known = field is not None and isinstance(field["value"], int | float)
        if cell.verdict == "pass" and known and cell.condition in found.get(family, {}):
            assert field is not None
            found[family][cell.condition].append(float(field["value"]))
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
        source, "det-fig-overhead", "Handshakes beside a running detector and without one", parts,
        "detector_overhead",
    )  # fmt: skip


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
            f"svg-{figure_id}", caption, FAMILIES, _conditions(source), values, unit,
            empty="no cell", darker="more",
        )  # fmt: skip
        found.append(Figure(figure_id, caption, markup, source.ring, "analysis/cpu.csv"))
    return found
