"""Tables and drawings that several pages of the index have, made of the blocks of the report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.origin import differing, reach
from pqevidence.index.alike import Line, remembered
from pqevidence.index.entries import Answer, Entry
from pqevidence.report import blocks, ranks
from pqevidence.report.blocks import Block, Cell, Column, Figure, Paragraphs, Table, label
from pqevidence.report.figures import FAMILY_LEGEND
from pqevidence.report.inference import UNITS
from pqevidence.report.layouts import Drawing
from pqevidence.report.ranks import Rank, Ranking
from pqevidence.report.sections.answer import MOST_ROWS
from pqevidence.report.svg import counted, significant
from pqevidence.report.trends import Trend, trends

HANDSHAKES_CSV = "index-handshakes.csv"
#: a line of more runs has a row a run
_MOST_RUN_COLUMNS = 8
#: differences told of two lines that stand apart
_MOST_REASONS = 12
Shown = tuple[Entry, Answer]


class Links:
    """Where the report of a bundle lies, as the pages in `out` see it."""

    def __init__(self, root: Path, out: Path) -> None:
        self._root, self._out = root, out

    def bundle(self, entry: Entry) -> Cell:
        """The bundle's name; it leads to its report where that follows from its files."""
        report = self._root / entry.name / "data" / "report.html"
        if not entry.page or not report.is_file():
            return label(entry.name)
        return label(entry.name, href=Path(os.path.relpath(report, self._out)).as_posix())


def family(suite_id: str) -> str | None:
    facts = suite_facts(suite_id)
    return facts.kem_family if facts is not None else None


def interval(answer: Answer) -> str:
    if answer.low_ms is None or answer.high_ms is None:
        return "–"
    return f"{significant(answer.low_ms)} – {significant(answer.high_ms)}"


def answers(block_id: str, caption: str, rows: Sequence[Shown], ring: str, links: Links) -> Table:
    """A row a bundle, suite and condition. No row is of two machines or two runs."""
    columns = (
        Column("suite"),
        Column("condition"),
        Column("machine"),
        Column("release"),
        Column("median", "ms", True),
        Column("95 % interval of the mean", "ms"),
        Column("cells", "n", True),
        Column("unit"),
        Column("bundle"),
    )
    lines = [
        [
            label(answer.suite_id.removeprefix("cs-")),
            label(answer.condition),
            machine_cell(entry),
            label(entry.release),
            blocks.number(answer.median_ms),
            label(interval(answer), sort=answer.low_ms),
            blocks.count(answer.cells_count),
            label(answer.unit or "none: too few for an interval"),
            links.bundle(entry),
        ]
        for entry, answer in rows
    ]
    return Table(
        block_id,
        caption,
        columns,
        blocks.rows_of(lines),
        ring,
        source=HANDSHAKES_CSV,
        note=" ".join(UNITS[unit] for unit in sorted({a.unit for _, a in rows if a.unit in UNITS} - {None})),
        collapsed=len(rows) > blocks.MOST_OPEN_ROWS,
    )


def machine_cell(entry: Entry) -> Cell:
    assert entry.machine is not None
    return label(entry.machine.name, href=entry.machine.page)


def ranking(block_id: str, caption: str, entry: Entry, ring: str, href: str) -> Figure:
    """The suites of one run by their median, each with the report's interval. href: where each leads."""
    shown = sorted((a for a in entry.answers if a.ring == ring), key=lambda a: (a.median_ms, a.place))
    one = len({answer.condition for answer in shown}) == 1
    omitted = None
    if len(shown) > MOST_ROWS:
        omitted = (MOST_ROWS - 5, len(shown) - MOST_ROWS)
        shown = [*shown[: MOST_ROWS - 5], *shown[-5:]]
    rows = tuple(
        Rank(
            answer.suite_id.removeprefix("cs-") + ("" if one else f", {answer.condition}"),
            family(answer.suite_id),
            answer.median_ms,
            None if answer.low_ms is None or answer.high_ms is None else (answer.low_ms, answer.high_ms),
            None,
            (),
            href,
        )
        for answer in shown
    )
    ranked = Ranking(rows, (), "cold handshake at the drone, ms", omitted=omitted)
    svg_id = f"svg-{block_id}"
    drawing = Drawing(ranks.wide(svg_id, caption, ranked), ranks.narrow(f"{svg_id}-narrow", caption, ranked))
    used = {row.family for row in rows}
    legend = tuple((shade, name) for shade, name in FAMILY_LEGEND if name in used)
    return Figure(f"f-{block_id}", caption, drawing, ring, HANDSHAKES_CSV, legend)


