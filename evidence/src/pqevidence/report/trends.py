"""A quantity over runs, one row a subject: a small line with a dot a run, the last value and its ratio to the
first.

Each row has an axis of its own about its median, at least ± 10 %, so that noise does not fill it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pqevidence.report import svg
from pqevidence.report.figures import family_class
from pqevidence.report.layouts import LABEL, Layout, both
from pqevidence.report.svg import LinearAxis, significant

_TOP, _ROW = 24.0, 30.0
_LEAST_SPAN = math.log(1.10)


@dataclass(frozen=True)
class Trend:
    """One row; values in the order of the runs, None where a run has none, all others greater than 0."""

    label: str
    family: str | None
    values: tuple[float | None, ...]


@both
def trends(
    layout: Layout, figure_id: str, title: str, runs: Sequence[str], rows: Sequence[Trend], unit: str = "ms"
) -> str:
    """The rows one under another over a common axis of runs; a run without a value breaks the line."""
    left, right = layout.pick((330.0, 170.0), (12.0, 132.0))
    height = layout.pick(_ROW, _ROW + LABEL)
    step = (layout.width - left - right) / max(len(runs) - 1, 1)
    places = [left + step * index for index in range(len(runs))]
    bottom = _TOP + height * len(rows)
    items = [svg.line(x, _TOP, x, bottom, "grid minor") for x in places]
    every = max(1, math.ceil(26.0 / step))
    for index, x in enumerate(places):
        left_over = len(places) - 1 - index
        if left_over == 0 or (index % every == 0 and left_over >= every):
            items.append(svg.text(x, _TOP - 6, str(index + 1), class_="tick", text_anchor="middle"))
    items.append(svg.text(layout.width - 72, _TOP - 6, f"last, {unit}", class_="tick", text_anchor="end"))
    items.append(svg.text(layout.width, _TOP - 6, "to first", class_="tick", text_anchor="end"))
    for place, row in enumerate(rows):
        y = _TOP + height * (place + 1) - _ROW
        items.append(svg.text(0, layout.pick(y + _ROW / 2 + 4, y - 2), row.label, class_="label small"))
        items += _row(layout, row, runs, places, y, unit)
    description = (
        f"{len(rows)} rows over {len(runs)} runs, oldest at the left; each row on an axis of its own about "
        "its median, at least 10 percent each way. The table below holds the same numbers."
    )
    return svg.document(figure_id, layout.width, bottom + 12, title, description, items)


def _row(
    layout: Layout, row: Trend, runs: Sequence[str], places: Sequence[float], y: float, unit: str
) -> list[str]:
    known = [value for value in row.values if value is not None]
    middle = math.log(median(known))
    span = max(_LEAST_SPAN, *(abs(math.log(value) - middle) for value in known))
    axis = LinearAxis(middle - span, middle + span, y + _ROW - 4, y + 4)
    shade = family_class(row.family)
    items = [svg.line(places[0], y + _ROW / 2, places[-1], y + _ROW / 2, "rail")]
    piece: list[tuple[float, float]] = []
    dots = []
    for name, x, value in zip(runs, places, row.values, strict=True):
        if value is None:
            items += _curve(piece, shade)
            piece = []
            continue
        point = (x, axis(math.log(value)))
        piece.append(point)
        tip = svg.hover(f"{row.label}, {name}: {significant(value)} {unit}")
        dots.append(svg.element("circle", tip, cx=point[0], cy=point[1], r=3.5, class_=f"dot {shade}"))
    items += [*_curve(piece, shade), *dots]
    last, first = known[-1], known[0]
    items.append(
        svg.text(layout.width - 72, y + _ROW / 2 + 4, significant(last), class_="value", text_anchor="end")
    )
    items.append(
        svg.text(
            layout.width,
            y + _ROW / 2 + 4,
            f"{significant(last / first)} ×",
            class_="value",
            text_anchor="end",
        )
    )
    return items


def _curve(points: list[tuple[float, float]], shade: str) -> list[str]:
    return [svg.polyline(points, f"curve {shade}")] if len(points) > 1 else []
