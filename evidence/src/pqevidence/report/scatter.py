"""The scatter plot: one dot a combination, both axes logarithmic, extremes named beside their dots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.figures import family_class
from pqevidence.report.layouts import Layout, both, short_name
from pqevidence.report.svg import LogAxis, counted, significant, tick_label


@dataclass(frozen=True)
class Point:
    """One dot: a label, its family and its place."""

    label: str
    family: str | None
    x: float
    y: float


@both
def scatter(
    layout: Layout,
    figure_id: str,
    title: str,
    x_title: str,
    y_title: str,
    points: Sequence[Point],
    x_unit: str,
    y_unit: str,
) -> str:
    """Dots on two log axes; the lowest, highest, leftmost and rightmost carry their names, on a narrow window
    numbers whose names stand below."""
    left, right, height = layout.pick((72.0, 24.0, 380.0), (60.0, 20.0, 260.0))
    top, width = layout.pick(18.0, 28.0), layout.width
    bottom = top + height
    x_axis = LogAxis.over([p.x for p in points], left, width - right)
    y_axis = LogAxis.over([p.y for p in points], bottom, top)
    items = []
    for value, labelled in x_axis.ticks():
        x = x_axis(value)
        items.append(svg.line(x, top, x, bottom, "grid" if labelled else "grid minor"))
        if labelled:
            items.append(svg.text(x, bottom + 17, tick_label(value), class_="tick", text_anchor="middle"))
    for value, labelled in y_axis.ticks():
        y = y_axis(value)
        items.append(svg.line(left, y, width - right, y, "grid" if labelled else "grid minor"))
        if labelled:
            items.append(svg.text(left - 8, y + 4, tick_label(value), class_="tick", text_anchor="end"))
    named = _extremes(points)
    for point in points:
        tip = f"{point.label}: {significant(point.x, 4)} {x_unit}, {significant(point.y)} {y_unit}"
        place = {"cx": x_axis(point.x), "cy": y_axis(point.y)}
        items.append(
            svg.element("circle", svg.hover(tip), r=5.5, class_=f"dot {family_class(point.family)}", **place)
        )
    for place_number, (point, shift) in enumerate(named.items(), 1):
        x, y = x_axis(point.x), y_axis(point.y)
        before = x > (left + width) / 2
        items.append(
            svg.text(
                x - 10 if before else x + 10,
                y + shift,
                layout.pick(point.label, str(place_number)),
                class_="label small",
                text_anchor="end" if before else "start",
            )
        )
    items.append(svg.text(width - right, bottom + 35, x_title, class_="axis", text_anchor="end"))
    items.append(svg.text(layout.pick(left, 0.0), top - layout.pick(5, 14), y_title, class_="axis"))
    end = bottom + 42
    if layout.narrow:
        for place_number, point in enumerate(named, 1):
            end += 17
            items.append(svg.text(0, end, f"{place_number}  {short_name(point.label)}", class_="label small"))
        end += 8
    description = f"{counted(len(points), 'combination')}; {y_title} over {x_title}."
    return svg.document(figure_id, width, end, title, description, items)


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
