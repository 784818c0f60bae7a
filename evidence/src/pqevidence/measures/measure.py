"""What a measure is: the parts that the runners ask every measure for. A measure has those that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pqevidence.analysis.column import Column
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.table import Table
from pqevidence.kernel.check import Check
from pqevidence.record.facts import Facts
from pqevidence.record.sheet import Sheet
from pqevidence.report.blocks import Section
from pqevidence.report.source import Source

#: a bundle and the tables made so far, by name → the measure's tables; none where there is nothing to say
MakeTables = Callable[[BundleData, Mapping[str, Table]], Iterable[Table]]
#: puts the measure's fields on the sheet of one cell's record
FillRecord = Callable[[Sheet, Facts], None]
#: why a cell cannot speak for what the measure says of it; nothing when it can
FindProblems = Callable[[Facts], Iterable[str]]
MakeSection = Callable[[Source], Section | None]


@dataclass(frozen=True)
class Part:
    """A section of the page: the question it helps to answer, what makes it, and the maker it stands after
    (its function's name); empty: it ends its chapter, None: it begins it."""

    question: str
    make: MakeSection
    after: str | None = ""


@dataclass(frozen=True)
class Judged:
    """A check, and the one it runs after; docs/VERIFY.md has them in the same order."""

    check: Check
    after: str


def in_turn(after: str, *checks: Check) -> tuple[Judged, ...]:
    """These checks one after another, the first of them after the one named."""
    names = (after, *(check.name for check in checks))
    return tuple(Judged(check, name) for check, name in zip(checks, names, strict=False))


@dataclass(frozen=True)
class Measure:
    """All that the lab knows of one thing it measures.

    name: its folder. files: its raw files in a cell, as patterns. make_tables: its tables, whose columns
    `columns` declares by the table's name. comparing: those of them that compare times, which have no row
    where a host's times are no claim. fill: its fields, which fields.yml in its folder lists. problems:
    by the name of the evidence (record.verdict) that a verdict weighs them as. models: what its checks take
    along where they stand alone, name → content.
    """

    name: str
    files: tuple[str, ...] = ()
    make_tables: MakeTables | None = None
    columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    comparing: frozenset[str] = frozenset()
    fill: FillRecord | None = None
    problems: Mapping[str, FindProblems] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    checks: tuple[Judged, ...] = ()
    models: Callable[[], Iterable[tuple[str, bytes]]] | None = None
