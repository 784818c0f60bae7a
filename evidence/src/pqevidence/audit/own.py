"""The findings that a bundle's report prints, held against those its raw files give.

Tables are made again from the raw files, findings from these; the sealed tables are not believed. The
recommendations of a level are worked out without the report's own code (levels).
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from pqevidence.analysis.comparison import reference_dir
from pqevidence.analysis.load import unreadable
from pqevidence.audit.claim import Claim
from pqevidence.audit.levels import level_claims, owed
from pqevidence.derived import tables_of
from pqevidence.report import blocks
from pqevidence.report.sections import overview
from pqevidence.report.source import RawRow, Source
from pqevidence.verify.checklist import checklist_table


@dataclass(frozen=True)
class Audit:
    """printed: claims of the page; unfounded: those that do not follow, each with what the raw files give for
    the same statement (None: nothing); unsaid: claims that follow and are not printed."""

    printed: list[Claim]
    unfounded: list[tuple[Claim, Claim | None]]
    unsaid: list[Claim]


class _Recomputed(Source):
    """A source whose tables come from the raw files."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        tables = [*tables_of(self.bundle, reference_dir()), checklist_table(root)]
        self._tables = {t.name: list(csv.DictReader(io.StringIO(t.csv_text()))) for t in tables}

    def rows(self, name: str) -> list[RawRow]:
        """Rows of the table as made again."""
        return self._tables[name]

    def has(self, name: str) -> bool:
        """Do the raw files give this table?"""
        return name in self._tables


class _Findings(HTMLParser):
    """Texts of the items of lists of findings."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[list[str]] = []
        self._inside = False
        self._taking = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("class") or ""
        if tag == "ol" and kind == "findings":
            self._inside = True
        elif self._inside and tag == "li":
            self.items.append([])  # one that says "none" too, or its sentence would join the item before it
        # the sentence, then effect and basis; the ring beside them is a span of a class
        if self._inside and self.items and ((tag == "p" and kind == "say") or (tag == "span" and not kind)):
            self.items[-1].append("")
            self._taking = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "ol":
            self._inside = False
        if tag in ("p", "span"):
            self._taking = False

    def handle_data(self, data: str) -> None:
        if self._taking:
            self.items[-1][-1] += data


def printed_claims(page: Path) -> list[Claim]:
    """The findings of a report page."""
    try:
        text = page.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise unreadable(page, str(error)) from error
    parser = _Findings()
    parser.feed(text)
    # the sentence that there is none has neither effect nor basis
    return [Claim(*item) for item in parser.items if len(item) == 3]


def overview_claims(source: Source) -> list[Claim]:
    """The findings of the overview, from the source's tables."""
    return [
        Claim(item.statement, item.effect, item.basis)
        for block in overview.findings(source).blocks
        if isinstance(block, blocks.Findings)
        for item in block.items
    ]


def audit(root: Path) -> Audit:
    """Raises LabError for a bundle that cannot be read."""
    printed, source = printed_claims(root / "data" / "report.html"), _Recomputed(root)
    overall, of_levels = overview_claims(source), level_claims(source.bundle)
    founded = overall + of_levels
    by_statement = {claim.statement: claim for claim in founded}
    unfounded = [(claim, by_statement.get(claim.statement)) for claim in printed if claim not in founded]
    due = founded if owed(source.bundle) else overall
    said = {claim.statement for claim in printed}
    return Audit(printed, unfounded, [claim for claim in due if claim.statement not in said])
