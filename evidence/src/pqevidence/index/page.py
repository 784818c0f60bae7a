"""The index page, made of the blocks of the report."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.table import Table as Csv
from pqevidence.index.entries import RINGS, VERDICTS, Entry, Folder
from pqevidence.index.tables import Line
from pqevidence.report import blocks
from pqevidence.report.blocks import Block, Cell, Column, Figure, Paragraphs, Report, Section, Table, label
from pqevidence.report.trends import Trend, trends

_NO_LINE = "No two bundles have the same scenario and hosts: there is no line to draw."
_LEAD = (
    "Runs of one scenario, on hosts that are equal in all that is known to move times, oldest first. A line "
    "is no claim: whether two runs differ, ./pqlab compare A B says with an interval and a verdict."
)


def page(folder: Folder, lines: Sequence[Line], tables: Sequence[Csv], root: Path, out: Path) -> Report:
    """The whole page. root: the folder looked through; out: where the page will lie, for its links."""
    entries = folder.entries
    rings = {entry.ring for entry in entries if entry.ring is not None} or {"lab"}
    ring = min(rings, key=RINGS.index)
    broken = sum(entry.broken is not None for entry in entries)
    cells: Counter[str] = Counter()
    for entry in entries:
        if entry.broken is None:
            cells.update(dict(entry.verdicts or {}))
    text = "".join(table.csv_text() for table in tables)
    return Report(
        title="Results index",
        subtitle="Post-quantum MAVLink tunnel lab",
        run_id=root.name,
        ring=ring,
        verdicts=tuple((verdict, cells[verdict]) for verdict in VERDICTS),
        head=(
            ("bundles", blocks.count(len(entries))),
            ("broken", blocks.count(broken)),
            ("lines over runs", blocks.count(len(lines))),
        ),
        numbers_sha256=hashlib.sha256(text.encode()).hexdigest(),
        sections=tuple(
            filter(
                None,
                (
                    _broken(entries),
                    _trends(lines, ring),
                    _bundles(entries, root, out, ring),
                    _others(folder),
                ),
            )
        ),
        tiles="cells by verdict, of all bundles that are not broken",
        footer="It is the digest of index.csv and index-handshakes.csv beside this page",
    )


def _trends(lines: Sequence[Line], ring: str) -> Section:
    drawn: list[Block] = []
    for line in lines:
        drawn += _line(line)
    if not drawn:
        drawn = [Paragraphs("no-lines", (_NO_LINE,))]
    return Section("trends", "How equal runs went over time", tuple(drawn), lead=_LEAD if lines else None)


def _line(line: Line) -> list[Block]:
    names = [f"{run.created_utc} {run.name}" for run in line.runs]
    head = f"{line.scenario} (line {line.key}): {len(line.runs)} runs"
    one = len({condition for _, condition in line.places}) == 1
    rows = [
        Trend(
            suite_id.removeprefix("cs-") + ("" if one else f", {condition}"),
            _family(suite_id),
            tuple(run.medians_ms.get((suite_id, condition)) for run in line.runs),
        )
        for suite_id, condition in line.places
    ]
    numbered = tuple(
        f"{number}: {name}{_odd(run)}"
        for number, (name, run) in enumerate(zip(names, line.runs, strict=True), 1)
    )
    found: list[Block] = []
    if rows:
        drawing = trends(f"trend-{line.key}", f"{head}: median cold handshake", names, rows)
        found.append(
            Figure(f"f-{line.key}", f"{head}, median cold handshake at the drone", drawing, line.ring)
        )
        found.append(_values(line, rows))
    else:
        found.append(Paragraphs(f"none-{line.key}", (f"{head}, and no suite that two of them measured.",)))
    found.append(Paragraphs(f"runs-{line.key}", numbered, as_list=True))
    return found


def _values(line: Line, rows: Sequence[Trend]) -> Table:
    columns = (Column("suite"), *(Column(str(number), "ms", True) for number in range(1, len(line.runs) + 1)))
    lines = [
        [label(row.label), *(blocks.number(value, reason="no cell passed") for value in row.values)]
        for row in rows
    ]
    return Table(
        f"t-{line.key}", f"{line.scenario} (line {line.key}): median cold handshake by run", columns,
        blocks.rows_of(lines), line.ring, source="index-handshakes.csv", collapsed=True,
    )  # fmt: skip


def _odd(run: Entry) -> str:
    told = [f"busy machine: {run.busy}" if run.busy else "", run.untimed or ""]
    told = [text for text in told if text]
    return f" ({'; '.join(told)})" if told else ""


def _family(suite_id: str) -> str | None:
    facts = suite_facts(suite_id)
    return facts.kem_family if facts is not None else None


def _broken(entries: Sequence[Entry]) -> Section | None:
    told = tuple(f"{entry.name}: {entry.broken}" for entry in entries if entry.broken is not None)
    if not told:
        return None
    return Section(
        "broken", "Broken bundles", (Paragraphs("broken-list", told, as_list=True),),
        lead="None of their numbers counts, here or in a line. ./pqlab verify BUNDLE says all that is wrong.",
    )  # fmt: skip


def _bundles(entries: Sequence[Entry], root: Path, out: Path, ring: str) -> Section:
    columns = (
        Column("bundle"), Column("scenario"), Column("ring"), Column("begun, UTC"), Column("line"),
        Column("cells"), Column("machine"), Column("checked"),
    )  # fmt: skip
    rows = [_bundle(entry, root, out) for entry in reversed(entries)]
    table = Table(
        "bundles", "Every bundle, newest first", columns, blocks.rows_of(rows), ring, source="index.csv",
        note="Line: equal where scenario and hosts are.",
    )  # fmt: skip
    return Section("all", "Bundles", (table,))


def _bundle(entry: Entry, root: Path, out: Path) -> list[Cell]:
    report = root / entry.name / "data" / "report.html"
    href = Path(os.path.relpath(report, out)).as_posix() if report.is_file() else None
    claimed = [label(entry.name, href=href), *map(_text, (entry.scenario, entry.ring, entry.created_utc))]
    if entry.broken is not None:
        nothing = blocks.not_applicable()
        return [*claimed, nothing, nothing, nothing, label(f"broken: {entry.checked}")]
    counted = [f"{count} {verdict}" for verdict, count in (entry.verdicts or {}).items() if count]
    against = filter(None, (entry.untimed, f"busy: {entry.busy}" if entry.busy else None))
    return [
        *claimed,
        _text(entry.line),
        label(", ".join(counted) or "none"),
        label("; ".join(against) or "nothing said against it"),
        label(entry.checked),
    ]


def _text(value: str | None) -> Cell:
    return label(value) if value else blocks.not_applicable()


def _others(folder: Folder) -> Section | None:
    if not folder.others:
        return None
    told = tuple(f"{name}: {why}" for name, why in folder.others)
    return Section("others", "Not looked into", (Paragraphs("others-list", told, as_list=True),))
