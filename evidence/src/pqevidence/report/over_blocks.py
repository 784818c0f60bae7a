"""Ratios over the blocks of a run, one small panel a condition: what lies above the line at 1 was slower."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.layouts import Layout, both
from pqevidence.report.svg import LinearAxis, counted, significant

_LEFT, _RIGHT, _HEAD, _HEIGHT, _FOOT = 60.0, 24.0, 28.0, 96.0, 26.0
_WIDEST_STEP = 90.0
#: where an axis may end, as a ratio; the last holds whatever is beyond it too
_ENDS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)


@dataclass(frozen=True)
class BlockRatio:
    """One block: its label under the axis, its ratio, the interval of the mean where there is one."""

    label: str
    ratio: float
    low: float | None
    high: float | None
    claimed: str | None = None


@dataclass(frozen=True)
class BlockPanel:
    """The blocks of one condition in the order of time."""

    title: str
    blocks: tuple[BlockRatio, ...]


@both
def over_blocks(layout: Layout, figure_id: str, title: str, panels: Sequence[BlockPanel]) -> str:
    """One axis for all panels, logarithmic about 1. What is claimed says so in words beside its dot."""
    ratios = [block.ratio for panel in panels for block in panel.blocks]
    reach = max(max(ratio, 1 / ratio) for ratio in ratios)
    end = math.log(next((value for value in _ENDS if value >= 1.1 * reach - 0.1), _ENDS[-1]))
    items: list[str] = []
    y = 0.0
    for panel in panels:
        items += _panel(layout, panel, LinearAxis(-end, end, y + _HEAD + _HEIGHT, y + _HEAD))
        y += _HEAD + _HEIGHT + _FOOT
    description = (
        f"{counted(len(ratios), 'block')} in {counted(len(panels), 'condition')}: the dot is the median over "
        "suites of each cell's handshake to its suite's median over all blocks, the line through it the "
        "interval of the mean. The table below holds the same numbers."
    )
    return svg.document(figure_id, layout.width, y, title, description, items)


def _panel(layout: Layout, panel: BlockPanel, axis: LinearAxis) -> list[str]:
    items = [svg.text(0, axis.end - 11, panel.title, class_="group")]
    for value in (axis.low, axis.low / 2, 0.0, axis.high / 2, axis.high):
        y = axis(value)
        items.append(svg.line(_LEFT, y, layout.width - _RIGHT, y, "rail" if value else "grid"))
        if value in (axis.low, 0.0, axis.high):
            words = f"{significant(math.exp(value))} ×"
            items.append(svg.text(_LEFT - 8, y + 4, words, class_="tick", text_anchor="end"))
    step = min((layout.width - _RIGHT - _LEFT) / len(panel.blocks), _WIDEST_STEP)
    every = max(1, math.ceil(26.0 / step))
    for index, block in enumerate(panel.blocks):
        x = _LEFT + step * (index + 0.5)
        items += _dot(block, axis, x, before=x > layout.width * 0.7)
        if index % every == 0:
            items.append(svg.text(x, axis.start + 16, block.label, class_="tick", text_anchor="middle"))
    return items


def _dot(block: BlockRatio, axis: LinearAxis, x: float, *, before: bool) -> list[str]:
    shade = "s-2" if block.claimed else "s-1"
    tip = f"block {block.label}: {significant(block.ratio)} ×"
    items = []
    if block.low is not None and block.high is not None:
        tip += f", interval of the mean {significant(block.low)} to {significant(block.high)}"
        ends = axis(math.log(block.low)), axis(math.log(block.high))
        items.append(svg.line(x, ends[0], x, ends[1], f"range {shade}"))
    y = axis(math.log(block.ratio))
    items.append(svg.element("circle", svg.hover(tip), cx=x, cy=y, r=4.5, class_=f"dot {shade}"))
    if block.claimed:
        at, anchor = (x - 8, "end") if before else (x + 8, "start")
        items.append(svg.text(at, y + 4, block.claimed, class_="value", text_anchor=anchor))
    return items
