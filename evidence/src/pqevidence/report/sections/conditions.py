"""Comparison of conditions: every contrast and metric, made from the verdicts of condition_effects.csv."""

from __future__ import annotations

from pqevidence.analysis.metrics import BY_NAME
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Figure, Finding, Section, Table, label, number
from pqevidence.report.effects import Effect, chosen, effects
from pqevidence.report.inference import UNITS
from pqevidence.report.source import RawRow, Source, cell_link
from pqevidence.report.svg import significant

NAME = "condition_effects"
CLAIMS = ("improved", "regressed")
ALL_SUITES = "all suites"


def rows_of(source: Source) -> list[RawRow]:
    """Rows of the table; none in a bundle of one condition."""
    return source.rows(NAME) if source.many_conditions and source.has(NAME) else []


def conditions(source: Source) -> Section | None:
    """Means over all suites first, then every suite with a verdict, then all rows."""
    rows = rows_of(source)
    if not rows:
        return None
    overall = [row for row in rows if row["scope"] == ALL_SUITES]
    suites = [row for row in rows if row["scope"] != ALL_SUITES]
    return Section(
        "conditions",
        "Comparison of conditions",
        (
            *_figures(source, overall),
            _table(source, "condition-all", "Mean over all suites, block by block", overall),
            _table(source, "condition-suites", "Suite by suite", suites, collapsed=len(suites) > 60),
        ),
        f"Pairs are two cells of one suite, block and repetition. First table: {UNITS['block']} Second: "
        f"{UNITS['pair']} Intervals are 95 %, each for itself; a claim needs Holm's p ≤ 0.05 in its "
        "family and an effect beyond the noise floor. A/A rows compare a condition with its twin: no effect "
        "can be true there. Outliers are counted and kept. Seen from: an effect below it would not have been "
        'seen here in four of five campaigns, so "not distinguishable" does not exclude it.',
    )


def _figures(source: Source, rows: list[RawRow]) -> list[Figure]:
    """Ratios and differences have an axis each."""
    found = []
    for scale, kind, unit in (
        ("ratio", "ratio", "condition / reference (log scale)"),
        ("difference", "difference", "condition − reference, points"),
    ):
        made = [_effect(row) for row in rows if row["scale"] == scale]
        if not made:
            continue
        drawn = chosen(made)
        left = f"; {len(drawn)} of {len(made)}, the rest in the table" if len(drawn) < len(made) else ""
        markup = effects(
            f"svg-conditions-{kind}", f"Conditions: mean {kind}s", unit, drawn, ratios=kind == "ratio"
        )
        found.append(
            Figure(
                f"fig-conditions-{kind}",
                f"Mean {kind} over all suites with its 95 % interval; less is better{left}",
                markup,
                source.ring,
                f"analysis/{NAME}.csv",
                (("s-1", "not claimed"), ("s-2", "claimed")),
            )
        )
    return found


def _effect(row: RawRow) -> Effect:
    metric = BY_NAME.get(row["metric"])
    ends = row["low_effect"], row["high_effect"]
    twin = " (A/A)" if row["kind"] == "A/A" else ""
    return Effect(
        f"{row['condition']} in place of {row['reference']}{twin}",
        metric.label if metric else row["metric"],
        float(row["mean_effect"]),
        (float(ends[0]), float(ends[1])) if all(ends) else None,
        row["verdict"] if row["verdict"] in CLAIMS else "",
    )


def _table(
    source: Source, block_id: str, caption: str, rows: list[RawRow], *, collapsed: bool = False
) -> Table:
    return Table(
        block_id,
        caption,
        (
            Column("condition"),
            Column("against"),
            Column("kind"),
            Column("metric"),
            Column("scope"),
            Column("n", "", True),
            Column("mean effect", "", True),
            Column("robust effect", "", True),
            Column("95 % interval"),
            Column("p (Holm)", "", True),
            Column("q (BH)", "", True),
            Column("tests", "n", True),
            Column("noise floor", "", True),
            Column("floor from"),
            Column("seen from", "", True),
            Column("outliers", "n", True),
            Column("position gap", "cells", True),
            Column("verdict"),
            Column("ring"),
        ),
        blocks.rows_of([_row(row) for row in rows]),
        source.ring,
        f"analysis/{NAME}.csv",
        "Mean effect: ratio of geometric means, or the mean difference in points; robust effect: "
        "Hodges–Lehmann. Position gap: how many cells later the condition ran than its reference, on "
        "average.",
        collapsed=collapsed,
    )


