"""The page of `pqlab compare`: two bundles side by side, made of the blocks of the report."""

from __future__ import annotations

import hashlib
from collections import Counter

from pqevidence.analysis.between import Between, claimed
from pqevidence.analysis.claims import (
    ALL_SUITES,
    IMPROVED,
    NOT_DISTINGUISHABLE,
    REGRESSED,
)
from pqevidence.analysis.metrics import BY_NAME
from pqevidence.analysis.origin import Differing
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.analysis.table import Row, Value
from pqevidence.record.rings import weakest
from pqevidence.report import blocks
from pqevidence.report.blocks import (
    Block,
    Cell,
    Column,
    Facts,
    Figure,
    Finding,
    Findings,
    Paragraphs,
    Report,
    Section,
    Table,
    label,
)
from pqevidence.report.effects import Effect, chosen, effects
from pqevidence.report.inference import UNITS
from pqevidence.report.svg import counted, significant
from pqevidence.report.words import with_words

VERDICTS = (IMPROVED, REGRESSED, NOT_DISTINGUISHABLE, INSUFFICIENT)


def counts(between: Between) -> dict[str, int]:
    """Verdict → number of rows, of the means and of the suites together."""
    seen = Counter(str(row["verdict"]) for row in between.table.rows)
    return {verdict: seen[verdict] for verdict in VERDICTS}


def page(
    between: Between, names: tuple[str, str], checked: tuple[str, str], reach: str, differing: list[Differing]
) -> Report:
    """The whole page; `checked` says of each bundle whether it was verified."""
    rings = {str(row["ring"]) for row in between.table.rows} or {"lab"}
    ring = weakest(rings)
    head = (
        ("A, the reference", Cell(f"{names[0]} ({checked[0]})")),
        ("B, in its place", Cell(f"{names[1]} ({checked[1]})")),
        ("pairs of cells", blocks.count(between.pairs_count)),
        ("held by both", blocks.count(between.shared_count)),
        ("how far a claim goes", label(reach)),
    )
    sections = (
        Section("findings", "Findings", (_findings(between, reach),)),
        _effects("effects-all", "Mean over all suites", between, ring, overall=True),
        _effects("effects-suites", "Suite by suite", between, ring, overall=False),
        _differing(differing, reach, ring),
        _unpaired(between, ring),
        _published(between),
    )
    answer, *told = with_words([_answer(between, ring), *(s for s in sections if s is not None)])
    return Report(
        title="Two runs compared",
        subtitle="Post-quantum MAVLink tunnel lab",
        run_id=f"{names[1]} in place of {names[0]}",
        ring=ring,
        verdicts=tuple(counts(between).items()),
        head=head,
        numbers_sha256=hashlib.sha256(between.table.csv_text().encode()).hexdigest(),
        sections=tuple(told),
        answer=answer,
        tiles="effects by verdict",
        footer="It is the digest of the table that --csv writes. Cells are those of the two bundles; "
        "./pqlab verify recomputes their numbers.",
    )


def _answer(between: Between, ring: str) -> Section:
    """How many effects are claimed, and the means over all suites as drawings; claimed ones come first where
    there are too many to draw."""
    seen = counts(between)
    told = ", ".join(f"{count:,} {verdict}" for verdict, count in seen.items())
    suites = {str(row["scope"]) for row in between.table.rows} - {ALL_SUITES}
    conditions = {str(row["condition"]) for row in between.table.rows}
    said = (
        f"B in place of A over {counted(between.pairs_count, 'pair')} of cells, "
        f"{counted(len(suites), 'suite')} under {counted(len(conditions), 'condition')}: {told}."
    )
    rows = [row for row in between.table.rows if row["scope"] == ALL_SUITES]
    figures = [
        _figure([row for row in rows if (row["scale"] == "ratio") is ratios], ring, ratios=ratios)
        for ratios in (True, False)
    ]
    parts: tuple[Block, ...] = tuple(figure for figure in figures if figure is not None)
    return Section("answer", "In short", (Paragraphs("compared", (said,)), *parts))


def _figure(rows: list[Row], ring: str, *, ratios: bool) -> Figure | None:
    if not rows:
        return None
    made = [
        Effect(
            f"condition {row['condition']}",
            _words(row),
            real(row["mean_effect"]),
            None if row["low_effect"] is None else (real(row["low_effect"]), real(row["high_effect"])),
            str(row["verdict"]) if row["verdict"] in (IMPROVED, REGRESSED) else "",
        )
        for row in rows
    ]
    kind, unit = ("ratio", "B / A (log scale)") if ratios else ("difference", "B − A, points")
    drawn = chosen(made)
    left = f"; {len(drawn)} of {len(rows)}, the rest below" if len(drawn) < len(rows) else ""
    return Figure(
        f"fig-effects-{kind}",
        f"Mean {kind} over all suites with its 95 % interval; less is better{left}",
        effects(f"svg-effects-{kind}", f"Effects as {kind}s", unit, drawn, ratios=ratios),
        ring,
        legend=(("s-1", "not claimed"), ("s-2", "claimed")),
    )


def _words(row: Row, *, capital: bool = False) -> str:
    """A metric as people say it."""
    metric = BY_NAME.get(str(row["metric"]))
    told = metric.label if metric else str(row["metric"])
    return told[0].upper() + told[1:] if capital else told


