"""Writes a report as Markdown: the same blocks, tables as pipe tables, figures as their captions.

The fields of every record stay out; their section links the record instead.
"""

from __future__ import annotations

from pqevidence.report import blocks
from pqevidence.report.blocks import Block, Cell, Report

_ESCAPES = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "\\|*_`[]"},
        "<": "&lt;",
        ">": "&gt;",
        "&": "&amp;",
        "\n": " ",
        "\r": " ",
    }
)


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    return text.translate(_ESCAPES)


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    text = escape(cell.text)
    return f"[{text}]({cell.href})" if cell.href and not cell.href.startswith("#") else text


def _head(column: blocks.Column) -> str:
    return escape(f"{column.label}, {column.unit}" if column.unit else column.label)


def render_markdown(report: Report) -> str:
    """The whole document; deterministic for equal reports."""
    lines = [
        f"# {escape(report.title)}",
        "",
        f"{escape(report.subtitle)}, run {escape(report.run_id)}, ring {report.ring}",
        "",
    ]
    if report.notice:
        lines += [f"**{escape(report.notice)}**", ""]
    lines += ["Verdicts: " + ", ".join(f"{name} {count}" for name, count in report.verdicts), ""]
    lines += [f"numbers sha256: {report.numbers_sha256}", ""]
    lines += [f"- {escape(name)}: {_cell(value)}" for name, value in report.head]
    lines.append("")
    if report.answer is not None:
        lines += _section(report.answer, "##")
    for question, sections in report.chapters:
        if question:
            lines += [f"## {escape(question)}", ""]
        for section in sections:
            lines += _section(section, "###" if question else "##")
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(section: blocks.Section, mark: str) -> list[str]:
    lines = [f"{mark} {escape(section.title)}", ""]
    if section.lead:
        lines += [escape(section.lead), ""]
    lines += [f"- {escape(term)}: {escape(meaning)}" for term, meaning in section.words]
    if section.words:
        lines.append("")
    for block in section.blocks:
        lines += _block(block)
    return lines


def _block(block: Block) -> list[str]:
    if isinstance(block, blocks.Table):
        return _table(block)
    if isinstance(block, blocks.Figure):
        return [f"Figure: {escape(block.caption)} (ring {block.ring}; drawn in report.html)", ""]
    if isinstance(block, blocks.Facts):
        return [
            f"#### {escape(block.caption)}",
            "",
            *(f"- {escape(k)}: {_cell(v)}" for k, v in block.items),
            "",
        ]
    if isinstance(block, blocks.Paragraphs):
        if block.as_list:
            return [*(f"- {escape(s)}" for s in block.sentences), ""]
        return [part for s in block.sentences for part in (escape(s), "")]
    if isinstance(block, blocks.Findings):
        return _findings(block)
    if isinstance(block, blocks.Matrix):
        return _matrix(block)
    return [line for item in block.items for line in _detail(item)]


def _table(table: blocks.Table) -> list[str]:
    lines = [f"#### {escape(table.caption)} (ring {table.ring})", ""]
    lines.append("| " + " | ".join(_head(c) for c in table.columns) + " |")
    lines.append("|" + "|".join("---:" if c.numeric else "---" for c in table.columns) + "|")
    lines += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in table.rows]
    lines.append("")
    if table.note:
        lines += [escape(table.note), ""]
    if table.source:
        links = ", ".join(f"[{escape(name)}]({name})" for name in (table.source, *table.also))
        lines += [f"Source: {links}", ""]
    return lines


def _findings(block: blocks.Findings) -> list[str]:
    if not block.items:
        return [escape(block.empty), ""]
    lines = []
    for item in block.items:
        cells = ", ".join(c.href.removeprefix("#cell-") for c in item.cells if c.href)
        lines.append(
            f"- {escape(item.statement)} {escape(item.effect)}; {escape(item.basis)}; ring {item.ring}."
        )
        if cells:
            lines.append(f"  Cells: {cells}")
    return [*lines, ""]


def _matrix(block: blocks.Matrix) -> list[str]:
    lines = [f"#### {escape(block.caption)} (ring {block.ring})", ""]
    names = [name for name, span in block.groups for _ in range(span)]
    heads = [escape(f"{name} {head}".strip()) for name, head in zip(names, block.heads, strict=True)]
    lines.append("| suite | " + " | ".join(heads) + " |")
    lines.append("|---" * (len(block.heads) + 1) + "|")
    lines += [f"| {escape(r.label)} | " + " | ".join(_cell(c) for c in r.cells) + " |" for r in block.rows]
    return [*lines, ""]


def _detail(item: blocks.CellDetail) -> list[str]:
    facts = "; ".join(f"{escape(k)} {_cell(v)}" for k, v in item.facts)
    files = ", ".join(_cell(f) for f in item.files)
    reason = f" ({escape(item.reason)})" if item.reason else ""
    return [f"#### {escape(item.title)}: {item.verdict}{reason}", "", facts, "", f"Files: {files}", ""]
