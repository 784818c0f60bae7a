"""Box plots from five numbers and a P95: whisker from least to greatest, box between the quartiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pqbase.stats import TOO_FEW
from pqevidence.report import svg
from pqevidence.report.figures import family_class, vertical_grid
from pqevidence.report.layouts import LABEL, Layout, both
from pqevidence.report.svg import LogAxis, counted, significant


@dataclass(frozen=True)
class Box:
    """One distribution; all numbers in the unit of the axis, greater than 0."""

    label: str
    family: str | None
    n: int
    low: float
    q1: float
    median: float
    q3: float
    p95: float | None
    high: float


@both
def boxes(
    layout: Layout,
    figure_id: str,
    title: str,
    axis_title: str,
    rows: Sequence[Box],
    unit: str = "ms",
    left: float = 300.0,
) -> str:
    """One row a distribution on a log axis, n beside the label, the median as a bold tick and as a number."""
    right, row = layout.pick((66.0, 22.0), (84.0, 22.0 + LABEL))
    top = 24.0
    bottom = top + row * len(rows)
    axis = LogAxis.over(
        [v for one in rows for v in (one.low, one.high)], layout.pick(left, 16.0), layout.width - right
    )
    items = vertical_grid(axis, top, bottom, axis_title)
    for index, one in enumerate(rows):
        middle = top + row * (index + 1) - 11.0
        shade = family_class(one.family)
        items.append(svg.text(0, layout.pick(middle + 4, middle - 14), one.label, class_="label small"))
        if not layout.narrow:
            items.append(svg.text(left - 8, middle + 4, f"n = {one.n}", class_="tick", text_anchor="end"))
        items.append(svg.line(axis(one.low), middle, axis(one.high), middle, f"whisker {shade}"))
        tip = svg.hover(
            f"{one.label}: median {significant(one.median)} {unit}, quartiles {significant(one.q1)} and "
            f"{significant(one.q3)}, P95 {TOO_FEW if one.p95 is None else significant(one.p95)}, "
            f"{significant(one.low)} to {significant(one.high)}"
        )
        width = max(axis(one.q3) - axis(one.q1), 1.5)
        items.append(
            svg.element(
                "rect", tip, x=axis(one.q1), y=middle - 6, width=width, height=12, rx=2, class_=f"box {shade}"
            )
        )
        items.append(svg.line(axis(one.median), middle - 8, axis(one.median), middle + 8, "median"))
        if one.p95 is not None:
            items.append(svg.line(axis(one.p95), middle - 4, axis(one.p95), middle + 4, f"whisker {shade}"))
        told = significant(one.median) + layout.pick("", f" ({one.n})")
        items.append(svg.text(layout.width, middle + 4, told, class_="value", text_anchor="end"))
    head = layout.pick("median", "median (n)")
    items.append(svg.text(layout.width, top - 6, head, class_="tick", text_anchor="end"))
    description = (
        f"{counted(len(rows), 'distribution')}: whisker from least to greatest, box between the quartiles, "
        "bold tick at the median, short tick at P95. The table holds the same numbers."
    )
    return svg.document(figure_id, layout.width, bottom + 40, title, description, items)
