"""The report's drawings. Each takes plain rows and returns SVG markup; colour and type come from CSS.

Classes ``f-…`` colour by KEM family in both schemes, and every series is labelled in words beside it, so that
no figure depends on colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pqevidence.report import svg
from pqevidence.report.layouts import LABEL, WIDE, Layout, both, legend, legend_height, short_name
from pqevidence.report.svg import LinearAxis, LogAxis, counted, significant, tick_label

FAMILY_CLASS = {
    "ML-KEM": "f-mlkem",
    "HQC": "f-hqc",
    "Classic-McEliece": "f-mceliece",
    "ML-DSA": "f-mldsa",
    "Falcon": "f-falcon",
    "SPHINCS+": "f-sphincs",
}
WIDTH = WIDE.width
FAMILY_LEGEND = tuple((FAMILY_CLASS[name], name) for name in ("ML-KEM", "HQC", "Classic-McEliece"))


def family_class(family: str | None) -> str:
    """CSS class of a family; an unregistered one is neutral."""
    return FAMILY_CLASS.get(family or "", "f-other")


@dataclass(frozen=True)
class SuiteDot:
    """One row of the handshake chart: wall as a dot, crypto sum as a tick on the same line."""

    label: str
    family: str | None
    value: float | None
    marker: float | None
    href: str
    group: str
    missing: str = ""


def vertical_grid(axis: LogAxis | LinearAxis, top: float, bottom: float, unit: str) -> list[str]:
    """Grid lines with their values above and below, and the axis' title under them."""
    items = []
    last_end = -1e9
    for value, labelled in axis.ticks():
        x = axis(value)
        items.append(svg.line(x, top, x, bottom, "grid" if labelled else "grid minor"))
        if labelled and x - last_end > 34:
            items.append(svg.text(x, bottom + 16, tick_label(value), class_="tick", text_anchor="middle"))
            items.append(svg.text(x, top - 6, tick_label(value), class_="tick", text_anchor="middle"))
            last_end = x
    items.append(svg.text(axis.end, bottom + 33, unit, class_="axis", text_anchor="end"))
    return items


@both
def handshake_dots(layout: Layout, figure_id: str, title: str, dots: Sequence[SuiteDot]) -> str:
    """A dot a suite on a log axis, grouped; the tick on its line is the crypto sum of the same cells. A bar
    would have a length, and a logarithmic axis has no zero that it could begin at."""
    left, row = layout.pick((352.0, 15.0), (16.0, 15.0 + LABEL))
    right, top, gap = 58.0, 26.0, 26.0
    groups: dict[str, list[SuiteDot]] = {}
    for dot in dots:
        groups.setdefault(dot.group, []).append(dot)
    height_rows = sum(len(members) * row + gap for members in groups.values())
    bottom = top + height_rows
    values = [v for d in dots for v in (d.value, d.marker) if v is not None]
    axis = LogAxis.over(values, left, layout.width - right)
    items = vertical_grid(axis, top, bottom, "handshake wall at the drone, ms (log scale)")
    y = top
    for name, members in groups.items():
        items.append(svg.text(0, y + 17, name, class_="group"))
        y += gap
        for dot in members:
            items.append(_suite_dot(layout, dot, axis, y, row))
            y += row
    description = (
        f"{counted(len(dots), 'suite')}; the dot is the median wall at the drone, the tick beside it the "
        "median sum of the five primitives. The table below holds the same numbers."
    )
    return svg.document(figure_id, layout.width, bottom + 40, title, description, items)


def _suite_dot(layout: Layout, dot: SuiteDot, axis: LogAxis, y: float, row: float) -> str:
    if layout.narrow:
        parts = [svg.text(0, y + 12, dot.label, class_="suite")]
        y, row = y + LABEL, row - LABEL
    else:
        parts = [svg.text(axis.start - 8, y + row / 2 + 4, dot.label, class_="suite", text_anchor="end")]
    middle = y + row / 2
    if dot.value is None:
        parts.append(svg.text(axis.start + 4, middle + 4, dot.missing, class_="none"))
        return svg.element("a", "".join(parts), href=dot.href)
    x = axis(dot.value)
    tip = f"{dot.label}: {significant(dot.value)} ms"
    parts.append(svg.line(axis.start, middle, axis.end, middle, "rail"))
    if dot.marker is not None:
        tip += f", of which primitives {significant(dot.marker)} ms"
        tick = axis(dot.marker)
        shade = family_class(dot.family)
        parts.append(svg.line(min(tick, x), middle, max(tick, x), middle, f"whisker {shade}"))
        parts.append(svg.line(tick, y + 2, tick, y + row - 2, "marker"))
    parts.append(
        svg.element(
            "circle", svg.hover(tip), cx=x, cy=middle, r=4.6, class_=f"point {family_class(dot.family)}"
        )
    )
    parts.append(svg.text(x + 9, middle + 4, significant(dot.value), class_="value"))
    return svg.element("a", "".join(parts), href=dot.href)


