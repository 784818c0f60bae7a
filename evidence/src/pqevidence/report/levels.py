"""The drawing of level and latency: one band a NIST level, one dot a suite, the fastest one named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.figures import family_class, vertical_grid
from pqevidence.report.layouts import LABEL, Layout, both
from pqevidence.report.svg import LogAxis, counted, significant

BAND = 74.0
#: width of a letter of a name, pixels, at most
_LETTER = 7.2


@dataclass(frozen=True)
class LevelDot:
    """One suite: its place, its interval where it has one, and whether it is the fastest of its level."""

    label: str
    family: str | None
    level: int
    value: float
    interval: tuple[float, float] | None
    fastest: bool


@both
def level_front(layout: Layout, figure_id: str, title: str, dots: Sequence[LevelDot]) -> str:
    """Handshake on a log axis, levels as bands with the highest on top."""
    left, right, top = layout.pick(92.0, 16.0), layout.pick(24.0, 18.0), 24.0
    band = layout.pick(BAND, BAND + LABEL)
    levels = sorted({dot.level for dot in dots}, reverse=True)
    bottom = top + band * len(levels)
    ends = [v for d in dots for v in (d.value, *(d.interval or ()))]
    axis = LogAxis.over(ends, left, layout.width - right)
    items = vertical_grid(axis, top, bottom, "handshake wall at the drone, ms (log scale)")
    for index, level in enumerate(levels):
        middle = top + band * (index + 1) - BAND * 0.4
        named = layout.pick(middle + 4, middle - 43)
        items.append(svg.text(0, named, f"level {level}", class_="label"))
        items.append(svg.line(left, middle, axis.end, middle, "rail"))
        members = sorted((d for d in dots if d.level == level), key=lambda d: (d.value, d.label))
        for order, dot in enumerate(members):
            items += _dot(dot, axis, middle + ((order * 7) % 5 - 2) * 3.4)
        for dot in (d for d in members if d.fastest):
            x = axis(dot.value)
            items.append(svg.line(x, middle - 20, x, middle + 9, "median"))
            told = f"{dot.label}: {significant(dot.value)} ms"
            before = x > layout.width * 0.62
            at, anchor = (x - 5, "end") if before else (x + 5, "start")
            if layout.narrow:  # the name may be wider than what is left on either side
                at, anchor = max(0.0, min(x + 5, layout.width - len(told) * _LETTER)), "start"
            items.append(svg.text(at, middle - 23, told, class_="label small", text_anchor=anchor))
    description = (
        f"{counted(len(dots), 'suite')} by NIST level; a line through a dot is its interval. The table holds "
        "the same."
    )
    return svg.document(figure_id, layout.width, bottom + 40, title, description, items)


def _dot(dot: LevelDot, axis: LogAxis, y: float) -> list[str]:
    shade = family_class(dot.family)
    drawn = []
    if dot.interval is not None:
        low, high = dot.interval
        drawn.append(svg.line(axis(low), y, axis(high), y, f"whisker {shade}"))
    tip = svg.hover(f"{dot.label}: {significant(dot.value)} ms")
    drawn.append(svg.element("circle", tip, cx=axis(dot.value), cy=y, r=4.2, class_=f"dot {shade}"))
    return drawn