def _row(row: RawRow) -> list[Cell]:
    few = row["reason"] or "fewer than 3 pairs"

    def value(name: str) -> Cell:
        return number(row[name], reason=few) if row[name] else Cell("–", kind="null short", title=few)

    interval = (
        label(f"{_shown(row['low_effect'])} – {_shown(row['high_effect'])}")
        if row["low_effect"]
        else Cell("insufficient", kind="null short", title=few)
    )
    unit = " points" if row["scale"] == "difference" else " ×"
    return [
        label(row["condition"]),
        label(row["reference"]),
        label(row["kind"]),
        label(row["metric"]),
        label(row["scope"]),
        blocks.count(row["n_pairs"]),
        label(f"{_shown(row['mean_effect'])}{unit}", sort=float(row["mean_effect"])),
        label(f"{_shown(row['robust_effect'])}{unit}", sort=float(row["robust_effect"])),
        interval,
        value("p_holm"),
        value("q_bh"),
        blocks.count(row["family_count"]),
        number(row["floor_effect"]),
        label(f"{row['floor_method']}, {row['floor_pairs']} pairs"),
        value("visible_effect"),
        blocks.count(row["outlier_count"]),
        number(row["position_gap_mean"]),
        label(row["verdict"]),
        label(row["ring"]),
    ]


def _shown(text: str) -> str:
    return significant(float(text))


def condition_findings(source: Source) -> list[Finding]:
    """A finding a contrast and metric whose mean over all suites is claimed, and one for claimed suites."""
    found = []
    by_family: dict[tuple[str, ...], list[RawRow]] = {}
    for row in rows_of(source):
        by_family.setdefault((row["condition"], row["reference"], row["metric"]), []).append(row)
    for rows in by_family.values():
        for row in rows:
            if row["scope"] == ALL_SUITES and row["verdict"] in CLAIMS:
                found.append(_overall(source, row))
        claimed = [row for row in rows if row["scope"] != ALL_SUITES and row["verdict"] in CLAIMS]
        if claimed:
            found.append(_suites(source, claimed, len(rows) - 1))
    return found


def _overall(source: Source, row: RawRow) -> Finding:
    what = "ratio" if row["scale"] == "ratio" else "points"
    return Finding(
        statement=f"Under {row['condition']} in place of {row['reference']}, {row['metric']} "
        f"{row['verdict']} {_over(row)}.",
        effect=f"{what} {_shown(row['mean_effect'])} ({_shown(row['low_effect'])} to "
        f"{_shown(row['high_effect'])}, 95 % {row['method']}; robust {_shown(row['robust_effect'])})",
        basis=f"n = {row['n_pairs']} blocks, these suites only; Holm p {_shown(row['p_holm'])} of "
        f"{row['family_count']} tests; noise floor {row['floor_method']}, {_shown(row['floor_effect'])}",
        ring=row["ring"],
        cells=tuple(cell_link(i, source.cells[i].suite_id) for i in row["cells"].split()),
        tone=row["verdict"],
    )


def _over(row: RawRow) -> str:
    return "in the one suite" if row["n_suites"] == "1" else f"over the {row['n_suites']} suites"


def _suites(source: Source, rows: list[RawRow], tested: int) -> Finding:
    first = rows[0]
    counts = [f"{sum(1 for r in rows if r['verdict'] == word)} {word}" for word in CLAIMS]
    effects = sorted(float(row["mean_effect"]) for row in rows)
    what = "ratios" if first["scale"] == "ratio" else "points"
    cells = [cell for row in rows for cell in row["cells"].split()]
    return Finding(
        statement=f"Under {first['condition']} in place of {first['reference']}, {first['metric']} by suite: "
        f"{', '.join(counts)}, {tested - len(rows)} not distinguishable or insufficient.",
        effect=f"{what} {significant(effects[0])} to {significant(effects[-1])}",
        basis=f"n = {first['n_pairs']} pairs a suite; Holm over {first['family_count']} suites; noise floor "
        f"{first['floor_method']}, {_shown(first['floor_effect'])}",
        ring=first["ring"],
        cells=tuple(cell_link(i, source.cells[i].suite_id) for i in cells),
        tone="plain",
    )
