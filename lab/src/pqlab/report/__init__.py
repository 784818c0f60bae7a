"""The report of a bundle: one self-contained HTML file and one Markdown file.

Reading order: source (what is read) → sections/ (what is said, as blocks) → html, markdown (how it is
written). figures draws on svg. The report is a pure function of the bundle: no clock, locale, time zone, or
file outside it enters, so the same bundle gives the same bytes anywhere.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pqlab.bundle import numbers_sha256
from pqlab.record.untimed import untimed_sentence
from pqlab.report.blocks import Report, Section, Table, compact, no_claim
from pqlab.report.html import render_html
from pqlab.report.markdown import render_markdown
from pqlab.report.sections import (
    aead,
    cells,
    conditions,
    context,
    corrections,
    dataplane,
    detectors,
    drift,
    explorer,
    front,
    handshakes,
    link,
    observers,
    overview,
    rekey,
    semantics,
    statistics,
    suites,
    supply,
)
from pqlab.report.source import Source

__all__ = ["build", "render"]


def build(source: Source) -> Report:
    """All sections of a bundle's report, as blocks."""
    candidates: list[Section | None] = [
        corrections.corrections(source),
        overview.findings(source),
        overview.matrix(source),
        front.recommendations(source),
        suites.suite_benchmark(source),
        supply.supply(source),
        suites.checklist_section(source),
        handshakes.all_suites(source),
        front.front(source),
        explorer.explorer(source),
        statistics.statistics(source),
        conditions.conditions(source),
        drift.drift(source),
        handshakes.primitives(source),
        handshakes.sizes(source),
        rekey.pooled(source),
        handshakes.phi(source),
        rekey.rekeys(source),
        link.links(source),
        detectors.detectors(source),
        dataplane.traffic(source),
        dataplane.throughput(source),
        aead.aead(source),
        dataplane.cpu(source),
        observers.observers(source),
        supply.heat(source),
        dataplane.overhead(source),
        rekey.growth(source),
        context.published(source),
        context.environment(source),
        context.methods(source),
        semantics.semantics(source),
        cells.cell_sections(source),
    ]
    scenario = source.bundle.scenario
    counts = source.verdict_counts
    return Report(
        title=str(scenario.get("title") or scenario.get("name") or "Run"),
        subtitle="Post-quantum MAVLink tunnel lab",
        run_id=str(source.bundle.plan.get("run_id") or source.bundle.run.get("run_id") or "unnamed run"),
        ring=source.ring,
        verdicts=tuple(counts.items()),
        head=overview.head(source),
        numbers_sha256=numbers_sha256(source.bundle.data),
        sections=tuple(
            _marked(_compact(section), bool(source.bundle.untimed))
            for section in candidates
            if section is not None
        ),
        notice=_notice(source),
    )


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
    report = build(Source(bundle_root))
    folder = out if out is not None else bundle_root / "data"
    folder.mkdir(parents=True, exist_ok=True)
    page, text = folder / "report.html", folder / "report.md"
    page.write_text(render_html(report), encoding="utf-8", newline="\n")
    text.write_text(render_markdown(report), encoding="utf-8", newline="\n")
    return page, text
