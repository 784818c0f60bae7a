# ruff: noqa: E501 - a row of a table stays on its line
"""The curve over thresholds: corners, ties, its area against pairs counted one by one, and which windows count."""

from __future__ import annotations

import json
import random
from pathlib import Path

import detector_bundle
import pytest
from detector_files import WINDOW_NS, gate_of
from report_bundle import make_bundle, plan_cells
from report_page import Page

from pqevidence.analysis.table import read_rows
from pqevidence.measures.detector.roc import area, corners
from pqevidence.pages import render

Windows = list[tuple[float, bool]]


def pairs(windows: Windows) -> float:
    """Share of pairs in which the attacked window scores higher, ties as one half."""
    attacked = [score for score, attack in windows if attack]
    quiet = [score for score, attack in windows if not attack]
    wins = sum((a > q) + 0.5 * (a == q) for a in attacked for q in quiet)
    return wins / (len(attacked) * len(quiet))


@pytest.mark.parametrize(
    ("windows", "found", "size"),
    [
        ([(0.9, True), (0.1, False)], [(None, 0, 0), (0.9, 1, 0), (0.1, 1, 1)], 1.0),
        ([(0.9, False), (0.1, True)], [(None, 0, 0), (0.9, 0, 1), (0.1, 1, 1)], 0.0),
        ([(0.5, True), (0.5, False)], [(None, 0, 0), (0.5, 1, 1)], 0.5),
        ([(0.9, True), (0.8, True), (0.1, False)], [(None, 0, 0), (0.8, 2, 0), (0.1, 2, 1)], 1.0),
        ([(0.9, True), (0.5, True), (0.5, False), (0.1, False)], [(None, 0, 0), (0.9, 1, 0), (0.5, 2, 1), (0.1, 2, 2)], 0.875),
    ],
)  # fmt: skip
def test_corners_and_area_of_small_cases(windows: Windows, found: list[object], size: float) -> None:
    assert corners(windows) == found
    assert area(corners(windows)) == pytest.approx(size)


def test_the_area_is_the_share_of_pairs_that_are_in_order() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        windows = [(round(rng.random(), 1), rng.random() < 0.3) for _ in range(60)]
        windows += [(0.5, True), (0.5, False)]
        assert area(corners(windows)) == pytest.approx(pairs(windows))
        assert area(corners([(-score, attack) for score, attack in windows])) == pytest.approx(
            1 - pairs(windows)
        )


def test_one_kind_of_window_has_no_area() -> None:
    assert area(corners([(0.5, True)])) is None and area(corners([(0.5, False)])) is None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One detector, two cells; the second has one attack in windows 3 and 4, scored 0.9 and 0.2, and a
    quiet window scored 0.4."""

    def change(root: Path) -> None:
        detector_bundle.edit(root)
        for row in plan_cells(root):
            folder = root / "data" / "cells" / row["cell_id"]
            first = -(-gate_of(folder)[0] // WINDOW_NS)
            lines = [json.loads(text) for text in (folder / "detector.ndjson").read_text().splitlines()]
            for line in lines:
                score = {3: 0.9, 4: 0.2, 1: 0.4, 6: 0.8}.get(line["k"] - first, 0.1)
                line["attack_score"] = score if row["repetition"] == 1 else 0.1
            (folder / "detector.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
            if row["repetition"] == 1:
                truth = {
                    "t_on_ns": (first + 3) * WINDOW_NS + 1,
                    "t_off_ns": (first + 5) * WINDOW_NS - 1,
                    "sent_count": 9,
                }
                (folder / "attack.ndjson").write_text(json.dumps(truth) + "\n")

    return make_bundle(
        tmp_path_factory.mktemp("roc") / "run",
        edit=change,
        suites=detector_bundle.SUITES[:1],
        repetitions=2,
        bulk=False,
        conditions=(detector_bundle.XGBOOST,),
        session_s=12.0,
    )


def test_attacked_and_quiet_windows_make_the_curve_and_the_aftermath_none(root: Path) -> None:
    rows = read_rows(root / "data" / "analysis" / "detector_roc.csv")
    due = sum(
        close_ns // WINDOW_NS - -(-open_ns // WINDOW_NS)
        for open_ns, close_ns in (
            gate_of(root / "data" / "cells" / row["cell_id"]) for row in plan_cells(root)
        )
    )
    # two attacked, five after them
    assert {(row["n_cells"], row["attacked_count"], row["quiet_count"]) for row in rows} == {
        ("2", "2", str(due - 7))
    }
    assert [row["threshold"] for row in rows] == ["", "0.9", "0.4", "0.2", "0.1"]
    assert [float(row["found_pct"]) for row in rows] == [0, 50, 50, 100, 100]
    quiet = due - 7
    assert float(rows[2]["false_pct"]) == pytest.approx(100 / quiet)
    assert float(rows[0]["area"]) == pytest.approx(1 - 1 / (2 * quiet))


def test_the_page_draws_it_and_names_the_area(root: Path) -> None:
    text = render(root)[0].read_text(encoding="utf-8")
    assert 'id="det-fig-roc"' in text and "xgboost: area 0.9" in text
    assert "2 attacked windows" in text
    Page(text)


def test_without_an_attack_there_is_no_curve(tmp_path: Path) -> None:
    plain = detector_bundle.make(tmp_path / "run", suites=detector_bundle.SUITES[:1])
    assert not (plain / "data" / "analysis" / "detector_roc.csv").exists()
    assert "det-fig-roc" not in render(plain)[0].read_text(encoding="utf-8")