def line_blocks(line: Line, links: Links) -> list[Block]:
    """The drawing over the runs of a line, its numbers, its runs, and why it is a line of its own."""
    head = f"{line.scenario}, line {line.key}: {counted(len(line.runs), 'run')}"
    found: list[Block] = []
    one = len({condition for _, condition in line.places}) == 1
    rows = [
        Trend(
            suite_id.removeprefix("cs-") + ("" if one else f", {condition}"),
            family(suite_id),
            tuple(run.medians_ms.get((suite_id, condition)) for run in line.runs),
        )
        for suite_id, condition in line.places
    ]
    if rows:
        names = [f"{run.begun_utc} {run.release} {run.name}" for run in line.runs]
        drawing = trends(f"trend-{line.key}", f"{head}: median cold handshake", names, rows)
        found.append(
            Figure(f"f-{line.key}", f"{head}, median cold handshake at the drone", drawing, line.ring)
        )
        found.append(_values(line, rows))
    elif len(line.runs) > 1:
        found.append(Paragraphs(f"none-{line.key}", (f"{head}, and no suite that two of them measured.",)))
    found.append(_runs(line, links))
    if line.unlike:
        found.append(_apart(line))
    return found


def _values(line: Line, rows: Sequence[Trend]) -> Table:
    """The numbers of the drawing: runs across where they are few, else a row a run."""
    known = [[blocks.number(v, reason="no cell passed") for v in row.values] for row in rows]
    if len(line.runs) <= _MOST_RUN_COLUMNS:
        columns = (Column("suite"), *(Column(str(n), "ms", True) for n in range(1, len(line.runs) + 1)))
        lines = [[label(row.label), *cells] for row, cells in zip(rows, known, strict=True)]
    else:
        columns = (Column("run"), *(Column(row.label, "ms", True) for row in rows))
        lines = [
            [label(f"{place + 1}: {run.begun_utc}", sort=place + 1), *(cells[place] for cells in known)]
            for place, run in enumerate(line.runs)
        ]
    return Table(
        f"t-{line.key}",
        f"{line.scenario}, line {line.key}: median cold handshake by run",
        columns,
        blocks.rows_of(lines),
        line.ring,
        source=HANDSHAKES_CSV,
        collapsed=True,
    )


def _runs(line: Line, links: Links) -> Table:
    """Each run, and how far a claim about it beside the run before would go, in the words of `compare`."""
    columns = (
        Column("run"),
        Column("begun, UTC"),
        Column("release"),
        Column("bundle"),
        Column("beside the run before"),
    )
    lines = []
    for place, run in enumerate(line.runs):
        far = "the first of its line"
        if place:
            far = reach(differing(remembered(line.runs[place - 1]), remembered(run)), same_run=False)
        lines.append(
            [
                label(place + 1, sort=place + 1),
                label(run.begun_utc),
                label(run.release),
                links.bundle(run),
                label(far),
            ]
        )
    return Table(
        f"r-{line.key}",
        f"{line.scenario}, line {line.key}: its runs, oldest first",
        columns,
        blocks.rows_of(lines),
        line.ring,
        source="index.csv",
        collapsed=len(lines) > blocks.MOST_OPEN_ROWS,
    )


def _apart(line: Line) -> Table:
    columns = (
        Column("first run of the other line"),
        Column("kind"),
        Column("what"),
        Column("there"),
        Column("here"),
    )
    lines = []
    for other, facts in line.unlike:
        lines += [
            [label(other), label(fact.kind), label(fact.what), label(_short(fact.a)), label(_short(fact.b))]
            for fact in facts[:_MOST_REASONS]
        ]
        if len(facts) > _MOST_REASONS:
            rest = f"and {len(facts) - _MOST_REASONS} more: ./pqlab compare"
            lines.append([label(other), label("–"), label(rest), label("–"), label("–")])
    return Table(
        f"a-{line.key}",
        f"{line.scenario}, line {line.key}: why it is not one line with those before it",
        columns,
        blocks.rows_of(lines),
        line.ring,
        collapsed=len(lines) > blocks.MOST_OPEN_ROWS,
    )


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"
