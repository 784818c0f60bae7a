"""The front of level and handshake, and the recommendations that its verdicts carry."""

from __future__ import annotations

from pqevidence.analysis.load import suite_facts
from pqevidence.limits import MIN_RUNS_COUNT
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Figure, Finding, Findings, Section, Table, label, number
from pqevidence.report.figures import FAMILY_LEGEND
from pqevidence.report.levels import LevelDot, level_front
from pqevidence.report.source import RawRow, Source, cell_link
from pqevidence.report.svg import significant

MS = "ms"
FEW = "insufficient: fewer than 3 cells"


def front(source: Source) -> Section | None:
    """`pqc-mav-2026-02` §11 and §12: the drawing and the table, with intervals."""
    rows = source.rows("pareto")
    if not rows:
        return None
    first = rows[0]["condition"]
    drawn = [row for row in rows if row["condition"] == first]
    under = f", condition {first}" if source.many_conditions else ""
    families = {name for row in drawn if (name := _family(row)) is not None}
    figure = Figure(
        "fig-pareto",
        f"NIST level and handshake of {len(drawn)} suite{'s' if len(drawn) != 1 else ''}{under}; the fastest "
        "of at least its level is named",
        level_front("svg-pareto", "NIST level and handshake", [_dot(row) for row in drawn]),
        source.ring,
        "analysis/pareto.csv",
        (*((c, n) for c, n in FAMILY_LEGEND if n in families), ("mark", "interval, where there is one")),
    )
    return Section(
        "front",
        "Level and latency",
        (figure, _table(source, rows)),
        "Front: no suite of at least this level has an interval that ends below this one's; suites that "
        "cannot be told apart share it. Dominated: some suite of at least this level is distinguishably "
        "faster. Below three cells a suite has no interval, and nothing is said of it.",
    )


def _family(row: RawRow) -> str | None:
    facts = suite_facts(row["suite_id"])
    return facts.kem_family if facts else None


def _dot(row: RawRow) -> LevelDot:
    interval = (
        (float(row["interval_low_ms"]), float(row["interval_high_ms"])) if row["interval_low_ms"] else None
    )
    return LevelDot(
        row["suite_id"].removeprefix("cs-"),
        _family(row),
        int(row["level"]),
        float(row["median_ms"]),
        interval,
        row["fastest"] == "true",
    )


def _table(source: Source, rows: list[RawRow]) -> Table:
    columns = [Column("suite"), Column("level", "", True)]
    if source.many_conditions:
        columns.append(Column("condition"))
    columns += [
        Column("cells", "n", True),
        Column("handshake, median", MS, True),
        Column("95 % interval", MS),
        Column("public key", "B", True),
        Column("Φ(60 s), model", "%", True),
        Column("fastest"),
        Column("verdict"),
        Column("dominated by"),
        Column("ring"),
    ]
    lines = []
    for row in rows:
        line: list[Cell] = [label(row["suite_id"]), blocks.count(row["level"])]
        if source.many_conditions:
            line.append(label(row["condition"]))
        interval = (
            label(
                f"{significant(float(row['interval_low_ms']))} – "
                f"{significant(float(row['interval_high_ms']))}",
                sort=float(row["interval_low_ms"]),
            )
            if row["interval_low_ms"]
            else Cell("insufficient", kind="null short", title=FEW)
        )
        line += [
            blocks.count(row["n_cells"]),
            number(row["median_ms"]),
            interval,
            blocks.count(row["public_key_bytes"]),
            number(row["phi_60s_pct"]),
            label("yes" if row["fastest"] == "true" else "no"),
            label(row["verdict"]),
            label(row["dominated_by"]) if row["dominated_by"] else blocks.not_applicable(),
            label(row["ring"]),
        ]
        lines.append(line)
    return Table(
        "pareto-table",
        "Which suites are the front of level and handshake",
        tuple(columns),
        blocks.rows_of(lines),
        source.ring,
        "analysis/pareto.csv",
        "Fastest: the shortest median among all suites of at least this level. Intervals are of the "
        "geometric mean over cells.",
        collapsed=len(lines) > 40,
    )


def recommendations(source: Source) -> Section:
    """One line a condition and wanted NIST level whose fastest suites leave others behind; else silent."""
    items = []
    rows = [row for row in source.rows("pareto") if row["interval_low_ms"]]
    for condition, level in dict.fromkeys((row["condition"], row["level"]) for row in rows):
        pool = [r for r in rows if r["condition"] == condition and int(r["level"]) >= int(level)]
        end = min(float(row["interval_high_ms"]) for row in pool)
        best = [row for row in pool if float(row["interval_low_ms"]) <= end]
        if len(best) < len(pool):
            items.append(_recommended(source, level, best, [row for row in pool if row not in best]))
    return Section(
        "recommendations",
        "Recommendations",
        (
            Findings(
                "recommendations-list",
                tuple(items),
                _why_none(source, rows),
            ),
        ),
        "Generated from intervals that lie apart, and about handshake time alone. A faster family is no "
        "statement about its security, and a slower one may be chosen for its other assumption.",
    )


def _why_none(source: Source, rows: list[RawRow]) -> str:
    """No recommendation is no verdict that suites are equal; where the plan could not give one it says so."""
    if not rows:
        return (
            f"No recommendation: none was possible, this plan has fewer than {MIN_RUNS_COUNT} cells of "
            "each suite that passed, so no suite has an interval. More repetitions are needed."
        )
    widest = max(float(row["interval_high_ms"]) / float(row["interval_low_ms"]) for row in rows)
    return (
        "No recommendation: no interval lies apart from another. That does not say that the suites are "
        f"equally fast: the widest interval here reaches over a factor of {significant(widest)}."
    )


def _others(count: int) -> str:
    if count == 1:
        return "The other suite of at least this level is"
    return f"The other {count} suites of at least this level are"


def _recommended(source: Source, level: str, best: list[RawRow], slower: list[RawRow]) -> Finding:
    condition = best[0]["condition"]
    names = [row["suite_id"] for row in sorted(best, key=lambda r: float(r["median_ms"]))]
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    under = f", under {condition}" if source.many_conditions else ""
    times, slow = ([float(row["median_ms"]) for row in rows] for rows in (best, slower))
    cells = [
        cell_link(cell.cell_id, cell.suite_id)
        for cell in source.bundle.cells
        if cell.suite_id in names and cell.condition == condition and cell.verdict == "pass"
    ]
    return Finding(
        statement=f"For NIST level {level} or more{under}: {shown}. {_others(len(slower))} distinguishably "
        "slower.",
        effect=f"handshake {significant(min(times))} to {significant(max(times))} ms, others "
        f"{significant(min(slow))} to {significant(max(slow))} ms",
        basis=f"n = {min(int(row['n_cells']) for row in (*best, *slower))} cells a suite or more; 95 % "
        "intervals apart",
        ring=best[0]["ring"],
        cells=tuple(cells),
    )
