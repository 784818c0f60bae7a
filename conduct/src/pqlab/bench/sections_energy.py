"""Power and energy: the tables and drawings of `power-2026-01`, or why there are none; recommendations.

Without a sensor this page holds no number of power or energy at all, not even a published one.
"""

from __future__ import annotations

import statistics

from pqbase.documents import part_of
from pqevidence.analysis.table import Row
from pqevidence.analysis.table import Table as Values
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import (
    Block,
    Cell,
    Column,
    Facts,
    Figure,
    Finding,
    Findings,
    Paragraphs,
    Section,
    Table,
    label,
)
from pqevidence.report.figures import FAMILY_CLASS
from pqevidence.report.layouts import Drawing
from pqevidence.report.scatter import Point, scatter
from pqlab.bench.energy import Run
from pqlab.bench.sections_time import name_of, published_cell, shown
from pqlab.bench.verdicts import Verdict
from pqtunnel.suites import KEMS, SIGS

_TITLES = {"kem": "KEM", "sig": "Signature", "aead": "AEAD", "suites": "Full handshake", "ladder": "Ladder"}
_FAMILY = {one.name: one.family for registry in (KEMS, SIGS) for one in registry.values()}
_LEVEL = {one.name: one.level for registry in (KEMS, SIGS) for one in registry.values()}
SOURCE = "analysis/energy.csv"


def no_energy() -> Section:
    """The whole section of a run without a sensor."""
    text = (
        "Not measured: no power sensor took part in this run. With one: ./pqtunnel bench --mode energy "
        "--power NAME, then ./pqlab bench-report FOLDER --with-energy ENERGY_FOLDER."
    )
    return Section("energy", "Power and energy", (Paragraphs("energy-none", (text,)),))


def energy_section(run: Run, table: Values) -> Section:
    """Tables by category, the drawings, the sensor."""
    host = str(run.environment["host"])
    where = f"{run.ring}, {host}"
    parts: list[Block] = [_sensor(run)]
    for category, title in _TITLES.items():
        own = [row for row in table.rows if row["category"] == category]
        if own:
            parts.append(_table(category, title, own, where))
    parts += _drawings(table, where)
    parts.append(Paragraphs("energy-method", _METHOD, as_list=True))
    lead = None
    if run.synthetic:
        lead = (
            f"Synthetic: the sensor was of the class {run.header.get('sensor_class')}, not a chip on a "
            "board. Nothing in this section was measured."
        )
    return Section("energy", "Power and energy", tuple(parts), lead)


_METHOD = (
    "Blocks of at least one second, N and 2 N operations each, in random order between idle spans; power is "
    "integrated over the exact span, idle power of both neighbours is taken off.",
    "U is expanded, k = 2: calibration, quantisation, alignment, idle, and the spread between blocks with "
    "Student's factor.",
    "Not resolvable: the net energy does not exceed its own U. Additive: twice the operations took twice the "
    "energy within U.",
    "The published energy is mean board power times time with idle included: larger by construction.",
)


def _sensor(run: Run) -> Facts:
    header = run.header
    calibration = part_of(header, "calibration", {})
    items: tuple[tuple[str, Cell], ...] = (
        ("sensor", label(header.get("sensor"))),
        ("class", label(header.get("sensor_class"))),
        ("rate", label(f"{header.get('rate_hz')} Hz, {header.get('mode')}")),
        ("calibration", label(calibration.get("method", "none"))),
        ("samples", blocks.count(run.samples)),
        ("operations", blocks.count(len(run.results))),
        ("algorithms", blocks.count(len({one.algorithm for one in run.results}))),
        ("sensor lost", label(run.lost_reason or "no")),
    )
    return Facts("energy-sensor", "Sensor", items)


def _table(category: str, title: str, rows: list[Row], where: str) -> Table:
    columns = (
        Column("operation"),
        Column("energy", "µJ net", True),
        Column("published energy", "µJ gross", True),
        Column("U", "µJ", True),
        Column("power", "W gross", True),
        Column("published power", "W", True),
        Column("time", "ms", True),
        Column("published time", "ms", True),
        Column("additive"),
        Column("one alone"),
        Column("blocks", "", True),
        Column("ring"),
        Column("host"),
    )
    lines = []
    for row in rows:
        reason = "not resolvable" if row["resolvable"] is False else row["reason"]
        additive = row["additive"]
        told = (
            blocks.missing("one of the two is missing")
            if additive is None
            else label("yes" if additive else "no: these joules are not to be used")
        )
        lines.append(
            [
                label(name_of(row)),
                _micro(row["energy_j"], reason),
                _micro_published(row["published_energy_j"]),
                _micro(row["u_energy_j"], reason),
                shown(row["power_w"], row["reason"]),
                published_cell(row["published_power_w"], "not in power-2026-01"),
                shown(row["time_ms"], row["reason"]),
                published_cell(row["published_time_ms"], "not in power-2026-01"),
                told,
                label(row["alone"]),
                blocks.count(str(row["blocks"])),
                label(row["ring"]),
                label(row["host"]),
            ]
        )
    return Table(
        f"energy-{category}",
        f"{title}: energy of one operation",
        columns,
        blocks.rows_of(lines),
        where,
        SOURCE,
    )


