"""A report's figures as SVG files of their own, for papers and slides: light colours, nothing from elsewhere.

The page's drawings take colours from the page's style; here the rules that concern drawings come along, with
their variables written out, because drawing programs do not know variables.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from pqevidence.report.blocks import Figure, Report

_VARIABLE = re.compile(r"var\((--[\w-]+)\)")
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")


def write_drawings(report: Report, folder: Path) -> list[Path]:
    """`<figure id>.svg` of every figure, in the order of the page; equal reports give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    css = (files("pqevidence.report") / "templates" / "report.css").read_text(encoding="utf-8")
    style = drawing_style(css)
    written = []
    for section in report.parts:
        for block in section.blocks:
            if isinstance(block, Figure):
                path = folder / f"{block.id}.svg"
                path.write_text(standalone(block.svg, style), encoding="utf-8", newline="\n")
                written.append(path)
    return written


def drawing_style(css: str) -> str:
    """Rules of drawings and of their colours, for the light scheme, without variables."""
    screen = css.partition("@media print")[0]
    screen = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", screen)
    values: dict[str, str] = {}
    rules = []
    for selector, body in _RULE.findall(screen):
        name = selector.strip()
        if name == ":root":
            values |= dict(re.findall(r"(--[\w-]+):\s*([^;]+)", body))
        elif re.match(r"(svg\b|\.[fs]-)", name) and "hover" not in name:
            rules.append(f"{name} {{{body}}}")
    text = "\n".join(rules)
    return _VARIABLE.sub(lambda found: values.get(found[1], "inherit"), text)


def standalone(markup: str, style: str) -> str:
    """One drawing as a document: name space, size, its own style; what led to the page's cells is text."""
    head, _, body = markup.partition(">")
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)
    assert size is not None, "every drawing has a view box"
    head = re.sub(r' style="[^"]*"', "", head)
    head += f' xmlns="http://www.w3.org/2000/svg" width="{size[1]}" height="{size[2]}"'
    plain = re.sub(r"</?a\b[^>]*>", "", body)
    return f"{head}><style>{style}</style>{plain}\n"
