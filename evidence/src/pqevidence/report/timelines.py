"""One cell over its time: a track for each kind of thing that happened, and strips of what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pqevidence.report import svg
from pqevidence.report.layouts import LABEL, Layout, both
from pqevidence.report.svg import LinearAxis, counted, significant, tick_label

_TOP = 8.0
_TRACK, _STRIP, _GAP = 20.0, 52.0, 16.0


@dataclass(frozen=True)
class Band:
    """Something that lasted from `start_s` to `end_s`; `words` say what, in its hover."""

    kind: str
    start_s: float
    end_s: float
    words: str


@dataclass(frozen=True)
class Line:
    """One series of a strip: points (s, value), None where nothing was measured; marked: times to stress."""

    label: str
    shade: str
    points: tuple[tuple[float, float | None], ...]
    marked: tuple[float, ...] = ()


@dataclass(frozen=True)
class Strip:
    """Series on one axis from zero; top: a fixed end of that axis; missing: why there is no value at all."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    missing: str
    top: float | None = None

    @property
    def values(self) -> list[float]:
        """All that were measured."""
        return [value for line in self.lines for _, value in line.points if value is not None]


@both
def timeline(
    layout: Layout,
    figure_id: str,
    title: str,
    length_s: float,
    kinds: dict[str, str],
    bands: Sequence[Band],
    strips: Sequence[Strip],
) -> str:
    """kinds: kind of band → CSS class, in the order of the tracks. length_s: end of the time axis."""
    left, right = layout.pick((176.0, 96.0), (44.0, 12.0))
    axis = LinearAxis(0.0, length_s, left, layout.width - right)
    track = layout.pick(_TRACK, _TRACK + LABEL)
    heads = [_head_height(layout, strip) for strip in strips]
    used = [kind for kind in kinds if any(band.kind == kind for band in bands)]
    top = _TOP + track * len(used) + (6.0 if used else 0.0)
    bottom = top + sum(heads) + (_STRIP + _GAP) * len(strips) - _GAP
    items: list[str] = []
    for seconds, _ in axis.ticks():
        x = axis(seconds)
        items.append(svg.line(x, top, x, bottom, "grid minor"))
        told = tick_label(round(seconds, 6))
        items.append(svg.text(x, bottom + 16, told, class_="tick", text_anchor="middle"))
    for place, kind in enumerate(used):
        items += _track(
            layout,
            kind,
            kinds[kind],
            [band for band in bands if band.kind == kind],
            axis,
            _TOP + track * place,
            (top, bottom),
        )
    y = top
    for head, strip in zip(heads, strips, strict=True):
        items += _strip(layout, strip, axis, y + head)
        y += head + _STRIP + _GAP
    items.append(
        svg.text(axis.end, bottom + 33, "seconds since the traffic began", class_="axis", text_anchor="end")
    )
    told = ", ".join(f"{counted(sum(b.kind == kind for b in bands), kind)}" for kind in used) or "no event"
    description = f"{', '.join(strip.title for strip in strips)} over {significant(length_s)} s; {told}."
    return svg.document(figure_id, layout.width, bottom + 40, title, description, items)


def _head_height(layout: Layout, strip: Strip) -> float:
    """Pixels that title and names of a strip take above it; on a wide window they stand beside it."""
    return layout.pick(0.0, LABEL * (2 if len(strip.lines) > 1 and strip.values else 1) + 4)


def _track(
    layout: Layout,
    kind: str,
    shade: str,
    bands: Sequence[Band],
    axis: LinearAxis,
    y: float,
    reach: tuple[float, float],
) -> Iterator[str]:
    if layout.narrow:
        yield svg.text(0, y + 12, kind, class_="label small")
        y += LABEL
    else:
        yield svg.text(axis.start - 10, y + 14, kind, class_="label small", text_anchor="end")
    yield svg.line(axis.start, y + 10, axis.end, y + 10, "rail")
    for band in bands:
        x = axis(band.start_s)
        width = max(axis(band.end_s) - x, 1.5)
        tip = svg.hover(f"{kind}: {band.words}, {significant(band.start_s)} to {significant(band.end_s)} s")
        yield svg.element(
            "rect", x=x, y=reach[0], width=width, height=reach[1] - reach[0], class_=f"band {shade}"
        )
        yield svg.element("rect", tip, x=x, y=y + 4, width=width, height=12, class_=f"bar {shade}")


def _strip(layout: Layout, strip: Strip, axis: LinearAxis, y: float) -> Iterator[str]:
    bottom = y + _STRIP
    if layout.narrow:
        head = y - _head_height(layout, strip) + 12
        yield svg.text(0, head, f"{strip.title}, {strip.unit}" if strip.unit else strip.title, class_="label")
    else:
        yield svg.text(0, y + 16, strip.title, class_="label")
        yield svg.text(0, y + 32, strip.unit, class_="tick")
    yield svg.line(axis.start, bottom, axis.end, bottom, "grid")
    if not strip.values:
        yield svg.text(axis.start + 6, y + 30, strip.missing, class_="none")
        return
    scale = LinearAxis.from_zero(strip.values, bottom, y)
    if strip.top is not None:
        scale = LinearAxis(0.0, strip.top, bottom, y)
    yield svg.line(axis.start, y, axis.end, y, "grid minor")
    yield svg.text(axis.start - 10, y + 6, tick_label(round(scale.high, 6)), class_="tick", text_anchor="end")
    yield svg.text(axis.start - 10, bottom + 2, "0", class_="tick", text_anchor="end")
    x = 0.0
    for place, line in enumerate(strip.lines):
        yield from _line(line, axis, scale)
        if len(strip.lines) > 1:
            at, start = layout.pick((y + 10 + 16 * place, axis.end + 8), (y - 9, x))
            yield svg.line(start, at, start + 14, at, f"curve {line.shade}")
            yield svg.text(start + 19, at + 4, line.label, class_="label small")
            x += 34 + 6.6 * len(line.label)


def _line(line: Line, axis: LinearAxis, scale: LinearAxis) -> Iterator[str]:
    """A stroke for each run of measured values, a dot for one that stands alone."""
    run: list[tuple[float, float]] = []
    for seconds, value in (*line.points, (0.0, None)):
        if value is not None:
            run.append((axis(seconds), scale(value)))
            continue
        if len(run) == 1:
            yield svg.element("circle", cx=run[0][0], cy=run[0][1], r=2.4, class_=f"point {line.shade}")
        elif run:
            yield svg.polyline(run, f"curve {line.shade}")
        run = []
    for seconds in line.marked:
        value = next(v for s, v in line.points if s == seconds)
        if value is not None:
            x, y = axis(seconds), scale(value)
            yield svg.element("circle", cx=x, cy=y, r=3.4, class_=f"point {line.shade}")