def _micro(value: object, reason: object) -> Cell:
    if isinstance(value, (int, float)):
        return blocks.number(value * 1e6)
    return Cell("not resolvable", kind="null short") if reason == "not resolvable" else shown(None, reason)


def _micro_published(value: object) -> Cell:
    return published_cell(value * 1e6 if isinstance(value, (int, float)) else None, "not in power-2026-01")


def _drawings(table: Values, where: str) -> list[Figure]:
    """The ten of power-2026-01; one that would be empty is left out."""
    rows = table.rows
    good = [row for row in rows if isinstance(row["energy_j"], float) and row["energy_j"] > 0]
    drawn: list[Figure | None] = []
    for category, title in (("kem", "KEM"), ("sig", "Signature")):
        own = [row for row in rows if row["category"] == category]
        known = [row for row in good if row["category"] == category]
        drawn.append(
            _dots(f"fig-energy-{category}-timing", f"{title}: time in batches", own, "time_ms", "ms", where)
        )
        lit = [row for row in own if isinstance(row["power_w"], float) and row["power_w"] > 0]
        drawn.append(
            _dots(f"fig-energy-{category}-watts", f"{title}: power while working", lit, "power_w", "W", where)
        )
        drawn.append(
            _dots(
                f"fig-energy-{category}-power",
                f"{title}: energy of one operation",
                known,
                "energy_j",
                "J",
                where,
            )
        )
    drawn.append(_strips("fig-energy-ranking", "Operations a joule, most first", good, where))
    points = [Point(name_of(r), _family(r), _f(r["time_ms"]), _f(r["energy_j"])) for r in good]
    drawn.append(
        _scatter(
            "fig-energy-time", "Time against energy", "time, ms", "net energy, J", points, where, "ms", "J"
        )
    )
    level = [r for r in good if r["algorithm"] in _LEVEL]
    drawn.append(_levels(level, where))
    drawn.append(_levels([r for r in rows if r["algorithm"] in _LEVEL], where, "time_ms"))
    aead = [row for row in good if row["category"] == "aead"]
    drawn.append(_aead(aead, where))
    electric = [
        Point(name_of(r), _family(r), _f(r["voltage_v"]), _f(r["current_a"]))
        for r in rows
        if r["voltage_v"] is not None and r["current_a"] is not None
    ]
    drawn.append(
        _scatter(
            "fig-energy-electrical",
            "Voltage and current",
            "voltage, V",
            "current, A",
            electric,
            where,
            "V",
            "A",
        )
    )
    drawn.append(_heat(good, where))
    drawn.append(_heat(rows, where, "time_ms"))
    return [one for one in drawn if one is not None]


