"""Stacked bars: what a whole is made of, as shares of it, so that short wholes are read like long ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.figures import vertical_grid
from pqevidence.report.layouts import LABEL, Layout, both
from pqevidence.report.svg import LinearAxis, counted, significant

_RIGHT, _TOP, _ROW, _HEAD = 84.0, 26.0, 14.0, 26.0


@dataclass(frozen=True)
class Stack:
    """One bar. parts: in the order of the series, in the unit of the drawing; None prints `missing` in its
    place. total: printed behind the bar."""

    name: str
    parts: tuple[float, ...] | None
    total: float | None = None
    missing: str = ""


@dataclass(frozen=True)
class Stacked:
    """The bars that belong to one label; `group` stands as a heading over the first of its kind."""

    label: str
    bars: tuple[Stack, ...]
    href: str | None = None
    group: str = ""


@both
def stacks(
    layout: Layout,
    figure_id: str,
    title: str,
    rows: Sequence[Stacked],
    series: Sequence[tuple[str, str]],
    unit: str,
    total: str,
) -> str:
    """series: (CSS class, name) of the parts from left to right; total: what stands behind the bars."""
    left, gap = layout.pick((400.0, 5.0), (46.0, 7.0 + LABEL))
    heads = len({row.group for row in rows if row.group})
    height = heads * _HEAD + sum(_ROW * len(row.bars) + gap for row in rows)
    axis = LinearAxis(0.0, 100.0, left, layout.width - layout.pick(_RIGHT, 70.0))
    items = vertical_grid(axis, _TOP, _TOP + height, f"% of the sum of its {len(series)} parts")
    items.append(svg.text(layout.width, _TOP - 6, f"{total}, {unit}", class_="tick", text_anchor="end"))
    y, group = _TOP, ""
    for row in rows:
        if row.group and row.group != group:
            group = row.group
            items.append(svg.text(0, y + 17, group, class_="group"))
            y += _HEAD
        items.append(_stacked(layout, row, axis, y, series, unit))
        y += _ROW * len(row.bars) + gap
    names = ", ".join(name for _, name in series)
    description = (
        f"{counted(sum(len(row.bars) for row in rows), 'bar')}, each from left to right: {names}, as shares "
        "of their sum. The table below holds the numbers."
    )
    return svg.document(figure_id, layout.width, _TOP + height + 40, title, description, items)


def _stacked(
    layout: Layout, row: Stacked, axis: LinearAxis, y: float, series: Sequence[tuple[str, str]], unit: str
) -> str:
    if layout.narrow:
        items = [svg.text(0, y + 12, row.label, class_="suite")]
        y += LABEL
    else:
        items = [svg.text(axis.start - 56, y + 11, row.label, class_="suite", text_anchor="end")]
    for index, stack in enumerate(row.bars):
        items += _stack(layout, stack, row.label, axis, y + _ROW * index, series, unit)
    return svg.element("a", "".join(items), href=row.href) if row.href else svg.group(items)


def _stack(
    layout: Layout,
    stack: Stack,
    owner: str,
    axis: LinearAxis,
    y: float,
    series: Sequence[tuple[str, str]],
    unit: str,
) -> list[str]:
    items = [svg.text(axis.start - 8, y + 11, stack.name, class_="tick", text_anchor="end")]
    whole = sum(stack.parts) if stack.parts is not None else 0.0
    if stack.parts is None or whole <= 0:
        return [*items, svg.text(axis.start + 4, y + 11, stack.missing, class_="none")]
    reached = 0.0
    for value, (shade, name) in zip(stack.parts, series, strict=True):
        start, reached = axis(100 * reached / whole), reached + value
        if value <= 0:
            continue
        share = significant(100 * value / whole, 2)
        tip = svg.hover(f"{owner}, {stack.name}: {name} {significant(value)} {unit}, {share} %")
        width = max(axis(100 * reached / whole) - start - 0.8, 0.8)  # a gap keeps neighbours apart
        items.append(
            svg.element("rect", tip, x=start, y=y + 2, width=width, height=_ROW - 4, class_=f"bar {shade}")
        )
    if stack.total is not None:
        told = significant(stack.total)
        items.append(svg.text(layout.width, y + 11, told, class_="value", text_anchor="end"))
    return items
