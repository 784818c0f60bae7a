"""Panels of horizontal bars, each on an axis of its own from zero: a quantity a panel, a condition a bar."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.figures import family_class
from pqevidence.report.layouts import LABEL, Layout, both
from pqevidence.report.svg import LinearAxis, counted, significant

_ROW, _HEAD, _GAP = 22.0, 30.0, 16.0
#: of a heading that a narrow window holds in one line
_MOST_LETTERS = 40


@dataclass(frozen=True)
class PanelBar:
    """One bar; `value` None prints `missing` in its place. low, high: an interval drawn over it."""

    label: str
    value: float | None
    missing: str = "not measured"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Panel:
    """One quantity: its name with unit, and its bars; `family` colours them."""

    title: str
    unit: str
    bars: tuple[PanelBar, ...]
    family: str | None = None


@both
def panels(layout: Layout, figure_id: str, title: str, parts: Sequence[Panel]) -> str:
    """The panels one under another. Negative values reach to the left of nothing: they are drawn as zero and
    told in words."""
    items: list[str] = []
    left, right = layout.pick((236.0, 120.0), (0.0, 62.0))
    y = 4.0
    for part in parts:
        words = f"{part.title}, {part.unit}"
        for text in textwrap.wrap(words, _MOST_LETTERS) if layout.narrow else [words]:
            items.append(svg.text(0, y + 17, text, class_="group"))
            y += LABEL
        y += _HEAD - LABEL
        values = [v for bar in part.bars for v in (bar.value, bar.high) if v is not None]
        axis = LinearAxis.from_zero(values, left, layout.width - right)
        for bar in part.bars:
            if layout.narrow:
                items.append(svg.text(0, y + 12, bar.label, class_="label"))
                y += LABEL
            else:
                items.append(
                    svg.text(left - 8, y + _ROW / 2 + 4, bar.label, class_="label", text_anchor="end")
                )
            items += _bar(bar, axis, y, part)
            y += _ROW
        y += _GAP
    description = (
        f"{counted(len(parts), 'panel')}, one bar a condition. The table beside it holds the same numbers."
    )
    return svg.document(figure_id, layout.width, y, title, description, items)


def _bar(bar: PanelBar, axis: LinearAxis, y: float, part: Panel) -> list[str]:
    middle = y + _ROW / 2
    if bar.value is None:
        return [svg.text(axis.start + 4, middle + 4, bar.missing, class_="none")]
    end = axis(max(bar.value, 0.0))
    items = [
        svg.element(
            "rect",
            svg.hover(f"{bar.label}: {significant(bar.value)} {part.unit}"),
            x=axis.start,
            y=y + 3,
            width=max(end - axis.start, 1.0),
            height=_ROW - 6,
            rx=1.5,
            class_=f"bar {family_class(part.family)}",
        )
    ]
    if bar.low is not None and bar.high is not None:
        items.append(svg.line(axis(max(bar.low, 0.0)), middle, axis(max(bar.high, 0.0)), middle, "marker"))
        end = max(end, axis(max(bar.high, 0.0)))
    items.append(svg.text(end + 6, middle + 4, significant(bar.value), class_="value"))
    return items