@dataclass(frozen=True)
class Strip:
    """One row of a strip plot: run-level values of a group and their median."""

    label: str
    family: str | None
    values: tuple[float, ...]
    median: float | None


@both
def strips(
    layout: Layout,
    figure_id: str,
    title: str,
    axis_title: str,
    rows: Sequence[Strip],
    unit: str = "ms",
    left: float = 168.0,
) -> str:
    """Every run-level value as a dot on a log axis, the median as a bold tick; n beside the label.

    ``left`` is the width that labels and n take on a wide window, in pixels.
    """
    right, row = layout.pick((66.0, 30.0), (84.0, 30.0 + LABEL))
    top = 24.0
    bottom = top + row * len(rows)
    axis = LogAxis.over([v for r in rows for v in r.values], layout.pick(left, 16.0), layout.width - right)
    items = vertical_grid(axis, top, bottom, axis_title)
    for index, strip in enumerate(rows):
        middle = top + row * (index + 1) - 15.0
        items.append(svg.text(0, layout.pick(middle + 4, middle - 15), strip.label, class_="label"))
        count = len(strip.values)
        if not layout.narrow:
            items.append(svg.text(left - 10, middle + 4, f"n = {count}", class_="tick", text_anchor="end"))
        for order, value in enumerate(strip.values):
            jitter = (
                (order * 7) % 5 - 2
            ) * 2.2  # fixed pattern: overlapping dots stay apart, bytes stay equal
            items.append(
                svg.element(
                    "circle",
                    svg.hover(f"{strip.label}: {significant(value)} {unit}"),
                    cx=axis(value),
                    cy=middle + jitter,
                    r=3.6,
                    class_=f"dot {family_class(strip.family)}",
                )
            )
        if strip.median is not None:
            x = axis(strip.median)
            items.append(svg.line(x, middle - 12, x, middle + 12, "median"))
            told = significant(strip.median) + layout.pick("", f" ({count})")
            items.append(svg.text(layout.width, middle + 4, told, class_="value", text_anchor="end"))
    head = layout.pick("median", "median (n)")
    items.append(svg.text(layout.width, top - 6, head, class_="tick", text_anchor="end"))
    groups = counted(len(rows), "group")
    description = f"Run-level values of {groups} on a logarithmic axis with their medians."
    return svg.document(figure_id, layout.width, bottom + 40, title, description, items)


@dataclass(frozen=True)
class Curve:
    """One line of an x-y chart, labelled at its right end; ``shade`` overrides the family's colour."""

    label: str
    family: str | None
    points: tuple[tuple[float, float], ...]
    shade: str | None = None


