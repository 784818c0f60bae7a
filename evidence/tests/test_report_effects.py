"""Drawings of effects: to scale about the line where nothing changes, claimed ones first, in both pages."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
import rekey_bundle
from report_page import Page

from pqevidence.analysis.table import read_rows
from pqevidence.pages import render
from pqevidence.report.effects import MOST_DRAWN, Effect, chosen, effects


def places(drawing: str) -> tuple[float, list[float], list[tuple[float, float]]]:
    """x of the line without change, of each dot, and of each interval's ends."""
    root = ElementTree.fromstring(drawing)
    (zero,) = [float(e.attrib["x1"]) for e in root.iter("line") if e.attrib["class"] == "marker"]
    dots = [float(e.attrib["cx"]) for e in root.iter("circle")]
    lines = [
        (float(e.attrib["x1"]), float(e.attrib["x2"]))
        for e in root.iter("line")
        if e.attrib["class"].startswith("interval")
    ]
    return zero, dots, lines


def test_ratios_are_drawn_by_their_logarithm() -> None:
    rows = [
        Effect("g", "a", 2.0, (1.0, 4.0), "regressed"),
        Effect("g", "b", 0.5, None),
        Effect("h", "c", 0.0, None),
    ]
    drawing = effects("f", "t", "B / A", rows, ratios=True)
    zero, (twice, half, nothing), ((low, high),) = places(drawing)
    assert twice - zero == pytest.approx(zero - half, abs=0.02)
    assert (low, high) == pytest.approx((zero, zero + 2 * (twice - zero)), abs=0.05)
    assert nothing < half, "nothing left lies at the end of the axis"
    texts = [text.text for text in ElementTree.fromstring(drawing).iter("text")]
    assert "2.00 ×, regressed" in texts and "0.500 ×" in texts


def test_differences_are_drawn_as_they_are() -> None:
    rows = [Effect("g", "a", 4.0, (-2.0, 5.0)), Effect("g", "b", 0.0, None)]
    zero, (four, none), ((low, high),) = places(effects("f", "t", "B - A", rows, ratios=False))
    assert none == zero
    step = (four - zero) / 4
    assert (low, high) == pytest.approx((zero - 2 * step, zero + 5 * step), abs=0.05)


def test_of_many_the_claimed_ones_are_drawn() -> None:
    rows = [Effect("g", str(n), 1.0, None, "regressed" if n >= 90 else "") for n in range(100)]
    shown = chosen(rows)
    assert len(shown) == MOST_DRAWN
    assert [row.label for row in shown] == [str(n) for n in (*range(MOST_DRAWN - 10), *range(90, 100))]


def test_conditions_are_drawn_with_their_effects(tmp_path: Path) -> None:
    root = rekey_bundle.make(tmp_path / "run")
    page = render(root)[0].read_text(encoding="utf-8")
    assert Page(page).why_empty("fig-conditions-ratio") is None
    rows = [
        row
        for row in read_rows(root / "data" / "analysis" / "condition_effects.csv")
        if row["scope"] == "all suites" and row["scale"] == "ratio"
    ]
    begin = page.index('<figure id="fig-conditions-ratio">')
    drawing = page[page.index("<svg", begin) : page.index("</svg>", begin) + 6]
    zero, dots, _ = places(drawing)
    assert len(dots) == len(rows) <= MOST_DRAWN
    values = [math.log(float(row["mean_effect"])) for row in rows]
    scale = max((dot - zero) / value for dot, value in zip(dots, values, strict=True) if value > 1)
    for dot, value in zip(dots, values, strict=True):
        assert dot - zero == pytest.approx(scale * value, abs=0.1)
    assert drawing.count(", regressed</text>") == sum(row["verdict"] == "regressed" for row in rows) > 0
