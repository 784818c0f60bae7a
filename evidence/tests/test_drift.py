"""Drift over blocks: the table from the raw spans, what may be claimed, and what a reader is shown."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import fixture_handshake
import pytest
import report_bundle
from report_page import Page

from pqevidence.analysis.drift import FASTER, FEW_BLOCKS, FEW_SUITES, SLOWER, Block, Judged, judged
from pqevidence.analysis.estimate import ONE_SIDED
from pqevidence.analysis.floor import ASSUMED, Null, cost_class
from pqevidence.analysis.load import Cell
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.analysis.table import read_rows
from pqevidence.audit.own import audit
from pqevidence.pages import render
from pqevidence.report.over_blocks import BlockPanel, BlockRatio, over_blocks
from pqevidence.tables import analyse

SUITES = tuple(fixture_handshake.TIMES)
OPTIONS: dict[str, Any] = {"suites": SUITES, "bulk": False, "session_s": 0.5}
CONDITIONS = tuple({"name": name, "detector": "none", "link": "none"} for name in ("baseline", "other"))


# ---------------------------------------------------------------------- what may be claimed


def campaign(rng: random.Random, suites: int, blocks: int, first: float, faults: float = 0.0) -> list[Judged]:
    """Walls of 0.7 ms and more with 3 % noise; `first`: log ratio of the first block; faults: their share."""
    walls: dict[str, float] = {}
    cells: dict[Block, list[Cell]] = defaultdict(list)
    for number in range(blocks):
        for suite in range(suites):
            scatter = rng.gauss(0, 0.03) + (1.0 if rng.random() < faults else 0.0)
            name = f"{number}-{suite}"
            walls[name] = (0.7 + 0.2 * suite) * math.exp(scatter + (first if number == 0 else 0.0))
            stub = SimpleNamespace(suite_id=str(suite), cell_id=name)
            cells[Block(0, number)].append(cast(Cell, stub))

    def null(judging: Block) -> Null:
        others = [number for number in range(blocks) if number != judging.number]
        steps = [
            (math.log(walls[f"{b}-{s}"] / walls[f"{a}-{s}"]), cost_class(walls[f"{a}-{s}"]))
            for s in range(suites)
            for a, b in pairwise(others)
        ]
        return Null(steps, math.log(1.1))

    return judged(cells, walls, null, 7)


def claims(found: list[Judged]) -> list[str]:
    return [one.verdict for one in found if one.verdict in (SLOWER, FASTER)]


@pytest.mark.parametrize("faults", [0.0, 0.1])
@pytest.mark.parametrize(("suites", "blocks"), [(6, 5), (24, 3)])
def test_where_nothing_drifts_next_to_nothing_is_claimed(suites: int, blocks: int, faults: float) -> None:
    rng = random.Random(3)
    said = sum(bool(claims(campaign(rng, suites, blocks, 0.0, faults))) for _ in range(60))
    assert said <= 3


@pytest.mark.parametrize(("suites", "blocks"), [(6, 3), (6, 5), (24, 3)])
def test_a_first_block_that_is_30_per_cent_slower_is_claimed_and_no_other(suites: int, blocks: int) -> None:
    rng = random.Random(3)
    found = [campaign(rng, suites, blocks, math.log(1.3)) for _ in range(60)]
    assert sum(campaign[0].verdict == SLOWER for campaign in found) >= 54
    assert sum(bool(claims(campaign[1:])) for campaign in found) <= 3


def test_faults_on_one_side_leave_no_interval() -> None:
    found = campaign(random.Random(1), 24, 5, 0.0, faults=0.1)
    assert {one.result.method for one in found} == {ONE_SIDED}
    assert {one.verdict for one in found} == {INSUFFICIENT}


def test_a_faster_block_is_called_faster_and_the_floor_is_of_the_others() -> None:
    found = campaign(random.Random(1), 12, 4, math.log(0.7))
    assert found[0].verdict == FASTER
    assert ASSUMED not in {one.floor.method for one in found}
    assert found[0].floor.value < 0.1 < found[1].floor.value


def test_what_a_small_drift_is_not_said_of() -> None:
    """Within 10 % while no floor could be measured; the interval alone leaves 1 out."""
    (first, *_) = campaign(random.Random(2), 6, 3, 0.08)
    assert first.result.low is not None and first.result.low > 0
    assert first.floor.method == ASSUMED and first.verdict == "not distinguishable"


# ---------------------------------------------------------------------- of a bundle


def slow_blocks(*numbers: int) -> report_bundle.Edit:
    """Every span of these blocks takes three tenths longer."""
    return report_bundle.stretched(1.3, lambda row: row["block"] in numbers)


@pytest.fixture(scope="module")
def drifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("drift") / "run"
    report_bundle.make_bundle(root, edit=slow_blocks(0), repetitions=4, conditions=CONDITIONS, **OPTIONS)
    render(root)
    return root


def table_of(root: Path) -> list[dict[str, str]]:
    return read_rows(root / "data" / "analysis" / "drift.csv")


def walls_of(root: Path) -> dict[tuple[str, int], dict[str, float]]:
    """(condition, block) → suite → median drone wall, from the raw spans by nothing but this code."""
    found: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in report_bundle.plan_cells(root):
        path = root / "data" / "cells" / row["cell_id"] / "spans.ndjson"
        spans = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        walls = [
            s["end_ns"] - s["start_ns"] for s in spans if (s["step"], s["host"]) == ("handshake", "drone")
        ]
        found[row["condition"], row["block"]][row["suite_id"]] = median(walls)
    return found


def test_the_table_is_what_the_spans_give(drifted: Path) -> None:
    walls, rows = walls_of(drifted), table_of(drifted)
    assert [(r["condition"], int(r["block"])) for r in rows] == sorted(walls)
    for row in rows:
        condition, block = row["condition"], int(row["block"])
        ratios = {
            suite: wall / median(walls[condition, b][suite] for b in range(4))
            for suite, wall in walls[condition, block].items()
        }
        assert int(row["n_suites"]) == len(SUITES) >= 5
        assert row["blocks_count"] == "4" and not row["earlier_run"]
        assert float(row["median_ratio"]) == pytest.approx(median(ratios.values()), rel=1e-6)
        mean = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
        assert float(row["mean_ratio"]) == pytest.approx(mean, rel=1e-6)
        assert float(row["low_ratio"]) < mean < float(row["high_ratio"])
        assert row["unit_of_inference"] == "suite"
    assert [row["verdict"] for row in rows if row["block"] == "0"] == [SLOWER, SLOWER]
    assert {row["verdict"] for row in rows if row["block"] != "0"} == {"not distinguishable"}


def test_a_block_that_drifted_is_not_in_its_own_floor(drifted: Path) -> None:
    for row in table_of(drifted):
        own = row["block"] == "0"
        assert (float(row["floor_ratio"]) < 1.1) == own, row
        assert row["floor_method"] != ASSUMED


def test_where_times_are_no_claim_nothing_is_said_of_drift(drifted: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(drifted, root)
    path = root / "data" / "hosts" / "drone.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**facts, "host": {**facts["host"], "emulated": "qemu-user"}}))
    analyse(root)
    assert table_of(root) == []
    assert 'id="drift-table"' not in render(root)[0].read_text(encoding="utf-8")


def test_the_page_draws_it_and_claims_the_first_block_alone(drifted: Path) -> None:
    text = (drifted / "data" / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.why_empty("fig-drift") is None and page.why_empty("drift-table") is None
    assert page.marks["fig-drift"] == 8
    assert len(page.rows["drift-table"]) == 1 + 8
    for place in ("findings-list", "odd"):
        told = page.text_of[place]
        said = re.findall(r"Under \w+ the first of 4 blocks was (\d+) % slower than its suites", told)
        assert len(said) == 2 and all(20 <= int(amount) <= 33 for amount in said)
        assert told.count("of 4 blocks was") == 2
    found = audit(drifted)
    assert not found.unfounded and not found.unsaid


@pytest.mark.parametrize("repetitions", [1, 2])
def test_fewer_than_three_blocks_are_insufficient(tmp_path: Path, repetitions: int) -> None:
    root = report_bundle.make_bundle(
        tmp_path / "run", edit=slow_blocks(0), repetitions=repetitions, **OPTIONS
    )
    rows = table_of(root)
    assert [row["verdict"] for row in rows] == [INSUFFICIENT] * repetitions
    assert {row["reason"] for row in rows} == {FEW_BLOCKS}
    assert {row["median_ratio"] + row["low_ratio"] for row in rows} == {""}
    text = render(root)[0].read_text(encoding="utf-8")
    assert 'id="fig-drift"' not in text and "blocks was" not in text
    assert ('id="drift-table"' in text) == (repetitions > 1)


def test_a_suite_that_passed_too_rarely_is_no_witness(drifted: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(drifted, root)
    for row in report_bundle.plan_cells(root):
        if row["block"] > 1 and row["suite_id"] != SUITES[0]:
            path = root / "data" / "cells" / row["cell_id"] / "record.json"
            record = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps({**record, "verdict": "invalid", "reason": "made for this test"}))
    analyse(root)
    rows = table_of(root)
    assert {row["n_suites"] for row in rows} == {"1"}
    assert {(row["verdict"], row["reason"]) for row in rows} == {(INSUFFICIENT, FEW_SUITES)}


def test_blocks_of_an_earlier_run_come_first_and_are_blocks_of_their_own(
    drifted: Path, tmp_path: Path
) -> None:
    root = tmp_path / "run"
    shutil.copytree(drifted, root)
    path = root / "data" / "run.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    mine = [row["cell_id"] for row in report_bundle.plan_cells(root) if row["suite_id"] == SUITES[0]]
    run["lineage"] = [{"run_id": "20260201T000000Z-aaaaaa", "cells": mine}]
    path.write_text(json.dumps(run), encoding="utf-8")
    analyse(root)
    rows = [row for row in table_of(root) if row["condition"] == "baseline"]
    assert [row["earlier_run"] for row in rows] == ["20260201T000000Z-aaaaaa"] * 4 + [""] * 4
    assert [row["n_suites"] for row in rows] == ["1"] * 4 + [str(len(SUITES) - 1)] * 4
    assert {row["blocks_count"] for row in rows} == {"8"}


# ---------------------------------------------------------------------- the drawing


def test_the_drawing_is_to_scale_about_one() -> None:
    blocks = (BlockRatio("1", 1.3, 1.2, 1.4, "30 % slower"), BlockRatio("2", 1.0, None, None))
    drawn = over_blocks("fig", "Title", [BlockPanel("baseline", blocks)])
    assert 'aria-labelledby="fig-title fig-desc"' in drawn and '<title id="fig-title">Title</title>' in drawn
    first, second = (float(y) for y in re.findall(r'<circle [^>]*cy="([\d.]+)"', drawn))
    assert second == 28 + 96 / 2
    end = math.log(1.5)
    assert first == pytest.approx(second - 48 * math.log(1.3) / end, abs=0.01)
    (line,) = re.findall(r'<line [^>]*class="range s-2"/>', drawn)
    ends = [float(value) for value in re.findall(r'y[12]="([\d.]+)"', line)]
    assert ends == pytest.approx([second - 48 * math.log(v) / end for v in (1.2, 1.4)], abs=0.01)
    assert "30 % slower" in drawn and "1.50 ×" in drawn and "0.667 ×" in drawn
    assert "block 1: 1.30 ×, interval of the mean 1.20 to 1.40" in drawn
