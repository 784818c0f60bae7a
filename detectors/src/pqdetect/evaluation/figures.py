"""Figures of an evaluation as SVG files: detection against false alarms, delay, recall by kind."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Final

from pqdetect.evaluation.results import CurvePoint, DegradedPoint, Part, Results
from pqdetect.evaluation.tables import order

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 60, 570, 44, 384
COLOURS: Final = {
    "threshold": "#8c6d31", "ewma": "#b5a000", "cusum": "#5b8c5a", "any-auth-fail": "#888888",
    "random": "#bbbbbb", "xgboost-5w": "#74a9cf", "xgboost": "#0570b0", "tst-p8": "#c994c7",
    "tst": "#ce1256", "cascade": "#54278f",
}  # fmt: skip
DASHED: Final = ("threshold", "ewma", "cusum", "any-auth-fail", "random")
_STYLE = (
    "svg{background:#fff}text{font:12px sans-serif;fill:#222}.t{font-size:14px;font-weight:bold}"
    ".g{stroke:#ddd;stroke-width:1}.a{stroke:#444;stroke-width:1}"
)


def _n(value: float) -> str:
    text = f"{value:.1f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _text(x: float, y: float, content: str, anchor: str = "start", kind: str = "") -> str:
    extra = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{extra}>{escape(content)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" class="{kind}"/>'


def _path(points: list[tuple[float, float]], name: str) -> str:
    joined = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    dash = ' stroke-dasharray="5 3"' if name in DASHED else ""
    return (
        f'<polyline points="{joined}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"{dash}>'
        f"<title>{escape(name)}</title></polyline>"
    )


def document(title: str, description: str, items: Iterable[str], height: float = HEIGHT) -> str:
    """A drawing that stands by itself, with title and description for screen readers."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_n(height)}" width="{WIDTH}" '
        f'height="{_n(height)}" role="img"><title>{escape(title)}</title><desc>{escape(description)}</desc>'
        f"<style>{_STYLE}</style>{_text(LEFT, 22, title, kind='t')}{''.join(items)}</svg>\n"
    )


def log_place(value: float, low: float, high: float) -> float:
    """Where a value lies on the horizontal axis, clamped to its ends."""
    clamped = min(max(value, low), high)
    return LEFT + (RIGHT - LEFT) * math.log(clamped / low) / math.log(high / low)


def _share_axis() -> list[str]:
    items = []
    for step in range(6):
        y = BOTTOM - (BOTTOM - TOP) * step / 5
        items += [_line(LEFT, y, RIGHT, y, "g"), _text(LEFT - 6, y + 4, f"{step * 20} %", "end")]
    return items


def _log_axis(ticks: tuple[float, ...], label: str) -> list[str]:
    items = [_line(LEFT, BOTTOM, RIGHT, BOTTOM, "a")]
    for tick in ticks:
        x = log_place(tick, ticks[0], ticks[-1])
        items += [_line(x, TOP, x, BOTTOM, "g"), _text(x, BOTTOM + 18, f"{tick:g}", "middle")]
    return [*items, _text((LEFT + RIGHT) / 2, BOTTOM + 40, label, "middle")]


def _dot(x: float, y: float, name: str, told: str) -> str:
    title = f"<title>{escape(told)}</title>"
    return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="4" fill="{COLOURS[name]}">{title}</circle>'


def _legend(names: list[str], dots: bool = False) -> list[str]:
    items = []
    for place, name in enumerate(names):
        y, x = TOP + 14 + 20 * place, RIGHT + 24
        mark = _dot(x + 20, y - 4, name, name) if dots else _path([(x, y - 4), (x + 28, y - 4)], name)
        items += [mark, _text(x + 34, y, name)]
    return items


def best_within(points: Iterable[CurvePoint]) -> list[tuple[float, float]]:
    """(false alarms an hour, share found): the most that any level finds at no more false alarms, as steps.

    Below some level an alarm hardly ends: fewer alarms begin and fewer episodes are found, so that a line
    from level to level would run back and forth. What is asked is what can be found at an allowed rate.
    """
    known = [
        (float(one["false_alarms_per_h"]), float(one["recall_visible"]))
        for one in points
        if one["recall_visible"] is not None and one["false_alarms_per_h"] is not None
    ]
    known.sort(key=lambda point: (point[0], -point[1]))
    steps: list[tuple[float, float]] = []
    for rate, share in known:
        if not steps:
            steps.append((rate, share))
        elif share > steps[-1][1]:
            steps += [(rate, steps[-1][1]), (rate, share)]
    if known and known[-1][0] > steps[-1][0]:
        steps.append((known[-1][0], steps[-1][1]))
    return steps


