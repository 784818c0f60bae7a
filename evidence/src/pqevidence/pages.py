"""The report of a bundle: one self-contained HTML file and one Markdown file.

Reading order: source (what is read) → sections/ (what is said, as blocks) → html, markdown (how it is
written). figures draws on svg. The report is a pure function of the bundle: no clock, locale, time zone, or
file outside it enters, so the same bundle gives the same bytes anywhere.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

from pqevidence.analysis.comparison import reference_dir
from pqevidence.bundle import numbers_sha256
from pqevidence.derived import tables_of
from pqevidence.measures import MEASURES
from pqevidence.measures.measure import MakeSection
from pqevidence.measures.place import placed
from pqevidence.record.untimed import untimed_sentence
from pqevidence.report.blocks import Report, Section, Table, compact, folded, no_claim
from pqevidence.report.html import render_html
from pqevidence.report.markdown import render_markdown
from pqevidence.report.sections import (
    answer,
    cells,
    conditions,
    context,
    corrections,
    drift,
    explorer,
    faults,
    front,
    over_time,
    overview,
    phi,
    radios,
    semantics,
    statistics,
    suites,
)
from pqevidence.report.source import Source
from pqevidence.report.words import with_words
from pqevidence.versions import MADE_AGAIN, wrote_table

__all__ = ["build", "render"]


#: questions in the order of the page, each with what helps to answer it; measures add their own
CHAPTERS: tuple[tuple[str, tuple[MakeSection, ...]], ...] = (
    ("What was found?", (corrections.corrections, overview.findings, front.recommendations)),
    (
        "How long until a link?",
        (
            radios.radios,
            front.front,
            suites.suite_benchmark,
            explorer.explorer,
            statistics.statistics,
            context.published,
        ),
    ),
    (
        "What does a packet cost?",
        (over_time.over_time,),
    ),
    ("What happens at a rekey?", (phi.phi,)),
    ("What changes between conditions?", (conditions.conditions, faults.faults)),
    ("What did the detectors see?", ()),
    ("What does it take from the supply?", ()),
    (
        "Can these numbers be trusted?",
        (drift.drift, suites.checklist_section, overview.matrix, cells.cell_sections),
    ),
    (
        "Where do these numbers come from?",
        (context.environment, context.methods, semantics.semantics, overview.provenance),
    ),
)


def source_of(bundle_root: Path) -> Source:
    """A bundle as its page reads it. Tables of a version that had other columns are made again, in memory;
    the checklist is as it lies there."""
    source = Source(bundle_root)
    made_by = str(source.bundle.run.get("pqlab_version"))
    if made_by in MADE_AGAIN:
        return source
    tables = [t for t in tables_of(source.bundle, reference_dir()) if wrote_table(made_by, t.name)]
    made = {table.name: table.csv_text() for table in tables}
    rows = {name: list(csv.DictReader(io.StringIO(text, newline=""))) for name, text in made.items()}
    rows |= {name: source.rows(name) for name in ("checklist",) if source.has(name)}
    return Source(bundle_root, source.bundle, rows)


def build(source: Source) -> Report:
    """All sections of a bundle's report, as blocks."""
    found = [answer.answer(source)]
    for question, makers in CHAPTERS:
        for make in placed(makers, _parts_of(question), _name_of):
            if (section := make(source)) is not None:
                found.append(folded(replace(section, question=question)))
    marked = [_marked(_compact(section), bool(source.bundle.untimed)) for section in found]
    first, *sections = with_words(marked)
    scenario = source.bundle.scenario
    return Report(
        title=str(scenario.get("title") or scenario.get("name") or "Run"),
        subtitle="Post-quantum MAVLink tunnel lab",
        run_id=str(source.bundle.plan.get("run_id") or source.bundle.run.get("run_id") or "unnamed run"),
        ring=source.ring,
        verdicts=tuple(source.verdict_counts.items()),
        head=(),
        numbers_sha256=numbers_sha256(source.bundle.data),
        sections=tuple(sections),
        notice=_notice(source),
        answer=first,
    )


def _parts_of(question: str) -> list[tuple[str | None, MakeSection]]:
    """(after which maker, maker) of every measure that helps to answer it."""
    parts = [part for measure in MEASURES for part in measure.parts]
    return [(part.after, part.make) for part in parts if part.question == question]


def _name_of(make: MakeSection) -> str:
    return make.__name__


def _notice(source: Source) -> str | None:
    """What a reader must know before any figure: a busy machine, hosts whose times are no claim."""
    told = (context.busy_machine(source), untimed_sentence(source.bundle.untimed))
    return " ".join(filter(None, told)) or None


def _marked(section: Section, untimed: bool) -> Section:
    """Where times are no claim, the words beside the ring of every table, drawing and finding say so."""
    return replace(section, blocks=tuple(no_claim(block) for block in section.blocks)) if untimed else section


def _compact(section: Section) -> Section:
    parts = tuple(compact(part) if isinstance(part, Table) else part for part in section.blocks)
    return replace(section, blocks=parts)


def render(bundle_root: Path, out: Path | None = None) -> tuple[Path, Path]:
    """Write report.html and report.md of a bundle; returns both paths.

    ``bundle_root`` is the folder that holds data/; ``out`` (default: data/) the folder to write into. Links
    in the report are relative to the bundle's data/. Raises LabError for an unreadable or unanalysed bundle.
    """
    report = build(source_of(bundle_root))
    folder = out if out is not None else bundle_root / "data"
    folder.mkdir(parents=True, exist_ok=True)
    page, text = folder / "report.html", folder / "report.md"
    page.write_text(render_html(report), encoding="utf-8", newline="\n")
    text.write_text(render_markdown(report), encoding="utf-8", newline="\n")
    return page, text
