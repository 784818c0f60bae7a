"""What a report is made of: sections of tables, figures, facts and findings, as plain data.

Both writers (HTML and Markdown) render these blocks, so a number can never differ between them. A missing
value is a :func:`missing` cell with its reason; there is no way to print it as a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pqbase.stats import TOO_FEW
from pqevidence.report.layouts import Drawing
from pqevidence.report.svg import significant

#: A reason up to this length stays on one line.
SHORT_REASON_CHARS = 46
#: A longer reason that occurs this often in one table moves below it.
MIN_RECURRING_COUNT = 3
#: Text beyond this length wraps inside its table cell.
LONG_TEXT_CHARS = 60


class Cell(NamedTuple):
    """One table cell: what it shows, how it sorts, where it leads. A tuple, because a page has tens of
    thousands."""

    text: str
    sort: str | float | None = None
    href: str | None = None
    kind: str = "text"
    title: str | None = None

    @property
    def sort_key(self) -> str:
        """The value a sort compares; empty, for what is missing or cannot exist, sorts last."""
        if self.kind.startswith("null") or self.kind == "none":
            return ""
        return format(self.sort, ".9g") if isinstance(self.sort, float) else str(self.sort or self.text)


@dataclass(frozen=True)
class Column:
    """A column head with its unit; numbers align right."""

    label: str
    unit: str = ""
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a stable id, a caption, the ring of its numbers and the file they come from.

    ``also``: further files, where some columns are of others.
    ``pick``: the page offers to set any two of its rows side by side.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    ring: str
    source: str | None = None
    note: str | None = None
    collapsed: bool = False
    sortable: bool = True
    pick: bool = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A drawing in two layouts with a caption."""

    id: str
    caption: str
    svg: Drawing
    ring: str
    source: str | None = None
    legend: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Facts:
    """Label → value pairs."""

    id: str
    caption: str
    items: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True)
class Paragraphs:
    """Plain sentences; `folded`: under this heading, to be opened."""

    id: str
    sentences: tuple[str, ...]
    as_list: bool = False
    folded: str = ""


@dataclass(frozen=True)
class Finding:
    """A statement that a verdict carries, with effect, n, ring and the cells behind it."""

    statement: str
    effect: str
    basis: str
    ring: str
    cells: tuple[Cell, ...]
    tone: str = "plain"


@dataclass(frozen=True)
class Findings:
    """All findings, or the sentence that says there are none."""

    id: str
    items: tuple[Finding, ...]
    empty: str


@dataclass(frozen=True)
class MatrixRow:
    """One line of the verdict matrix."""

    label: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Matrix:
    """Verdict letters of all planned cells, each leading to its section.

    ``groups`` are (AEAD, number of columns) over ``heads``, which name condition and repetition.
    """

    id: str
    caption: str
    groups: tuple[tuple[str, int], ...]
    heads: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    ring: str


@dataclass(frozen=True)
class CellDetail:
    """One cell's section: verdict, key numbers, fields by category, raw files."""

    id: str
    title: str
    verdict: str
    reason: str | None
    facts: tuple[tuple[str, Cell], ...]
    files: tuple[Cell, ...]
    categories: tuple[tuple[str, Table], ...]


@dataclass(frozen=True)
class CellDetails:
    """All cell sections."""

    id: str
    items: tuple[CellDetail, ...]


Block = Table | Figure | Facts | Paragraphs | Findings | Matrix | CellDetails


