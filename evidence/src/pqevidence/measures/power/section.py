"""Power and energy of a run whose drone had a sensor: the columns of `suites-2026-01`, and how heat moved.

Without a sensor there is no section; the suites' section says why there are no such columns.
"""

from __future__ import annotations

from pqbase.documents import whole_of
from pqevidence.analysis.column import names, pick
from pqevidence.analysis.stats import MIN_RUNS_COUNT, mean, median, sd
from pqevidence.analysis.table import to_float
from pqevidence.measures.power.tables import COLUMNS, NAME, RECORDED
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Paragraphs,
    Section,
    Table,
    label,
    missing,
    number,
    verdict,
)
from pqevidence.report.columns import heads
from pqevidence.report.source import RawRow, Source, analysis_link, anchor, record_link, why_missing
from pqevidence.report.svg import counted, significant

CSV = analysis_link(NAME)
SUMMED = ("power_mean_w", "power_peak_w", "energy_gross_j", "temperature_c")
OF_A_CELL = (
    "repetition", "sensor", "n_samples", *names(RECORDED), "temperature_c", "ring", "verdict",
)  # fmt: skip


def supply(source: Source) -> Section | None:
    """Summary by suite, averages, every cell, drawings."""
    rows = source.rows(NAME) if source.has(NAME) else []
    if not rows:
        return None
    ring = "synthetic" if any(r["ring"] == "synthetic" for r in rows) else source.ring
    one, under = source.of_one_condition(rows)
    parts: list[Block] = [
        _summary(source, rows, ring),
        Paragraphs("supply-averages", tuple(_averages(one, ring, under))),
        _strips(one, ring, under),
        _detail(source, rows, ring),
    ]
    lead = (
        "Means over the traffic window at the drone. Gross energy holds everything the board drew, idle "
        "included, and says little about a suite; net energy of an operation comes from ./pqtunnel bench "
        "--mode energy."
    )
    if ring == "synthetic":
        lead = f"Synthetic: no chip on a board gave these watts, and nothing here was measured. {lead}"
    return Section("supply", "Power and energy", tuple(parts), lead)


def heat(source: Source) -> Section | None:
    """Temperature over the order of the run: heat that builds up is confounded with a fixed order."""
    cells = {r["cell_id"]: r for r in source.rows("cpu") if r["host"] == "drone"}
    order = sorted(source.bundle.cells, key=lambda cell: whole_of(cell.plan, "position"))
    points = tuple(
        (float(whole_of(cell.plan, "position") + 1), degrees)
        for cell in order
        if (row := cells.get(cell.cell_id)) and (degrees := to_float(row["temperature_mean_c"])) is not None
    )
    if len(points) < 2:
        return None
    first, last = points[0][1], points[-1][1]
    highest = max(degrees for _, degrees in points)
    text = (
        f"Drone, mean of each cell: {significant(first)} °C in the first, {significant(last)} °C in the "
        f"last, {significant(highest)} °C at most (n = {len(points)} cells), ring {source.ring}. The order "
        "of cells is drawn anew in every block, so heat that builds up does not fall on one suite."
    )
    figure = Figure(
        "fig-temperature",
        "Temperature of the drone over the order of the run",
        figures.curves(
            "svg-temperature",
            "Temperature over the order of the run",
            "position in the run",
            "temperature, °C",
            [figures.Curve("drone", None, points, "s-2")],
            logarithmic=False,
            identity=False,
        ),
        source.ring,
        "analysis/cpu.csv",
    )
    return Section("heat", "Temperature over the run", (figure, Paragraphs("heat-observation", (text,))))


def _condition(source: Source) -> tuple[str, ...]:
    return ("condition",) if source.many_conditions else ()


def _values(rows: list[RawRow], column: str) -> list[float]:
    return [v for r in rows if r["verdict"] == "pass" and (v := to_float(r[column])) is not None]


