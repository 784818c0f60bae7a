"""Small SVG toolkit: escaped elements, linear and logarithmic axes, number formats.

In scope: the primitives the figures need, as strings with fixed number formats (same bytes everywhere).
Not in scope: layout of any one figure (see figures.py) and colour, which CSS classes carry so that the
light and the dark scheme share one drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Attribute = str | int | float


def number(value: float) -> str:
    """A coordinate with at most two decimals and no trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def element(name: str, body: str = "", **attributes: Attribute) -> str:
    """One element; attribute values are escaped, ``_`` in names becomes ``-``; ``body`` is already markup."""
    parts = [name]
    for key, value in attributes.items():
        shown = escape(value) if isinstance(value, str) else number(float(value))
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{shown}"')
    opening = " ".join(parts)
    return f"<{opening}>{body}</{name}>" if body else f"<{opening}/>"


def text(x: float, y: float, content: str, **attributes: Attribute) -> str:
    """A text element; the content is escaped."""
    return element("text", escape(content), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight stroke."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def group(items: Iterable[str], **attributes: Attribute) -> str:
    """A group of elements."""
    return element("g", "".join(items), **attributes)


def hover(content: str) -> str:
    """The tooltip of its parent, which screen readers announce too."""
    return element("title", escape(content))


def polyline(points: Sequence[tuple[float, float]], class_: str) -> str:
    """An open path through the points."""
    joined = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return element("polyline", points=joined, class_=class_, fill="none")


def document(
    figure_id: str, width: float, height: float, title: str, description: str, items: Iterable[str]
) -> str:
    """A whole drawing with title and description for screen readers; scales by its viewBox."""
    head = element("title", escape(title), id=f"{figure_id}-title") + element(
        "desc", escape(description), id=f"{figure_id}-desc"
    )
    return element(
        "svg",
        head + "".join(items),
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_labelledby=f"{figure_id}-title {figure_id}-desc",
        style=f"--w:{number(width)}px",
    )


def significant(value: float, digits: int = 3) -> str:
    """A measured number to ``digits`` significant digits, thousands grouped, never in exponent form."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    rounded = round(value, decimals)
    if rounded and math.floor(math.log10(abs(rounded))) > math.floor(math.log10(abs(value))):
        decimals = max(decimals - 1, 0)
    return f"{value:,.{decimals}f}"


def counted(number: int, word: str) -> str:
    """A count with its noun: ``1 suite``, ``72 suites``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def tick_label(value: float) -> str:
    """An axis number without trailing zeros."""
    return f"{value:,.6f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.0f}"


@dataclass(frozen=True)
class LogAxis:
    """Maps ``low``..``high`` (both positive) onto the pixels ``start``..``end`` logarithmically."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> LogAxis:
        """An axis whose ends are 1, 2 or 5 times a power of ten around the values."""
        positive = [v for v in values if v > 0]
        if not positive:
            return cls(0.1, 1.0, start, end)
        low, high = _round_down(min(positive)), _round_up(max(positive))
        return cls(low, high if high > low * 1.5 else low * 10.0, start, end)

    def __call__(self, value: float) -> float:
        """Pixel of a value, clamped to the axis."""
        clamped = min(max(value, self.low), self.high)
        share = math.log(clamped / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, bool]]:
        """(value, labelled): decades and, over fewer than four of them, the 2 and 5 in between; round steps
        on an axis too short for three of these."""
        decades = math.log10(self.high / self.low)
        steps = (1, 2, 5) if decades <= 2.5 else (1,)
        first, last = math.floor(math.log10(self.low)) - 1, math.ceil(math.log10(self.high)) + 1
        ticks: list[tuple[float, bool]] = []
        for exponent in range(first, last + 1):
            for step in range(1, 10):
                value = step * 10.0**exponent
                if self.low * 0.999 <= value <= self.high * 1.001:
                    ticks.append((value, step in steps))
        if sum(labelled for _, labelled in ticks) < 3:  # from 1 to 2 there is nothing between
            return LinearAxis(self.low, self.high, self.start, self.end).ticks()
        return ticks


@dataclass(frozen=True)
class LinearAxis:
    """Maps ``low``..``high`` onto the pixels ``start``..``end``."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def from_zero(cls, values: Sequence[float], start: float, end: float) -> LinearAxis:
        """An axis from zero to a round number above the largest value."""
        top = max(values, default=0.0)
        top = top if top > 1e-9 else 1.0
        return cls(0.0, _nice_step(top / 5.0) * math.ceil(top / _nice_step(top / 5.0) - 1e-9), start, end)

    def __call__(self, value: float) -> float:
        """Pixel of a value, clamped to the axis."""
        clamped = min(max(value, self.low), self.high)
        return self.start + (clamped - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, bool]]:
        """(value, True) at round steps."""
        step = _nice_step((self.high - self.low) / 5.0)
        count = math.floor((self.high - self.low) / step + 1e-9)
        return [(self.low + i * step, True) for i in range(count + 1)]


def _nice_step(raw: float) -> float:
    if raw <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    for step in (1.0, 2.0, 2.5, 5.0, 10.0):
        if raw <= step * power * (1 + 1e-9):
            return step * power
    return 10.0 * power


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max(step * power for step in (0.5, 1.0, 2.0, 5.0) if step * power <= value * (1 + 1e-9))


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return min(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= value * (1 - 1e-9))