@both
def curves(
    layout: Layout,
    figure_id: str,
    title: str,
    x_title: str,
    y_title: str,
    lines: Sequence[Curve],
    *,
    logarithmic: bool,
    identity: bool = True,
) -> str:
    """Lines with labels at their ends, on a narrow window in a legend below; both axes logarithmic,
    or both linear from zero.

    ``identity`` draws y = x where the axes are linear.
    """
    left, right, height = layout.pick((72.0, 236.0, 340.0), (60.0, 20.0, 240.0))
    top = layout.pick(18.0, 28.0)
    xs = [x for c in lines for x, _ in c.points]
    ys = [y for c in lines for _, y in c.points]
    bottom = top + height
    x_axis: LogAxis | LinearAxis
    y_axis: LogAxis | LinearAxis
    if logarithmic:
        x_axis = LogAxis(min(xs), max(xs), left, layout.width - right)
        y_axis = LogAxis.over(ys, bottom, top)
    else:
        x_axis = LinearAxis.from_zero(xs, left, layout.width - right)
        y_axis = LinearAxis.from_zero(ys, bottom, top)
    items = []
    shown = sorted(set(xs)) if logarithmic else [v for v, _ in x_axis.ticks()]
    free = -1e9
    for x_value in shown:
        x = x_axis(x_value)
        items.append(svg.line(x, top, x, bottom, "grid"))
        half = len(tick_label(x_value)) * 3.4
        if x - half > free:  # on a narrow window not every value has room
            items.append(svg.text(x, bottom + 17, tick_label(x_value), class_="tick", text_anchor="middle"))
            free = x + half + 4
    for y_value, labelled in y_axis.ticks():
        y = y_axis(y_value)
        items.append(svg.line(left, y, x_axis.end, y, "grid" if labelled else "grid minor"))
        if labelled:
            items.append(svg.text(left - 8, y + 4, tick_label(y_value), class_="tick", text_anchor="end"))
    if not logarithmic and identity:
        top_value = min(x_axis.high, y_axis.high)
        items.append(svg.line(x_axis(0.0), y_axis(0.0), x_axis(top_value), y_axis(top_value), "identity"))
    ends = spread_labels([y_axis(c.points[-1][1]) for c in lines], 15.0, top, bottom)
    for curve, label_y in zip(lines, ends, strict=True):
        points = [(x_axis(x), y_axis(y)) for x, y in curve.points]
        shade = curve.shade or family_class(curve.family)
        items.append(svg.polyline(points, f"curve {shade}"))
        for (px, py), (x, y) in zip(points, curve.points, strict=True):
            tip = svg.hover(f"{curve.label}: {tick_label(x)} → {significant(y)}")
            items.append(svg.element("circle", tip, cx=px, cy=py, r=3.4, class_=f"dot {shade}"))
        last = points[-1]
        if not layout.narrow:
            items.append(svg.line(last[0] + 4, last[1], last[0] + 14, label_y, f"leader {shade}"))
            items.append(svg.text(last[0] + 18, label_y + 4, curve.label, class_="label small"))
    items.append(svg.text(x_axis.end, bottom + 35, x_title, class_="axis", text_anchor="end"))
    items.append(svg.text(layout.pick(left, 0.0), top - layout.pick(5, 14), y_title, class_="axis"))
    end = bottom + 42
    if layout.narrow:
        items += legend(end + 16, [(c.shade or family_class(c.family), c.label) for c in lines])
        end += 10 + legend_height(len(lines))
    told = f"{counted(len(lines), 'line')}; {y_title} over {x_title}"
    description = f"{told}. The table beside it holds the same numbers."
    return svg.document(figure_id, layout.width, end, title, description, items)


