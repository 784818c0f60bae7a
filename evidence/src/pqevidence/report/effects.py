"""Effects of one thing in place of another: a dot with its interval, about a line where nothing changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.layouts import LABEL, Layout, both
from pqevidence.report.svg import LinearAxis, counted, significant

_TOP, _ROW, _HEAD = 26.0, 22.0, 24.0
#: ends of an axis of ratios and of one of differences; what lies beyond the last is drawn at its end
_RATIO_ENDS = (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
_STEPS = (1.0, 2.0, 5.0)
Place = Callable[[float], float]


@dataclass(frozen=True)
class Effect:
    """One row under the heading `group`. claimed: the verdict, where the effect is claimed; it stands in
    words beside the number."""

    group: str
    label: str
    value: float
    interval: tuple[float, float] | None
    claimed: str = ""


#: as many rows fit on a screen
MOST_DRAWN = 24


def chosen(rows: Sequence[Effect]) -> list[Effect]:
    """As many as are drawn, in their order; claimed ones are among them first."""
    first = sorted(rows, key=lambda row: not row.claimed)[:MOST_DRAWN]
    return [row for row in rows if any(row is one for one in first)]


@both
def effects(
    layout: Layout, figure_id: str, title: str, axis_title: str, rows: Sequence[Effect], *, ratios: bool
) -> str:
    """ratios: values are factors, and the axis is logarithmic about 1; else differences about 0."""
    place: Place = _log if ratios else float
    reach = max(abs(place(v)) for row in rows for v in (row.value, *(row.interval or ())))
    end = _end(reach, ratios=ratios)
    groups = list(dict.fromkeys(row.group for row in rows))
    height = layout.pick(_ROW, _ROW + LABEL)
    bottom = _TOP + height * len(rows) + _HEAD * len(groups)
    left, right = layout.pick((300.0, 200.0), (26.0, 26.0))
    axis = LinearAxis(-end, end, left, layout.width - right)
    items = []
    for share in (-1.0, -0.5, 0.0, 0.5, 1.0):
        x = axis(share * end)
        told = math.exp(share * end) if ratios else share * end
        text = f"{significant(told)} ×" if ratios else significant(told)
        items.append(svg.line(x, _TOP, x, bottom, "marker" if share == 0 else "grid"))
        items.append(svg.text(x, bottom + 16, text, class_="tick", text_anchor="middle"))
    items.append(svg.text(axis.end, bottom + 33, axis_title, class_="axis", text_anchor="end"))
    y = _TOP
    for group in groups:
        items.append(svg.text(0, y + 17, group, class_="group"))
        y += _HEAD
        for row in (row for row in rows if row.group == group):
            items += _row(layout, row, axis, y + height - _ROW / 2, place, "×" if ratios else "points")
            y += height
    claims = ", ".join(f"{row.label} {row.claimed}" for row in rows if row.claimed) or "none is claimed"
    description = f"{counted(len(rows), 'effect')}; {claims}. The table holds the same numbers."
    return svg.document(figure_id, layout.width, bottom + 40, title, description, items)


def _row(layout: Layout, row: Effect, axis: LinearAxis, y: float, place: Place, unit: str) -> list[str]:
    shade = "s-2" if row.claimed else "s-1"
    tip = f"{row.label}, {row.group}: {significant(row.value)} {unit}"
    if layout.narrow:
        drawn = [svg.text(0, y - 10, row.label, class_="label small")]
    else:
        drawn = [svg.text(axis.start - 10, y + 4, row.label, class_="label small", text_anchor="end")]
    if row.interval is not None:
        low, high = row.interval
        tip += f", 95 % interval {significant(low)} to {significant(high)}"
        drawn.append(svg.line(axis(place(low)), y, axis(place(high)), y, f"interval {shade}"))
    x = axis(place(row.value))
    drawn.append(svg.element("circle", svg.hover(tip), cx=x, cy=y, r=5, class_=f"point {shade}"))
    told = f"{significant(row.value)} {unit}{', ' if row.claimed else ''}{row.claimed}"
    kind = "label small" if row.claimed else "value"
    if layout.narrow:
        drawn.append(svg.text(layout.width, y - 10, told, class_=kind, text_anchor="end"))
    else:
        drawn.append(svg.text(axis.end + 12, y + 4, told, class_=kind))
    return drawn


def _log(value: float) -> float:
    """A ratio's place; one of nothing left lies beyond every axis."""
    return math.log(value) if value > 0 else -math.inf


def _end(reach: float, *, ratios: bool) -> float:
    if ratios:
        return next((math.log(e) for e in _RATIO_ENDS if math.log(e) >= reach), math.log(_RATIO_ENDS[-1]))
    if reach <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(reach))
    return next((step * power for step in _STEPS if step * power >= reach), 10.0 * power)
