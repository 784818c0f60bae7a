"""The drawing of level and latency: one band a NIST level, one dot a suite, the fastest one named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.figures import WIDTH, family_class, vertical_grid
from pqevidence.report.svg import LogAxis, counted, significant

BAND = 74.0


@dataclass(frozen=True)
class LevelDot:
    """One suite: its place, its interval where it has one, and whether it is the fastest of its level."""

    label: str
    family: str | None
    level: int
    value: float
    interval: tuple[float, float] | None
    fastest: bool


def level_front(figure_id: str, title: str, dots: Sequence[LevelDot]) -> str:
    """Handshake on a log axis, levels as bands with the highest on top."""
    left, right, top = 92.0, 24.0, 24.0
    levels = sorted({dot.level for dot in dots}, reverse=True)
    bottom = top + BAND * len(levels)
    ends = [v for d in dots for v in (d.value, *(d.interval or ()))]
    axis = LogAxis.over(ends, left, WIDTH - right)
    items = vertical_grid(axis, top, bottom, "handshake wall at the drone, ms (log scale)")
    for index, level in enumerate(levels):
        middle = top + BAND * index + BAND * 0.6
        items.append(svg.text(0, middle + 4, f"level {level}", class_="label"))
        items.append(svg.line(left, middle, WIDTH - right, middle, "rail"))
        members = sorted((d for d in dots if d.level == level), key=lambda d: (d.value, d.label))
        for order, dot in enumerate(members):
            items += _dot(dot, axis, middle + ((order * 7) % 5 - 2) * 3.4)
        for dot in (d for d in members if d.fastest):
            x = axis(dot.value)
            items.append(svg.line(x, middle - 20, x, middle + 9, "median"))
            before = x > WIDTH * 0.62
            items.append(
                svg.text(
                    x - 5 if before else x + 5, middle - 23, f"{dot.label}: {significant(dot.value)} ms",
                    class_="label small", text_anchor="end" if before else "start",
                )
            )  # fmt: skip
    description = (
        f"{counted(len(dots), 'suite')} by NIST level; a line through a dot is its interval. The table holds "
        "the same."
    )
    return svg.document(figure_id, WIDTH, bottom + 40, title, description, items)


def _dot(dot: LevelDot, axis: LogAxis, y: float) -> list[str]:
    shade = family_class(dot.family)
    drawn = []
    if dot.interval is not None:
        low, high = dot.interval
        drawn.append(svg.line(axis(low), y, axis(high), y, f"whisker {shade}"))
    tip = svg.hover(f"{dot.label}: {significant(dot.value)} ms")
    drawn.append(svg.element("circle", tip, cx=axis(dot.value), cy=y, r=4.2, class_=f"dot {shade}"))
    return drawn
