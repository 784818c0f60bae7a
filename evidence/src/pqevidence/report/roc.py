"""Curves of what is found against what is named wrongly, in a square that a narrow window holds as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.layouts import Layout, both
from pqevidence.report.svg import counted, tick_label

WIDTH = 330.0
_LEFT, _TOP, _SIDE = 48.0, 24.0, 268.0
_LINE = 17.0


@dataclass(frozen=True)
class RocCurve:
    """One curve: points (wrongly named %, found %) from 0, 0 to 100, 100; label: stands in the legend."""

    label: str
    shade: str
    points: tuple[tuple[float, float], ...]


@both
def roc(
    _layout: Layout, figure_id: str, title: str, x_title: str, y_title: str, curves: Sequence[RocCurve]
) -> str:
    """The dashed line is a guess by chance; the legend stands below it, where no curve of use goes."""
    bottom, right = _TOP + _SIDE, _LEFT + _SIDE
    x_axis, y_axis = svg.LinearAxis(0.0, 100.0, _LEFT, right), svg.LinearAxis(0.0, 100.0, bottom, _TOP)
    items = []
    for share in (0.0, 25.0, 50.0, 75.0, 100.0):
        x, y = x_axis(share), y_axis(share)
        items.append(svg.line(x, _TOP, x, bottom, "grid"))
        items.append(svg.line(_LEFT, y, right, y, "grid"))
        items.append(svg.text(x, bottom + 16, tick_label(share), class_="tick", text_anchor="middle"))
        items.append(svg.text(_LEFT - 7, y + 4, tick_label(share), class_="tick", text_anchor="end"))
    items.append(svg.line(_LEFT, bottom, right, _TOP, "identity"))
    for place, curve in enumerate(curves):
        drawn = svg.polyline([(x_axis(x), y_axis(y)) for x, y in curve.points], f"curve {curve.shade}")
        items.append(svg.group([svg.hover(curve.label), drawn]))
        y = bottom - 12 - _LINE * (len(curves) - 1 - place)
        items.append(svg.line(right - 24, y - 4, right - 8, y - 4, f"curve {curve.shade}"))
        items.append(svg.text(right - 30, y, curve.label, class_="label small", text_anchor="end"))
    items.append(svg.text(right, bottom + 33, x_title, class_="axis", text_anchor="end"))
    items.append(svg.text(0, _TOP - 9, y_title, class_="axis"))
    description = f"{counted(len(curves), 'curve')}: {'; '.join(curve.label for curve in curves)}."
    return svg.document(figure_id, WIDTH, bottom + 40, title, description, items)