def _findings(between: Between, reach: str) -> Findings:
    items = tuple(
        Finding(
            statement=f"{_words(row, capital=True)} {row['verdict']} in B under {row['condition']}, "
            f"{row['scope']}.",
            effect=f"{effect_text(row)} ({interval_text(row)}, 95 % {row['method']})",
            basis=f"n = {row['n_pairs']}; Holm p {significant(real(row['p_holm']))} of {row['family_count']} "
            f"tests; noise floor {significant(real(row['floor_effect']))}, {row['floor_from']}; {reach}",
            ring=str(row["ring"]),
            cells=(),
            tone=str(row["verdict"]),
        )
        for row in claimed(between.table)
    )
    empty = (
        "Nothing is claimed: no effect stands out of the noise."
        if between.table.rows
        else "Nothing was compared: no suite, condition and repetition passed in both."
    )
    return Findings("compare-findings", items, empty)


def _effects(block_id: str, title: str, between: Between, ring: str, *, overall: bool) -> Section | None:
    rows = [row for row in between.table.rows if (row["scope"] == ALL_SUITES) is overall]
    if not rows:
        return None
    table = Table(
        block_id,
        f"{title}: B in place of A",
        (
            Column("condition"),
            Column("metric"),
            Column("scope"),
            Column("n", "", True),
            Column("A, median", "", True),
            Column("B, median", "", True),
            Column("published", "", True),
            Column("mean effect", "", True),
            Column("robust effect", "", True),
            Column("95 % interval"),
            Column("p (Holm)", "", True),
            Column("tests", "n", True),
            Column("noise floor", "", True),
            Column("floor from"),
            Column("seen from", "", True),
            Column("outliers", "n", True),
            Column("verdict"),
            Column("ring"),
        ),
        blocks.rows_of([_row(row) for row in rows]),
        ring,
        note="Mean effect: ratio of geometric means, or the mean difference in points; robust effect: "
        "Hodges–Lehmann. Less is better for every metric. Seen from: a smaller effect would not have "
        "been seen.",
        collapsed=True,
    )
    lead = (
        "A pair is the cell of one suite, condition and repetition in each bundle. The two were not measured "
        f"side by side, so the machine's drift between the runs is in the effect. {UNITS['run']}"
        if overall
        else None
    )
    return Section(block_id.replace("effects", "section"), title, (table,), lead)


def _row(row: Row) -> list[Cell]:
    why = str(row["reason"] or "")

    def value(name: str) -> Cell:
        return blocks.number(real(row[name])) if row[name] is not None else _none(why)

    published = (
        Cell(
            significant(real(row["published"])),
            sort=real(row["published"]),
            kind="num",
            title=f"{row['published_source']}: {row['published_known_wrong']}",
        )
        if row["published"] is not None
        else blocks.not_applicable()
    )
    return [
        label(row["condition"]),
        label(f"{row['metric']}"),
        label(row["scope"]),
        value("n_pairs"),
        value("a_median"),
        value("b_median"),
        published,
        label(effect_text(row), sort=real(row["mean_effect"])),
        value("robust_effect"),
        label(interval_text(row)) if row["low_effect"] is not None else _none(why),
        value("p_holm"),
        value("family_count"),
        value("floor_effect"),
        label(row["floor_from"]),
        value("visible_effect"),
        value("outlier_count"),
        Cell(str(row["verdict"]), title=why or None),
        label(row["ring"]),
    ]


def _none(why: str) -> Cell:
    return Cell("–", kind="null short", title=why or None)


def real(value: Value) -> float:
    """A number of a row that has one."""
    if value is None or isinstance(value, str):
        raise TypeError(f"no number: {value!r}")
    return float(value)


def effect_text(row: Row) -> str:
    """`1.03 ×` or `0.2 points`."""
    unit = " points" if row["scale"] == "difference" else " ×"
    return significant(real(row["mean_effect"])) + unit


def interval_text(row: Row) -> str:
    """`0.98 – 1.07`, or a dash where there is none."""
    if row["low_effect"] is None:
        return "–"
    return f"{significant(real(row['low_effect']))} – {significant(real(row['high_effect']))}"


def _differing(differing: list[Differing], reach: str, ring: str) -> Section:
    parts: list[Block] = [Facts("reach", "How far a claim goes", (("reach", label(reach)),))]
    if differing:
        lines = [[label(d.kind), label(d.what), label(d.a), label(d.b)] for d in differing]
        columns = (Column("kind"), Column("what"), Column("A"), Column("B"))
        parts.append(Table("differing", "What the runs do not share", columns, blocks.rows_of(lines), ring))
    return Section("origin", "Builds, hosts, settings", tuple(parts))


def _unpaired(between: Between, ring: str) -> Section | None:
    if not between.unpaired:
        return None
    lines = [
        [label(u.suite_id), label(u.condition), label(u.repetition), label(u.why)] for u in between.unpaired
    ]
    columns = (Column("suite"), Column("condition"), Column("repetition"), Column("why"))
    table = Table("unpaired", "Cells without a pair", columns, blocks.rows_of(lines), ring, collapsed=True)
    return Section("not-compared", "Not compared", (table,))


def _published(between: Between) -> Section | None:
    notes = {
        str(row["published_source"]): str(row["published_known_wrong"])
        for row in between.table.rows
        if row["published"] is not None
    }
    if not notes:
        return None
    sentences = tuple(f"{source}: {wrong}." for source, wrong in notes.items())
    lead = "Taken on other machines: printed beside ours, and no effect is claimed. Known to be wrong:"
    return Section("published", "Published values", (Paragraphs("published-notes", sentences, True),), lead)
