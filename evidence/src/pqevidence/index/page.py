"""The pages of the index, made of the blocks of the report: one over all, one a machine, one a release.

No table or drawing holds two rings, and no number is of two runs.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pqevidence.analysis.table import Table as Csv
from pqevidence.index.alike import Line, never_together
from pqevidence.index.entries import VERDICTS, Answer, Entry, Folder, rings_of
from pqevidence.index.parts import Links, Shown, answers, line_blocks, machine_cell, ranking
from pqevidence.index.rules import RULES, VERIFY
from pqevidence.index.tables import line_keys
from pqevidence.report import blocks
from pqevidence.report.blocks import Block, Cell, Column, Facts, Paragraphs, Report, Section, Table, label
from pqevidence.report.svg import counted, significant
from pqevidence.report.words import with_words

SUBTITLE = "Post-quantum MAVLink tunnel lab"
#: machines that the first sentences name, in each ring
_MOST_NAMED = 4
_WHAT = {
    "sim": "virtual time that says nothing of a machine",
    "lab": "containers or programs on one machine",
    "hardware": "machines of their own",
}
_LINE = (
    "Runs stand in one line where compare names no difference between them but builds: one machine, ring, "
    "scenario, setting, data plane, sampler and load. A line is no claim: whether two runs differ, ./pqlab "
    "compare A B says with an interval and a verdict. Machines are known by their facts alone, so two that "
    "are equal in all of them are one here."
)
_NOTHING = "any"


class Site:
    """Everything that the pages are made of. root: the folder looked through; out: where they will lie."""

    def __init__(
        self, folder: Folder, lines: Sequence[Line], tables: Sequence[Csv], root: Path, out: Path
    ) -> None:
        self.folder, self.lines, self.root = folder, lines, root
        self.links = Links(root, out)
        self.entries = folder.entries
        self.rings = rings_of(self.entries)
        text = "".join(table.csv_text() for table in tables)
        self.numbers_sha256 = hashlib.sha256(text.encode()).hexdigest()

    def pages(self) -> dict[str, Report]:
        """File name → page, index.html first."""
        found = {"index.html": self._index()}
        for key, entries in self._by(lambda entry: _key(entry)).items():
            found[f"machine-{key}.html"] = self._machine(entries)
        for release, entries in self._by(lambda entry: str(entry.release)).items():
            found[release_page(release)] = self._release(release, entries)
        return found

    # -------------------------------------------------------------- pages

    def _index(self) -> Report:
        sections: list[Section | None] = []
        for ring in self.rings:
            sections += self._ring(ring)
        sections += [self._refused(), self._marked(), self._bundles(), self._rules(), self._others()]
        head = (
            ("bundles", blocks.count(len(self.entries))),
            ("refused", blocks.count(len(self.folder.refused))),
            ("machines", blocks.count(len({_key(entry) for entry in self.entries}))),
            ("releases", label(", ".join(sorted({str(entry.release) for entry in self.entries})) or "none")),
        )
        return self._report("Results index", self._short(), sections, self.entries, head)

    def _machine(self, entries: Sequence[Entry]) -> Report:
        machine = entries[0].machine
        assert machine is not None
        releases = sorted({str(entry.release) for entry in entries})
        told = [
            f"{machine.name}: {counted(len(entries), 'bundle')} of {_named('release', releases)}.",
            *self._sentences(entries),
        ]
        sections: list[Section | None] = []
        for ring in rings_of(entries):
            of_ring = [entry for entry in entries if entry.ring == ring]
            own = [line for line in self.lines if line.machine_key == machine.key and line.ring == ring]
            sections += [self._newest(ring, own, of_ring), self._trends(ring, own, of_ring)]
        sections.append(self._bundles(entries))
        back = (("all machines", label("index", href="index.html")), ("machine", label(machine.key)))
        answer = self._answer(told, entries)
        return self._report(f"Machine: {machine.name}", answer, sections, entries, back)

    def _release(self, release: str, entries: Sequence[Entry]) -> Report:
        told = [f"Release {release}: {counted(len(entries), 'bundle')}.", *self._sentences(entries)]
        sections: list[Section | None] = []
        for ring in rings_of(entries):
            of_ring = [entry for entry in entries if entry.ring == ring]
            rows = list(_latest(of_ring, ring))
            parts = self._answers_or_none(f"answers-{ring}", rows, ring)
            lead = "The newest run of this release on each machine, each beside the others and never pooled."
            sections.append(Section(f"of-{ring}", f"Ring {ring}, {_WHAT[ring]}", parts, lead))
        sections.append(self._bundles(entries))
        back = (("all releases", label("index", href="index.html")),)
        answer = self._answer(told, entries)
        return self._report(f"Release {release}", answer, sections, entries, back)

    def _report(
        self,
        title: str,
        answer: Section,
        sections: Sequence[Section | None],
        entries: Sequence[Entry],
        head: tuple[tuple[str, Cell], ...],
    ) -> Report:
        cells: Counter[str] = Counter()
        for entry in entries:
            cells.update(dict(entry.verdicts))
        first, *rest = with_words([answer, *(section for section in sections if section is not None)])
        return Report(
            title=title,
            subtitle=SUBTITLE,
            run_id=self.root.name,
            ring=", ".join(rings_of(entries)) or "none",
            verdicts=tuple((verdict, cells[verdict]) for verdict in VERDICTS),
            head=head,
            numbers_sha256=self.numbers_sha256,
            sections=tuple(rest),
            tiles="cells by verdict, of all bundles here",
            footer="It is the digest of index.csv and index-handshakes.csv beside this page",
            answer=first,
        )

    # -------------------------------------------------------------- the answer

    def _short(self) -> Section:
        rings = ", ".join(self.rings)
        machines = len({_key(entry) for entry in self.entries})
        told = [
            f"{counted(len(self.entries), 'bundle')} of {counted(machines, 'machine')}, "
            f"{_named('ring', self.rings)}; {counted(len(self.folder.refused), 'submission')} refused."
            if rings
            else f"No bundle is in this index; {counted(len(self.folder.refused), 'submission')} refused.",
            *self._sentences(self.entries),
        ]
        if (why := never_together(self.entries)) is not None:
            told.append(f"Rings never stand in one table: {why}.")
        return self._answer(told, self.entries)

    def _answer(self, told: Sequence[str], entries: Sequence[Entry]) -> Section:
        """Sentences, and the newest run of the strongest ring that has times, drawn."""
        parts: list[Block] = [Paragraphs("compared", tuple(told), as_list=True)]
        timed = [
            (ring, run) for ring in self.rings for run in entries if any(a.ring == ring for a in run.answers)
        ]
        if timed:
            ring, run = timed[-1]
            assert run.machine is not None
            caption = f"Newest run: {run.scenario}, release {run.release}, {run.machine.name}"
            parts.append(ranking("answer", caption, run, ring, run.machine.page))
        return Section("answer", "In short", tuple(parts))

    def _sentences(self, entries: Sequence[Entry]) -> Iterator[str]:
        """The newest run of each machine and scenario: its shortest and longest median."""
        for ring in rings_of(entries):
            of_ring = [entry for entry in entries if entry.ring == ring]
            runs = [run for run in _newest_runs(of_ring) if any(a.ring == ring for a in run.answers)]
            if not runs:
                yield f"Ring {ring}: no time is a claim."
            for run in runs[:_MOST_NAMED]:
                assert run.machine is not None
                ordered = sorted(
                    (a for a in run.answers if a.ring == ring), key=lambda a: (a.median_ms, a.place)
                )
                most = f"; the longest is {_said(ordered[-1])}" if len(ordered) > 1 else ""
                yield (
                    f"Ring {ring} ({run.machine.name}), {run.scenario} of release {run.release}: the "
                    f"shortest time to a link is {_said(ordered[0])}{most} (medians of run {run.run_id})."
                )
            if len(runs) > _MOST_NAMED:
                yield f"Ring {ring}: {counted(len(runs) - _MOST_NAMED, 'more newest run')} below."

    # -------------------------------------------------------------- sections

    def _ring(self, ring: str) -> list[Section | None]:
        entries = [entry for entry in self.entries if entry.ring == ring]
        question = f"Ring {ring}, {_WHAT[ring]}"
        releases = _grouped(entries, lambda entry: str(entry.release))
        links = tuple(
            (f"release {release}", label(counted(len(own), "bundle"), href=release_page(release)))
            for release, own in releases.items()
        )
        machines = Section(
            f"machines-{ring}",
            "Machines and releases",
            (self._machines(ring, entries), Facts(f"releases-{ring}", "Releases, a page each", links)),
            question=question,
        )
        rows = list(_latest(entries, ring))
        latest = Section(
            f"answers-{ring}-section",
            "Newest run of each machine and scenario",
            self._answers_or_none(f"answers-{ring}", rows, ring),
            question=question,
            lead="Times of unlike machines stand beside each other and are never pooled.",
        )
        return [machines, latest]

    def _machines(self, ring: str, entries: Sequence[Entry]) -> Table:
        releases = sorted({str(entry.release) for entry in entries})
        columns = (
            Column("machine"),
            Column("bundles", "n", True),
            *(Column(f"release {release}", "bundles", True) for release in releases),
            Column("scenarios"),
            Column("lines over runs", "n", True),
            Column("newest run, UTC"),
        )
        rows = []
        for key, own in _grouped(entries, _key).items():
            counts = Counter(str(entry.release) for entry in own)
            drawn = sum(
                line.machine_key == key and line.ring == ring and len(line.runs) > 1 for line in self.lines
            )
            rows.append(
                [
                    machine_cell(own[0]),
                    blocks.count(len(own)),
                    *(blocks.count(counts[release]) for release in releases),
                    label(", ".join(sorted({str(entry.scenario) for entry in own}))),
                    blocks.count(drawn),
                    label(own[-1].begun_utc),
                ]
            )
        return Table(
            f"m-{ring}",
            "Machines, with their bundles by release",
            columns,
            blocks.rows_of(rows),
            ring,
            source="index.csv",
        )

    def _answers_or_none(self, block_id: str, rows: Sequence[Shown], ring: str) -> tuple[Block, ...]:
        if not rows:
            return (Paragraphs(f"none-{block_id}", ("No time here is a claim.",)),)
        caption = "Cold handshake at the drone, by suite, condition and machine"
        return (answers(block_id, caption, rows, ring, self.links),)

    def _newest(self, ring: str, lines: Sequence[Line], entries: Sequence[Entry]) -> Section:
        parts: list[Block] = []
        for run in _newest_runs(entries):
            if not any(answer.ring == ring for answer in run.answers):
                continue
            block_id = f"{ring}-{_slug(run.name)}"
            caption = f"{run.scenario}, run {run.run_id} of release {run.release}: cold handshake by suite"
            parts.append(ranking(block_id, caption, run, ring, f"#t-{block_id}"))
            shown = [(run, answer) for answer in run.answers if answer.ring == ring]
            parts.append(answers(f"t-{block_id}", caption, shown, ring, self.links))
        if not parts:
            parts.append(Paragraphs(f"none-{ring}", ("No time here is a claim.",)))
        return Section(
            f"newest-{ring}",
            "Newest run of each scenario",
            tuple(parts),
            question=f"Ring {ring}, {_WHAT[ring]}",
        )

    def _trends(self, ring: str, lines: Sequence[Line], entries: Sequence[Entry]) -> Section:
        parts: list[Block] = []
        for line in lines:
            parts += line_blocks(line, self.links)
        inside = set(line_keys(lines))
        left = [f"{e.name}: {e.apart or 'no time in it'}" for e in entries if e.name not in inside]
        if left:
            parts.append(
                Paragraphs(f"left-{ring}", tuple(f"In no line: {text}." for text in left), as_list=True)
            )
        return Section(
            f"trends-{ring}",
            "How like runs went over releases",
            tuple(parts),
            lead=_LINE,
            question=f"Ring {ring}, {_WHAT[ring]}",
        )

    def _refused(self) -> Section | None:
        if not self.folder.refused:
            return None
        columns = (Column("submission"), Column("check"), Column("why"))
        rows = []
        for entry in self.folder.refused:
            assert entry.refused is not None
            rows.append([label(entry.name), label(entry.refused.check), label(entry.refused.why)])
        table = Table(
            "refused", "Refused submissions", columns, blocks.rows_of(rows), _NOTHING, source="index.csv"
        )
        return Section("refused-section", "Refused", (table,), "None of their numbers is used anywhere here.")

    def _marked(self) -> Section | None:
        rows = [
            [label(mark.check), self.links.bundle(entry), label(mark.why)]
            for entry in self.entries
            for mark in entry.marks
        ]
        if not rows:
            return None
        columns = (Column("check"), Column("bundle"), Column("what must be known"))
        table = Table(
            "marked",
            "Marks on bundles that are in the index",
            columns,
            blocks.rows_of(rows),
            _NOTHING,
            source="index.csv",
            collapsed=len(rows) > blocks.MOST_OPEN_ROWS,
        )
        return Section("marked-section", "Marked", (table,))

    def _bundles(self, entries: Sequence[Entry] | None = None) -> Section | None:
        """A table a ring, newest first."""
        of = self.entries if entries is None else entries
        columns = (
            Column("bundle"),
            Column("scenario"),
            Column("machine"),
            Column("release"),
            Column("begun, UTC"),
            Column("line"),
            Column("cells"),
            Column("licence"),
            Column("signed"),
            Column("checked"),
        )
        keys = line_keys(self.lines)
        tables = []
        for ring in rings_of(of):
            rows = [self._bundle(entry, keys) for entry in reversed(of) if entry.ring == ring]
            tables.append(
                Table(
                    f"bundles-{ring}",
                    f"Bundles of ring {ring}, newest first",
                    columns,
                    blocks.rows_of(rows),
                    ring,
                    source="index.csv",
                    collapsed=len(rows) > blocks.MOST_OPEN_ROWS,
                )
            )
        return Section("all", "Bundles", tuple(tables)) if tables else None

    def _bundle(self, entry: Entry, keys: dict[str, str]) -> list[Cell]:
        counts = [f"{count} {verdict}" for verdict, count in entry.verdicts.items() if count]
        marked = {mark.check for mark in entry.marks}
        release = str(entry.release)
        return [
            self.links.bundle(entry),
            label(entry.scenario),
            machine_cell(entry),
            label(release, href=release_page(release)),
            label(entry.begun_utc),
            label(keys.get(entry.name) or f"none: {entry.apart or 'no time in it'}"),
            label(", ".join(counts) or "none"),
            label(entry.licence or "none named"),
            label("unsigned" if "attested" in marked else "by both agents"),
            label(entry.checked),
        ]

    def _rules(self) -> Section:
        refused: Counter[str] = Counter()
        for entry in self.folder.refused:
            assert entry.refused is not None
            check = entry.refused.check
            refused[VERIFY + "*" if check.startswith(VERIFY) else check] += 1
        marked = Counter(mark.check for entry in self.entries for mark in entry.marks)
        columns = (Column("check"), Column("asks for"), Column("else"), Column("here", "n", True))
        rows = [
            [
                label(rule.name),
                label(rule.asks),
                label("marked" if rule.marks else "refused"),
                blocks.count(refused[rule.name] + marked[rule.name]),
            ]
            for rule in RULES
        ]
        table = Table(
            "rules",
            "Rules of submission, each a named check",
            columns,
            blocks.rows_of(rows),
            _NOTHING,
            collapsed=True,
        )
        lead = "The first check that a submission fails refuses it."
        return Section("rules-section", "What a submission is asked", (table,), lead)

    def _others(self) -> Section | None:
        if not self.folder.others:
            return None
        told = tuple(f"{name}: {why}" for name, why in self.folder.others)
        return Section("others", "Not looked into", (Paragraphs("others-list", told, as_list=True),))

    def _by(self, key: Callable[[Entry], str]) -> dict[str, list[Entry]]:
        return _grouped(self.entries, key)


def release_page(release: str) -> str:
    """File of a release's page. `version_known` lets no other text through than versions that there were."""
    return f"release-{_slug(release)}.html"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]", "-", text)