def _f(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("only rows with this number are drawn")
    return float(value)


def _family(row: Row) -> str | None:
    family = _FAMILY.get(str(row["algorithm"]))
    return next((name for name in FAMILY_CLASS if family and str(row["algorithm"]).startswith(name)), None)


def _figure(figure_id: str, caption: str, svg: Drawing, where: str) -> Figure:
    return Figure(figure_id, caption, svg, where, SOURCE)


_LETTERS = {"encapsulate": "encaps", "decapsulate": "decaps", "encrypt": "encaps", "decrypt": "decaps"}


def _dots(figure_id: str, title: str, rows: list[Row], column: str, unit: str, where: str) -> Figure | None:
    dots = []
    for row in rows:
        value = _f(row[column])
        u = row["u_energy_j"] if column == "energy_j" else None
        spread = float(u) if isinstance(u, float) else 0.0
        series = _LETTERS.get(str(row["operation"]), str(row["operation"]))
        dots.append(
            figures.Dot(str(row["algorithm"]), series, value, max(value - spread, value / 10), value + spread)
        )
    if not dots:
        return None
    return _figure(
        figure_id, title, figures.dot_rows(figure_id, title, f"{unit} (log scale)", dots, unit), where
    )


def _strips(figure_id: str, title: str, rows: list[Row], where: str) -> Figure | None:
    ordered = sorted(rows, key=lambda r: (_f(r["energy_j"]), name_of(r)))
    strips = [
        figures.Strip(name_of(r), _family(r), (1 / _f(r["energy_j"]),), 1 / _f(r["energy_j"]))
        for r in ordered
    ]
    if not strips:
        return None
    svg = figures.strips(figure_id, title, "operations a joule (log scale)", strips, "/J")
    return _figure(figure_id, title, svg, where)


def _scatter(
    figure_id: str,
    title: str,
    x_title: str,
    y_title: str,
    points: list[Point],
    where: str,
    x_unit: str,
    y_unit: str,
) -> Figure | None:
    if not points:
        return None
    return _figure(
        figure_id, title, scatter(figure_id, title, x_title, y_title, points, x_unit, y_unit), where
    )


def _levels(rows: list[Row], where: str, column: str = "energy_j") -> Figure | None:
    energy = column == "energy_j"
    title = f"{'Energy' if energy else 'Time'} of one operation by NIST level"
    strips = []
    for level in (1, 3, 5):
        values = tuple(_f(r[column]) for r in rows if _LEVEL[str(r["algorithm"])] == level)
        if values:
            strips.append(figures.Strip(f"level {level}", None, values, statistics.median(values)))
    if not strips:
        return None
    unit = "J" if energy else "ms"
    figure_id = "fig-energy-level" if energy else "fig-energy-level-time"
    axis = f"{'net energy' if energy else 'time'}, {unit} (log scale)"
    svg = figures.strips(f"svg-{figure_id}", title, axis, strips, unit)
    return _figure(figure_id, title, svg, where)


def _aead(rows: list[Row], where: str) -> Figure | None:
    title = "AEAD: energy by payload"
    lines = []
    for name in sorted({f"{r['algorithm']} {r['operation']}" for r in rows}):
        own = sorted(
            (_f(r["payload_bytes"]), _f(r["energy_j"]))
            for r in rows
            if f"{r['algorithm']} {r['operation']}" == name
        )
        if len(own) > 1:
            lines.append(figures.Curve(name, None, tuple(own)))
    if not lines:
        return None
    svg = figures.curves("fig-energy-aead", title, "payload, B", "net energy, J", lines, logarithmic=True)
    return _figure("fig-energy-aead", title, svg, where)


def _heat(rows: list[Row], where: str, column: str = "energy_j") -> Figure | None:
    own = [r for r in rows if r["category"] in ("kem", "sig")]
    if not own:
        return None
    energy = column == "energy_j"
    names = list(dict.fromkeys(str(r["algorithm"]) for r in own))
    operations = list(dict.fromkeys(str(r["operation"]) for r in own))
    scale = 1e3 if energy else 1.0
    values = {(str(r["algorithm"]), str(r["operation"])): _f(r[column]) * scale for r in own}
    title = f"{'Energy' if energy else 'Time'} of every operation"
    figure_id = "fig-energy-heat" if energy else "fig-energy-heat-time"
    svg = figures.heat_map(
        f"svg-{figure_id}",
        title,
        names,
        operations,
        values,
        "mJ" if energy else "ms",
        empty="no figure",
    )
    return _figure(figure_id, title, svg, where)


def recommendations(times: list[Verdict], energy: list[Verdict], where: str, synthetic: bool) -> Section:
    """What the verdicts carry and nothing else."""
    items = [
        Finding(
            f"{one.use}: {one.winner} {word}.",
            f"{one.value}; {one.next_name} needs {one.ratio:.2f} times that",
            f"n = {one.n}, intervals apart from all others",
            where,
            (),
            "plain",
        )
        for verdicts, word in ((times, "takes the least time"), (energy, "takes the least energy"))
        for one in verdicts
    ]
    empty = "No recommendation: in no group do the intervals of one algorithm lie apart from all others."
    parts: list[Block] = [Findings("bench-recommendations", tuple(items), empty)]
    if synthetic:
        parts.append(
            Paragraphs("no-energy-verdict", ("Synthetic samples give no recommendation on energy.",))
        )
    return Section(
        "recommendations",
        "Recommendations",
        tuple(parts),
        "Generated from verdicts: an algorithm is named only where its interval lies below every other's. "
        "Speed says nothing about the security of a family.",
    )
