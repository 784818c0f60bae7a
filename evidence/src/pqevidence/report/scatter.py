"""The scatter plot: one dot a combination, both axes logarithmic, extremes named beside their dots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.figures import WIDTH, family_class
from pqevidence.report.svg import LogAxis, counted, significant, tick_label


@dataclass(frozen=True)
class Point:
    """One dot: a label, its family and its place."""

    label: str
    family: str | None
    x: float
    y: float


def scatter(
    figure_id: str, title: str, x_title: str, y_title: str, points: Sequence[Point], x_unit: str, y_unit: str
) -> str:
    """Dots on two log axes; the lowest, highest, leftmost and rightmost carry their names."""
    left, right, top, height = 72.0, 24.0, 18.0, 380.0
    bottom = top + height
    x_axis = LogAxis.over([p.x for p in points], left, WIDTH - right)
    y_axis = LogAxis.over([p.y for p in points], bottom, top)
    items = []
    for value, labelled in x_axis.ticks():
        x = x_axis(value)
        items.append(svg.line(x, top, x, bottom, "grid" if labelled else "grid minor"))
        if labelled:
            items.append(svg.text(x, bottom + 17, tick_label(value), class_="tick", text_anchor="middle"))
    for value, labelled in y_axis.ticks():
        y = y_axis(value)
        items.append(svg.line(left, y, WIDTH - right, y, "grid" if labelled else "grid minor"))
        if labelled:
            items.append(svg.text(left - 8, y + 4, tick_label(value), class_="tick", text_anchor="end"))
    named = _extremes(points)
    for point in points:
        tip = f"{point.label}: {significant(point.x, 4)} {x_unit}, {significant(point.y)} {y_unit}"
        place = {"cx": x_axis(point.x), "cy": y_axis(point.y)}
        items.append(
            svg.element("circle", svg.hover(tip), r=5.5, class_=f"dot {family_class(point.family)}", **place)
        )
    for point, shift in named.items():
        x, y = x_axis(point.x), y_axis(point.y)
        before = x > (left + WIDTH) / 2
        items.append(
            svg.text(
                x - 10 if before else x + 10,
                y + shift,
                point.label,
                class_="label small",
                text_anchor="end" if before else "start",
            )
        )
    items.append(svg.text(WIDTH - right, bottom + 35, x_title, class_="axis", text_anchor="end"))
    items.append(svg.text(left, top - 5, y_title, class_="axis"))
    description = f"{counted(len(points), 'combination')}; {y_title} over {x_title}."
    return svg.document(figure_id, WIDTH, bottom + 42, title, description, items)


def _extremes(points: Sequence[Point]) -> dict[Point, float]:
    """The points that bound the cloud, each with the vertical step of its label (pixels).

    The lowest is named below its dot and the leftmost above, so that the two cannot meet.
    """
    if not points:
        return {}
    return {
        max(points, key=lambda p: (p.x, p.y)): 4.0,
        max(points, key=lambda p: (p.y, p.x)): 4.0,
        min(points, key=lambda p: (p.x, p.y)): -10.0,
        min(points, key=lambda p: (p.y, p.x)): 19.0,
    }