def curve(part: Part, which: str) -> str:
    """Share of visible episodes found at no more than so many false alarms an hour, one line a detector."""
    ticks = (0.01, 0.1, 1.0, 10.0, 100.0)
    names, items = (
        order(part["methods"]),
        [*_share_axis(), *_log_axis(ticks, "at most so many false alarms an attack-free hour")],
    )
    budget = log_place(0.5, ticks[0], ticks[-1])
    items += [_line(budget, TOP, budget, BOTTOM, "a"), _text(budget + 3, TOP - 4, "0.5/h")]
    for name in names:
        points = [
            (log_place(rate or ticks[0], ticks[0], ticks[-1]), _share(share))
            for rate, share in best_within(part["methods"][name]["curve"])
        ]
        items.append(_path(points, name))
    return document(
        f"Detection against false alarms ({which})",
        "Visible attack episodes found by the best level with at most so many false alarms an hour; rates "
        "below 0.01 are drawn there.",
        [*items, *_legend(names)],
    )


def delay(part: Part, which: str) -> str:
    """Share of visible episodes found within a time; a missed one is never found."""
    ticks = (0.3, 1.0, 3.0, 10.0, 30.0, 90.0)
    names, items = (
        order(part["methods"]),
        [*_share_axis(), *_log_axis(ticks, "seconds after the first datagram")],
    )
    for name in names:
        cdf = part["methods"][name]["delay_cdf"]
        items.append(_path([(log_place(s, ticks[0], ticks[-1]), _share(value)) for s, value in cdf], name))
    return document(
        f"Delay of detection ({which})",
        "Share of all visible episodes found within that time; what is missed never arrives.",
        [*items, *_legend(names)],
    )


def kinds(part: Part, which: str) -> str:
    """Recall by kind of attack, one dot a detector."""
    names = order(part["methods"])
    groups = part["methods"][names[0]]["by_kind"]
    bottom = TOP + 34 * len(groups)
    left = LEFT + 110
    items = []
    for step in range(6):
        x = left + (RIGHT - left) * step / 5
        items += [_line(x, TOP, x, bottom, "g"), _text(x, bottom + 18, f"{step * 20} %", "middle")]
    for place, (group, first) in enumerate(groups.items()):
        y = TOP + 34 * place + 17
        label = f"{group} (held out)" if first["held_out"] else group
        items += [_line(left, y, RIGHT, y, "g"), _text(left - 8, y + 4, label, "end")]
        for number, name in enumerate(names):
            value = part["methods"][name]["by_kind"][group]["recall"]["value"]
            if value is not None:
                x, dot = left + (RIGHT - left) * value, y - 13.5 + 3 * number
                items.append(_dot(x, dot, name, f"{group}, {name}: {value * 100:.1f} %"))
    title = f"Visible episodes found, by kind of attack ({which})"
    return document(
        title,
        "One dot a detector at the rule of its card.",
        [*items, *_legend(names, dots=True)],
        max(bottom + 40, 300),
    )


def _share(value: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * value


def degraded(curves: dict[str, list[DegradedPoint]], which: str) -> str:
    """Share of degraded stretches found against the share of alarms that are right, one line a detector."""
    names = order(curves)
    items = _share_axis()
    for step in range(6):
        x = LEFT + (RIGHT - LEFT) * step / 5
        items += [_line(x, TOP, x, BOTTOM, "g"), _text(x, BOTTOM + 18, f"{step * 20} %", "middle")]
    items.append(_text((LEFT + RIGHT) / 2, BOTTOM + 40, "alarms that are right", "middle"))
    x, y = LEFT + (RIGHT - LEFT) * 0.95, _share(0.99)
    items += [_line(x, TOP, x, y, "a"), _line(x, y, RIGHT, y, "a"), _text(x - 4, TOP - 4, "target", "end")]
    for name in names:
        points = [
            (LEFT + (RIGHT - LEFT) * point["precision"], _share(point["recall"]))
            for point in curves[name]
            if point["precision"] is not None and point["recall"] is not None
        ]
        items.append(_path(points, name))
    return document(
        f"DEGRADED: stretches found against alarms that are right ({which})",
        "One line a detector, one point a level of its alarm; the target is the corner at the upper right.",
        [*items, *_legend(names)],
    )


def write_all(results: Results, folder: Path) -> None:
    """detection.svg, delay.svg and kinds.svg for each set of recordings that holds an episode."""
    rings = {"test": "test recordings, simulator", "live": "recordings of the running lab"}
    for name, part in results["sets"].items():
        if part["episodes_visible"] == 0:
            continue
        for figure, draw in (("detection", curve), ("delay", delay), ("kinds", kinds)):
            (folder / f"{figure}-{name}.svg").write_text(draw(part, rings.get(name, name)), encoding="utf-8")
    if "degraded_curve" in results:
        drawn = degraded(results["degraded_curve"], rings["test"])
        (folder / "degraded-test.svg").write_text(drawn, encoding="utf-8")
