"""Curves of a share over a time: how much had arrived within each time, on a logarithmic axis of times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pqevidence.report import svg
from pqevidence.report.figures import spread_labels
from pqevidence.report.layouts import Layout, both, legend, legend_height
from pqevidence.report.svg import LogAxis, counted, significant, tick_label


@dataclass(frozen=True)
class ShareCurve:
    """One curve: points (time in the unit of the axis, share in %) that rise; label: stands at its end."""

    label: str
    shade: str
    points: tuple[tuple[float, float], ...]


@both
def shares(
    layout: Layout, figure_id: str, title: str, x_title: str, y_title: str, lines: Sequence[ShareCurve]
) -> str:
    """Steps, because a share of counts grows in steps; the time by which half had arrived is in the hover."""
    left, right, height = layout.pick((60.0, 250.0, 300.0), (50.0, 20.0, 230.0))
    top = layout.pick(18.0, 28.0)
    bottom = top + height
    axis = LogAxis.over([x for line in lines for x, _ in line.points], left, layout.width - right)
    y_axis = svg.LinearAxis(0.0, 100.0, bottom, top)
    items = []
    for value, labelled in axis.ticks():
        x = axis(value)
        items.append(svg.line(x, top, x, bottom, "grid" if labelled else "grid minor"))
        if labelled:
            items.append(svg.text(x, bottom + 17, tick_label(value), class_="tick", text_anchor="middle"))
    for share in (0.0, 25.0, 50.0, 75.0, 100.0):
        y = y_axis(share)
        items.append(svg.line(left, y, axis.end, y, "grid"))
        items.append(svg.text(left - 8, y + 4, tick_label(share) + " %", class_="tick", text_anchor="end"))
    ends = spread_labels([max(y_axis(line.points[-1][1]), top + 6) for line in lines], 15.0, top + 6, bottom)
    for line, label_y in zip(lines, ends, strict=True):
        steps = _steps(line.points)
        half = next((x for x, share in line.points if share >= 50.0), None)
        tip = line.label if half is None else f"{line.label}: half within {significant(half)}"
        drawn = svg.polyline([(axis(x), y_axis(share)) for x, share in steps], f"curve {line.shade}")
        items.append(svg.group([svg.hover(tip), drawn]))
        if layout.narrow:
            continue
        x, y = axis(line.points[-1][0]), y_axis(line.points[-1][1])
        items.append(svg.line(x, y, axis.end, y, f"leader {line.shade}"))
        items.append(svg.line(axis.end, y, axis.end + 10, label_y, f"leader {line.shade}"))
        items.append(svg.text(axis.end + 14, label_y + 4, line.label, class_="label small"))
    items.append(svg.text(axis.end, bottom + 35, x_title, class_="axis", text_anchor="end"))
    items.append(svg.text(layout.pick(left, 0.0), top - layout.pick(6, 14), y_title, class_="axis"))
    end = bottom + 42
    if layout.narrow:
        items += legend(end + 16, [(line.shade, line.label) for line in lines])
        end += 10 + legend_height(len(lines))
    description = f"{counted(len(lines), 'curve')}; {y_title} over {x_title}."
    return svg.document(figure_id, layout.width, end, title, description, items)


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the steps: a count stays what it was until the next time."""
    corners = list(points[:1])
    for (_, before), (x, share) in pairwise(points):
        corners += [(x, before), (x, share)]
    return corners
