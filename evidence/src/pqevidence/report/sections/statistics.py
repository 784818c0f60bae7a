"""Run-level statistics of the handshake: by level, by family, by suite, and paired comparisons."""

from __future__ import annotations

from pqbase.stats import TOO_FEW
from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.stats import median
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Cell, Column, Figure, Section, Table, label, number
from pqevidence.report.inference import UNITS
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import significant

MS = "ms"

STAT_COLUMNS = (
    Column("cells", "n", True), Column("suites", "n", True), Column("median", MS, True),
    Column("MAD", MS, True),
    Column("Q1", MS, True), Column("Q3", MS, True), Column("mean", MS, True), Column("sd", MS, True),
    Column("P95", MS, True), Column("max", MS, True), Column("geometric mean", MS, True),
    Column("95 % interval", MS), Column("ring"),
)  # fmt: skip


def _stat_cells(row: RawRow) -> list[Cell]:
    few = "insufficient: fewer than 3 cells"

    def value(name: str) -> Cell:
        return (
            number(row[name], reason=few) if row[name] else Cell("insufficient", kind="null short", title=few)
        )

    interval = (
        label(f"{significant(float(row['interval_low_ms']))} – {significant(float(row['interval_high_ms']))}")
        if row["interval_low_ms"]
        else Cell("insufficient", kind="null short", title=row["interval_method"] or few)
    )
    return [
        blocks.count(row["n_cells"]),
        blocks.count(row["n_suites"]),
        number(row["median_ms"]),
        *(value(n) for n in ("mad_ms", "q1_ms", "q3_ms", "mean_ms", "sd_ms")),
        number(row["p95_ms"], reason=TOO_FEW) if row["sd_ms"] else value("p95_ms"),
        number(row["max_ms"]),
        value("geomean_ms"),
        interval,
        label(row["ring"]),
    ]


def statistics(source: Source) -> Section | None:
    """By level, by family, by suite over repetitions, paired effects."""
    if not source.rows("by_suite"):
        return None
    parts: list[blocks.Block] = [_level_strips(source)]
    with_condition = source.many_conditions
    condition = (Column("condition"),) if with_condition else ()

    def table(block_id: str, caption: str, name: str, heads: tuple[tuple[str, str], ...]) -> Table:
        lines = []
        for row in source.rows(name):
            line = [label(f"L{row[c]}" if c == "level" else row[c]) for c, _ in heads]
            if with_condition:
                line.append(label(row["condition"]))
            lines.append(line + _stat_cells(row))
        return Table(
            block_id,
            caption,
            (*(Column(h) for _, h in heads), *condition, *STAT_COLUMNS),
            blocks.rows_of(lines),
            source.ring,
            f"analysis/{name}.csv",
        )

    parts.append(table("stat-level", "Handshake by NIST level", "by_level", (("level", "level"),)))
    parts.append(
        table(
            "stat-family",
            "Handshake by family of KEM, signature and AEAD",
            "by_family",
            (("part", "part"), ("family", "family")),
        )
    )
    if source.repetitions > 1:
        parts.append(
            table(
                "stat-suite", "Handshake by suite over its repetitions", "by_suite", (("suite_id", "suite"),)
            )
        )
    effects = _effects(source)
    if effects is not None:
        parts.append(effects)
    return Section(
        "statistics",
        "Statistics by level and family",
        tuple(parts),
        "Each cell gives one number, the median of its cold handshakes. Only cells that passed enter. "
        f"Intervals are 95 %, of the geometric mean. By level and by family: {UNITS['suite']} By suite: "
        f"{UNITS['repetition']}",
    )


def _level_strips(source: Source) -> Figure:
    one, under = source.of_one_condition(source.rows("handshakes"))
    rows = [r for r in one if r["verdict"] == "pass" and r["drone_wall_median_ms"]]
    strips = []
    for kind, column in (("L", "level"), ("", "kem_family"), ("", "sig_family")):
        names = list(dict.fromkeys(r[column] for r in rows if r[column]))  # the registry's order
        for name in names:
            values = tuple(
                float(r["drone_wall_median_ms"])
                for r in rows
                if r[column] == name and (not kind or _has_level(r["suite_id"]))
            )
            if not values:
                continue
            strips.append(
                figures.Strip(
                    f"NIST level {name}" if kind else name, None if kind else name, values, median(values)
                )
            )
    return Figure(
        "fig-handshake-groups",
        f"Handshake by NIST level, KEM family and signature family: every cell and the median{under}",
        figures.strips(
            "svg-handshake-groups", "Handshake by group", "median handshake of a cell, ms (log scale)", strips
        ),
        source.ring,
        "analysis/handshakes.csv",
    )


def _has_level(suite_id: str) -> bool:
    facts = suite_facts(suite_id)
    return facts is not None and facts.has_level


def _effects(source: Source) -> Table | None:
    rows = source.rows("effects")
    if not rows:
        return None
    lines = []
    for row in rows:
        few = "insufficient: fewer than 3 pairs of suites"
        interval = (
            label(f"{significant(float(row['low_ratio']))} – {significant(float(row['high_ratio']))}")
            if row["low_ratio"]
            else Cell("insufficient", kind="null short", title=few)
        )
        lines.append(
            [
                label(row["part"]),
                label(row["family"]),
                label(row["reference"]),
                blocks.count(row["n_suites"]),
                blocks.count(row["n_pairs"]),
                number(row["ratio"], reason=few),
                interval,
                number(row["interval_level"], digits=4) if row["interval_level"] else label("–"),
                label(row["method"] or "–"),
                number(row["floor_ratio"]),
                label(f"{row['floor_method']}, {row['floor_pairs']} pairs"),
                number(row["visible_ratio"], reason=few),
                label(row["verdict"]),
                label(row["ring"]),
            ]
        )
    return Table(
        "effects",
        "Paired comparison of handshakes: suites that differ in one part only",
        (
            Column("part"),
            Column("family"),
            Column("against"),
            Column("suites", "n", True),
            Column("pairs", "n", True),
            Column("ratio of walls", "", True),
            Column("interval"),
            Column("level", "share", True),
            Column("method"),
            Column("noise floor", "ratio", True),
            Column("floor from"),
            Column("seen from", "ratio", True),
            Column("verdict"),
            Column("ring"),
        ),
        blocks.rows_of(lines),
        source.ring,
        "analysis/effects.csv",
        "Intervals hold together for all comparisons of this table (Bonferroni). A claim needs an "
        "interval without 1 and an effect beyond the noise floor. Seen from: a smaller effect would not have "
        f"been seen. {UNITS['suite']}",
    )
