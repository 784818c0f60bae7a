"""Writes a report as one HTML file: style, script and drawings inline, nothing fetched.

Autoescape is on; the only markup taken as is are the project's own stylesheet, script and drawings, whose
texts svg.py escapes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from html import escape
from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from markupsafe import Markup
from markupsafe import escape as autoescape

from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Report


@cache
def _template() -> Template:
    """Compiled once: it takes as long as filling it in."""
    environment = Environment(
        loader=PackageLoader("pqevidence.report", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.tests["figure"] = lambda block: isinstance(block, blocks.Figure)
    environment.tests["table"] = lambda block: isinstance(block, blocks.Table)
    environment.tests["facts"] = lambda block: isinstance(block, blocks.Facts)
    environment.tests["paragraphs"] = lambda block: isinstance(block, blocks.Paragraphs)
    environment.tests["findings"] = lambda block: isinstance(block, blocks.Findings)
    environment.tests["matrix"] = lambda block: isinstance(block, blocks.Matrix)
    environment.tests["celldetails"] = lambda block: isinstance(block, blocks.CellDetails)
    environment.filters["drawing"] = lambda figure: Markup(figure.svg)
    environment.filters["narrow"] = lambda figure: Markup(figure.svg.narrow)
    environment.filters["lines"] = _lines
    environment.filters["fields"] = _fields
    return environment.get_template("report.html.j2")


def render_html(report: Report) -> str:
    """The whole page; deterministic for equal reports."""
    folder = files("pqevidence.report") / "templates"
    return _template().render(
        report=report,
        style=Markup((folder / "report.css").read_text(encoding="utf-8")),
        script=Markup((folder / "report.js").read_text(encoding="utf-8")),
    )


_MARKS: Final = re.compile("[&<>'\"]")


def _escaped(text: str) -> str:
    """As `html.escape` has it, which looks five times through what mostly has no mark."""
    return escape(text) if _MARKS.search(text) else text


def _lines(table: blocks.Table) -> Markup:
    """The lines of a table. A large page has a hundred thousand cells, so this is no template."""
    return Markup("".join([f"{_line(row, table.columns)}\n" for row in table.rows]))


def _fields(table: blocks.Table) -> Markup:
    """The fields of a category of a record: there are 230 of them a cell, so this is no template."""
    return Markup("".join([f"{_field(row)}\n" for row in table.rows]))


def _line(row: Sequence[Cell], columns: Sequence[Column]) -> str:
    parts = ["<tr>"]
    for place, (cell, column) in enumerate(zip(row, columns, strict=True)):
        tag = 'th scope="row"' if place == 0 else "td"
        names = [*(() if cell.kind == "text" else (cell.kind,)), *(("n",) if column.numeric else ())]
        classes = f' class="{_escaped(" ".join(names))}"' if names else ""
        key = cell.sort_key
        sort = "" if key == cell.text else f' data-s="{_escaped(key)}"'
        title = f' title="{_escaped(cell.title)}"' if cell.title else ""
        text = _escaped(cell.text)
        if cell.href:
            text = f'<a href="{_escaped(cell.href)}"{title}>{text}</a>'
            title = ""
        if cell.kind.startswith("verdict"):
            text = f'<span class="pill">{text}</span>'
        parts.append(f"<{tag}{classes}{sort}{title}>{text}</{tag[:2]}>")
    parts.append("</tr>")
    return "".join(parts)


@lru_cache(maxsize=8192)
def _field(row: tuple[Cell, ...]) -> str:
    """One field of a record, in the same five columns as all. Many say the same in many cells."""
    texts: list[str] = [cell.text for cell in row]
    if _MARKS.search("\n".join(texts)) is not None:
        texts = [autoescape(text) for text in texts]
    name, *rest = texts
    parts = [f'<tr><th scope="row">{name}</th>']
    for cell, text in zip(row[1:], rest, strict=True):
        parts.append(f'<td class="null">{text}</td>' if cell.kind.startswith("null") else f"<td>{text}</td>")
    parts.append("</tr>")
    return "".join(parts)