def spread_labels(wanted: Sequence[float], distance: float, top: float, bottom: float) -> list[float]:
    """Label positions near the wanted ones, at least ``distance`` apart, inside the frame."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    for previous, current in pairwise(order):
        placed[current] = max(placed[current], placed[previous] + distance)
    if order and placed[order[-1]] > bottom:
        placed[order[-1]] = bottom
        for current, previous in pairwise(reversed(order)):
            placed[previous] = min(placed[previous], placed[current] - distance)
    return [max(p, top) for p in placed]


@dataclass(frozen=True)
class Dot:
    """One operation of one algorithm: median with quartiles."""

    label: str
    series: str
    value: float
    low: float
    high: float


#: mark of each operation; shape and letter, not colour alone
SERIES_CLASS = {
    "keygen": "s-1",
    "encaps": "s-2",
    "decaps": "s-3",
    "sign": "s-4",
    "verify": "s-5",
    "public key": "s-1",
    "ciphertext": "s-2",
    "signature": "s-4",
}


@both
def dot_rows(
    layout: Layout, figure_id: str, title: str, axis_title: str, dots: Sequence[Dot], unit: str = "ms"
) -> str:
    """One row a label, one dot a series with its first letter inside, on a log axis."""
    left, right, row = layout.pick((236.0, 20.0, 27.0), (18.0, 22.0, 27.0 + LABEL))
    top = 24.0
    labels = list(dict.fromkeys(d.label for d in dots))
    bottom = top + row * len(labels)
    axis = LogAxis.over([v for d in dots for v in (d.low, d.high) if v > 0], left, layout.width - right)
    items = vertical_grid(axis, top, bottom, axis_title)
    for index, name in enumerate(labels):
        middle = top + row * (index + 1) - 13.5
        items.append(svg.text(0, layout.pick(middle + 4, middle - 16), name, class_="label"))
        items.append(svg.line(left, middle, axis.end, middle, "rail"))
        members = sorted((d for d in dots if d.label == name), key=lambda d: d.value)
        for dot, lift in zip(members, _lifts([axis(d.value) for d in members]), strict=True):
            shade = SERIES_CLASS.get(dot.series, "s-1")
            x = axis(dot.value)
            items.append(svg.line(axis(dot.low), middle, axis(dot.high), middle, f"range {shade}"))
            tip = svg.hover(f"{name} {dot.series}: {significant(dot.value)} {unit}")
            items.append(svg.element("circle", tip, cx=x, cy=middle + lift, r=8, class_=f"op {shade}"))
            items.append(
                svg.text(x, middle + lift + 3.6, dot.series[0].upper(), class_="letter", text_anchor="middle")
            )
    names = counted(len(labels), "algorithm")
    description = f"{axis_title}, for {names}; a line through a dot spans its quartiles."
    return svg.document(figure_id, layout.width, bottom + 40, title, description, items)


def _lifts(places: Sequence[float]) -> list[float]:
    """Vertical steps that keep neighbours, which would hide each other, apart (pixels)."""
    lifts = [0.0] * len(places)
    for index in range(1, len(places)):
        if places[index] - places[index - 1] < 13.0:
            lifts[index - 1] = lifts[index - 1] or -5.5
            lifts[index] = -lifts[index - 1]
    return lifts


@both
def heat_map(
    layout: Layout,
    figure_id: str,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: dict[tuple[str, str], float],
    unit: str,
    *,
    empty: str = "levels differ",
    darker: str = "slower",
) -> str:
    """A grid of values with the number printed in each field; shade follows the logarithm. empty: why a field
    may have no number; darker: what a darker one is."""
    axis = LogAxis.over(list(values.values()), 0.0, 1.0)
    size = f"{len(rows)} by {len(columns)}"
    description = f"Values for {size} combinations; darker is {darker}, logarithmically."
    if layout.narrow:
        items, bottom = _heat_list(rows, columns, values, axis, unit, layout.width)
        return svg.document(figure_id, layout.width, bottom, title, description, items)
    left, top, width, height = 204.0, 60.0, (WIDTH - 204.0) / max(len(columns), 1), 34.0
    items = []
    for index, name in enumerate(columns):
        x = left + width * (index + 0.5)
        first, _, second = name.partition("-SHA2-")
        items.append(
            svg.text(x, top - 24 if second else top - 10, first, class_="label", text_anchor="middle")
        )
        if second:
            items.append(svg.text(x, top - 8, second, class_="label", text_anchor="middle"))
    for index, name in enumerate(rows):
        y = top + height * index
        items.append(svg.text(left - 10, y + height / 2 + 4, name, class_="label", text_anchor="end"))
        for position, other in enumerate(columns):
            value = values.get((name, other))
            x = left + width * position
            if value is None:
                items.append(
                    svg.element(
                        "rect", x=x + 1, y=y + 1, width=width - 2, height=height - 2, class_="heat empty"
                    )
                )
                continue
            tip = f"{name} with {other}: {significant(value)} {unit}"
            shade, field = _heat_field(axis(value), tip, (x + 1, y + 1), (width - 2, height - 2))
            items.append(field)
            items.append(
                svg.text(
                    x + width / 2, y + height / 2 + 4, significant(value), class_=shade, text_anchor="middle"
                )
            )
    bottom = top + height * len(rows)
    items.append(svg.text(WIDTH, bottom + 20, f"{unit}; empty: {empty}", class_="axis", text_anchor="end"))
    return svg.document(figure_id, WIDTH, bottom + 30, title, description, items)


#: fields beside each other on a narrow window, and their height in pixels
_NARROW_FIELDS, _FIELD = 3, 38.0


def _heat_list(
    rows: Sequence[str],
    columns: Sequence[str],
    values: dict[tuple[str, str], float],
    axis: LogAxis,
    unit: str,
    width: float,
) -> tuple[list[str], float]:
    """A heading a row and under it its fields, each with its column's name; where the drawing ends."""
    items = [svg.text(width, 12, unit, class_="axis", text_anchor="end")]
    step, y = width / _NARROW_FIELDS, 0.0
    for name in rows:
        known = [column for column in columns if (name, column) in values]
        if not known:
            continue
        items.append(svg.text(0, y + 17, name, class_="group"))
        y += 24.0
        for place, column in enumerate(known):
            x, top = step * (place % _NARROW_FIELDS), y + _FIELD * (place // _NARROW_FIELDS)
            value = values[name, column]
            tip = f"{name} with {column}: {significant(value)} {unit}"
            shade, field = _heat_field(axis(value), tip, (x + 1, top + 1), (step - 2, _FIELD - 2))
            middle = x + step / 2
            items.append(field)
            told = short_name(column)
            items.append(svg.text(middle, top + 15, told, class_=f"{shade} little", text_anchor="middle"))
            items.append(svg.text(middle, top + 30, significant(value), class_=shade, text_anchor="middle"))
        y += _FIELD * (-(-len(known) // _NARROW_FIELDS)) + 8
    return items, y


def _heat_field(
    share: float, tip: str, place: tuple[float, float], size: tuple[float, float]
) -> tuple[str, str]:
    """(CSS class of what is printed on it, the shaded field) for a share of the axis from 0 to 1."""
    field = svg.element(
        "rect",
        svg.hover(tip),
        x=place[0],
        y=place[1],
        width=size[0],
        height=size[1],
        rx=3,
        class_="heat",
        fill_opacity=0.08 + 0.82 * share,
    )
    return "heat-text strong" if share > 0.8 else "heat-text", field