def _why(row: RawRow) -> str:
    return row["reason"] or why_missing(row)


def _summary(source: Source, rows: list[RawRow], ring: str) -> Table:
    groups: dict[tuple[str, str], list[RawRow]] = {}
    for row in rows:
        groups.setdefault((row["suite_id"], row["condition"]), []).append(row)
    lines = []
    for (suite, condition), own in groups.items():
        line: list[Cell] = [label(suite, href=anchor(own[0]["cell_id"]))]
        if source.many_conditions:
            line.append(label(condition))
        line += [
            blocks.count(len(_values(own, "power_mean_w"))),
            *(number(median(_values(own, column)), reason=_why(own[0])) for column in SUMMED),
            label(" / ".join(sorted({row["ring"] for row in own}))),
        ]
        lines.append(line)
    columns = (
        *heads(pick(COLUMNS, "suite_id", *_condition(source))),
        Column("cells", "n", True),
        *heads(pick(COLUMNS, *SUMMED, "ring")),
    )
    return Table(
        "supply-summary",
        "Power and energy by suite: medians over the cells that passed",
        columns,
        blocks.rows_of(lines),
        ring,
        CSV,
        collapsed=len(lines) > 40,
    )


def _averages(rows: list[RawRow], ring: str, under: str) -> list[str]:
    sentences = []
    for name, unit, column in (
        ("power", "W", "power_mean_w"),
        ("gross energy", "J", "energy_gross_j"),
    ):
        values = _values(rows, column)
        middle, spread = mean(values), sd(values)
        if middle is None:
            continue
        tail = (
            f"± {significant(spread, 2)} {unit} (mean and sd over n = {len(values)} cells)"
            if len(values) >= MIN_RUNS_COUNT and spread is not None
            else f"(n = {counted(len(values), 'cell')}; spread: insufficient)"
        )
        sentences.append(
            f"Average {name} of the cells that passed{under}: {significant(middle)} {unit} {tail}, ring "
            f"{ring}."
        )
    return sentences or [f"No cell that passed has a power figure{under}."]


def _strips(rows: list[RawRow], ring: str, under: str) -> Figure:
    strips = []
    for suite in dict.fromkeys(row["suite_id"] for row in rows):
        values = _values([row for row in rows if row["suite_id"] == suite], "power_mean_w")
        if values:
            strips.append(figures.Strip(suite.removeprefix("cs-"), None, tuple(values), median(values)))
    return Figure(
        "fig-supply",
        f"Mean power of every cell, by suite{under}",
        figures.strips(
            "svg-supply",
            "Mean power by suite",
            "mean power of a cell, W (log scale)",
            strips,
            "W",
            left=330.0,
        ),
        ring,
        CSV,
    )


def _detail(source: Source, rows: list[RawRow], ring: str) -> Table:
    lines = []
    for row in rows:
        why = _why(row)
        line: list[Cell] = [label(row["suite_id"], href=anchor(row["cell_id"]))]
        if source.many_conditions:
            line.append(label(row["condition"]))
        line += [
            blocks.count(source.nth(row["repetition"])),
            label(row["sensor"]) if row["sensor"] else missing(why),
            blocks.count(row["n_samples"], reason=why),
            *(number(row[column], reason=why) for column in names(RECORDED)[:-1]),
            number(row["energy_net_handshake_j"], reason=row["net_reason"] or why),
            number(row["temperature_c"], reason="no temperature in this cell"),
            label(row["ring"]),
            verdict(row["verdict"]),
            record_link(row["cell_id"]),
        ]
        lines.append(line)
    columns = (
        *heads(pick(COLUMNS, "suite_id", *_condition(source), *OF_A_CELL)),
        Column("raw"),
    )
    return Table(
        "supply-detail",
        "Power and energy of every cell",
        columns,
        blocks.rows_of(lines),
        ring,
        CSV,
        collapsed=len(lines) > 40,
    )