def _key(entry: Entry) -> str:
    assert entry.machine is not None
    return entry.machine.key


def _grouped(entries: Sequence[Entry], key: Callable[[Entry], str]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(key(entry), []).append(entry)
    return {name: found[name] for name in sorted(found)}


def _newest_runs(entries: Sequence[Entry]) -> list[Entry]:
    """The newest entry with times of each machine and scenario, of entries in order of time."""
    found = {(_key(entry), entry.scenario): entry for entry in entries if entry.answers}
    return list(found.values())


def _latest(entries: Sequence[Entry], ring: str) -> Iterator[Shown]:
    """Their rows, suite by suite, so that machines stand beside each other."""
    rows = [(run, a) for run in _newest_runs(entries) for a in run.answers if a.ring == ring]
    places = {place: number for number, place in enumerate(dict.fromkeys(a.place for _, a in rows))}
    yield from sorted(rows, key=lambda row: places[row[1].place])


def _said(answer: Answer) -> str:
    low, high = answer.low_ms, answer.high_ms
    between = "" if low is None or high is None else f" (95 % {significant(low)} to {significant(high)})"
    name = answer.suite_id.removeprefix("cs-")
    return f"{significant(answer.median_ms)} ms{between}, {name} under condition {answer.condition}"


def _named(word: str, names: Sequence[str]) -> str:
    return f"{word} {names[0]}" if len(names) == 1 else f"{word}s {', '.join(names)}"