@dataclass(frozen=True)
class Section:
    """A titled part of the report. question: what it helps to answer; sections of one question stand together
    under it. words: terms that are first used here, each with what it means."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    lead: str | None = None
    question: str = ""
    words: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Report:
    """The whole report, ready to be written; a `footer` replaces what is said of a bundle's own page, a
    `notice` stands before everything else, the `answer` before every other section and the way to them."""

    title: str
    subtitle: str
    run_id: str
    ring: str
    verdicts: tuple[tuple[str, int], ...]
    head: tuple[tuple[str, Cell], ...]
    numbers_sha256: str
    sections: tuple[Section, ...]
    tiles: str = "cells by verdict"
    footer: str | None = None
    notice: str | None = None
    answer: Section | None = None

    @property
    def parts(self) -> tuple[Section, ...]:
        """Every section in the order of the page, the answer first."""
        return (*(() if self.answer is None else (self.answer,)), *self.sections)

    @property
    def chapters(self) -> tuple[tuple[str, tuple[Section, ...]], ...]:
        """(question, its sections) in order; a section without a question is a chapter of its own."""
        found: list[tuple[str, list[Section]]] = []
        for section in self.sections:
            if found and section.question and found[-1][0] == section.question:
                found[-1][1].append(section)
            else:
                found.append((section.question, [section]))
        return tuple((question, tuple(sections)) for question, sections in found)


def label(text: object, *, href: str | None = None, sort: str | float | None = None) -> Cell:
    """A text cell; long text may wrap."""
    shown = str(text)
    return Cell(shown, sort=sort, href=href, kind="text long" if len(shown) > LONG_TEXT_CHARS else "text")


def missing(reason: str | None) -> Cell:
    """A value that was not measured, with its reason."""
    text = f"not measured: {reason or 'no reason recorded'}"
    return Cell(text, kind="null short" if len(text) <= SHORT_REASON_CHARS else "null")


def not_applicable() -> Cell:
    """A value that cannot exist here, such as the nominal rate of an uplink."""
    return Cell("–", kind="none")


def number(value: str | float | int | None, *, digits: int = 3, reason: str | None = None) -> Cell:
    """A measured number to ``digits`` significant digits, or why it is missing. CSV text is accepted."""
    if value is None or value == "":
        return missing(reason)
    real = float(value)
    return Cell(significant(real, digits), sort=real, kind="num")


def tail(value: str | float | None, *, n: str | int | None, reason: str | None) -> Cell:
    """A P95 or P99: where there are values and it is missing, they are too few."""
    return number(value, reason=TOO_FEW if n not in (None, "", "0", 0) else reason)


def count(value: str | int | None, *, reason: str | None = None) -> Cell:
    """An integer with grouped thousands, or why it is missing."""
    if value is None or value == "":
        return missing(reason)
    whole = int(value)
    return Cell(f"{whole:,}", sort=float(whole), kind="num")


def verdict(word: str, *, href: str | None = None) -> Cell:
    """A verdict word, coloured by CSS."""
    return Cell(word, href=href, kind=f"verdict v-{word}")


def compact(table: Table) -> Table:
    """The same table with long reasons that recur moved below it, each under a letter.

    A reason stays in its cell when it is short or occurs once or twice.
    """
    counts = Counter(cell.text for row in table.rows for cell in row if cell.kind == "null")
    recurring = [text for text, times in counts.items() if times >= MIN_RECURRING_COUNT]
    if not recurring:
        return table
    letters = {text: f"not measured: reason {chr(ord('a') + i)}" for i, text in enumerate(recurring[:26])}

    def shown(cell: Cell) -> Cell:
        if cell.kind != "null" or cell.text not in letters:
            return cell
        return cell._replace(text=letters[cell.text], kind="null short", title=cell.text)

    legend = " ".join(
        f"{letters[text].removeprefix('not measured: ').capitalize()}: {text.removeprefix('not measured: ')}."
        for text in letters
    )
    rows = tuple(tuple(shown(cell) for cell in row) for row in table.rows)
    return replace(table, rows=rows, note=f"{table.note} {legend}" if table.note else legend)


#: a table of more rows is folded, and so is one beside a drawing
MOST_OPEN_ROWS = 6


def folded(section: Section) -> Section:
    """Drawings are read first: their tables, and long ones, open on demand and in print."""
    drawn = any(isinstance(block, Figure) for block in section.blocks)

    def one(block: Block) -> Block:
        if isinstance(block, Table) and (drawn or len(block.rows) > MOST_OPEN_ROWS):
            return replace(block, collapsed=True)
        return block

    return replace(section, blocks=tuple(map(one, section.blocks)))


#: stands behind the ring where a host's times say nothing of any machine
NO_CLAIM = ", times no claim"


def no_claim(block: Block) -> Block:
    """The same block with that mark behind each ring it names."""
    if isinstance(block, Findings):
        items = (replace(item, ring=item.ring + NO_CLAIM) for item in block.items)
        return replace(block, items=tuple(items))
    if isinstance(block, Table | Figure | Matrix):
        return replace(block, ring=block.ring + NO_CLAIM)
    if isinstance(block, CellDetails):
        return replace(block, items=tuple(_detail_no_claim(item) for item in block.items))
    return block


def _detail_no_claim(item: CellDetail) -> CellDetail:
    marked = ((title, replace(table, ring=table.ring + NO_CLAIM)) for title, table in item.categories)
    return replace(item, categories=tuple(marked))


def rows_of(rows: Iterable[Sequence[Cell]]) -> tuple[tuple[Cell, ...], ...]:
    """Rows as the tuples a table holds."""
    return tuple(tuple(row) for row in rows)
