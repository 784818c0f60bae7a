"""The matrix: complete blocks, order from the seed, ids from content; budgets that admit ignorance."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pqlab.budget import cell_bytes, estimate, handshake_costs_ms
from pqlab.plan import cell_id, cells_of, make_cells, plan_document
from pqlab.scenario import Overrides, Scenario, load_scenario

PROVIDERS = {"drone": {"liboqs": "a"}, "gcs": {"liboqs": "a"}, "images": {"x": "sha256:1"}}


def scenario(repetitions: int = 3, seed: int = 7, suites: tuple[str, ...] = ("cs-mlkem*",)) -> Scenario:
    loaded = load_scenario("smoke", Overrides(repetitions=repetitions, suites=suites))
    return Scenario({**loaded.data, "seed": seed}, loaded.origins, loaded.file)


@settings(max_examples=25, deadline=None)
@given(repetitions=st.integers(1, 4), seed=st.integers(0, 2**53 - 1))
def test_each_block_holds_the_matrix_once(repetitions: int, seed: int) -> None:
    asked = scenario(repetitions, seed)
    cells = make_cells(asked, PROVIDERS)
    assert [c.position for c in cells] == list(range(len(cells)))
    assert len({c.cell_id for c in cells}) == len(cells) == len(asked.suites) * repetitions
    for block in range(repetitions):
        names = Counter(c.suite_id for c in cells if c.block == block)
        assert names == Counter(asked.suites)
        assert {c.repetition for c in cells if c.block == block} == {block + 1}
    assert cells == make_cells(asked, PROVIDERS)


def test_the_seed_decides_the_order_and_nothing_of_a_cell_s_identity() -> None:
    one, other = make_cells(scenario(seed=1), PROVIDERS), make_cells(scenario(seed=2), PROVIDERS)
    assert [c.suite_id for c in one] != [c.suite_id for c in other]
    assert {c.cell_id for c in one} == {c.cell_id for c in other}
    assert {c.seed for c in one}.isdisjoint({c.seed for c in other})
    blocks = {tuple(c.suite_id for c in one if c.block == b) for b in range(3)}
    assert len(blocks) == 3


def test_a_cell_keeps_its_seed_when_the_campaign_shrinks() -> None:
    whole = {(c.suite_id, c.repetition): c.seed for c in make_cells(scenario(), PROVIDERS)}
    for cell in make_cells(scenario(2, suites=("cs-mlkem768-*",)), PROVIDERS):
        assert whole[cell.suite_id, cell.repetition] == cell.seed
    assert all(0 <= seed < 2**53 for seed in whole.values())


@pytest.mark.parametrize("block", ["handshake", "traffic", "bulk", "ledger", "telemetry"])
def test_a_cell_s_id_follows_what_decides_its_result(block: str) -> None:
    base = scenario()
    setting = base.cell_settings("baseline")
    before = cell_id("cs-mlkem768-aesgcm-mldsa65", setting, 1, PROVIDERS)
    changed = copy.deepcopy(setting)
    changed[block] = None
    assert cell_id("cs-mlkem768-aesgcm-mldsa65", changed, 1, PROVIDERS) != before
    assert cell_id("cs-mlkem768-aesgcm-mldsa65", setting, 2, PROVIDERS) != before
    assert cell_id("cs-mlkem512-aesgcm-mldsa44", setting, 1, PROVIDERS) != before
    other = {**PROVIDERS, "gcs": {"liboqs": "b"}}
    assert cell_id("cs-mlkem768-aesgcm-mldsa65", setting, 1, other) != before
    moved = {**PROVIDERS, "images": {}}  # the name an image was started under decides nothing
    assert cell_id("cs-mlkem768-aesgcm-mldsa65", setting, 1, moved) == before


def test_unknown_builds_leave_ids_unknown() -> None:
    assert {c.cell_id for c in make_cells(scenario(), None)} == {None}


def test_a_fixed_order_is_as_written() -> None:
    asked = scenario()
    fixed = Scenario({**asked.data, "order": {"method": "fixed"}}, asked.origins, asked.file)
    assert [c.suite_id for c in make_cells(fixed, None)] == list(asked.suites) * 3


def test_a_plan_reads_back() -> None:
    asked = scenario()
    cells = make_cells(asked, PROVIDERS)
    document = plan_document(asked, cells, {}, run_id="r", created_utc="2026-03-01T12:00:00Z")
    assert cells_of(json.loads(json.dumps(document))) == cells


def test_a_budget_without_measurements_says_unknown() -> None:
    asked = scenario()
    budget = estimate(asked, make_cells(asked, None), {}, None)
    assert budget["eta_s"] is None
    assert budget["eta_reason"]
    assert budget["least_s"] == len(asked.suites) * 3 * 7.0
    assert budget["most_s"] > budget["least_s"]


def test_a_budget_from_an_earlier_bundle(tmp_path: Path) -> None:
    asked = scenario(1, suites=("cs-mlkem768-aesgcm-mldsa65", "cs-hqc256-aesgcm-mldsa87"))
    for suite, ms in (("cs-mlkem768-aesgcm-mldsa65", 1.0), ("cs-hqc256-aesgcm-mldsa87", 40.0)):
        folder = tmp_path / "data" / "cells" / suite
        folder.mkdir(parents=True)
        fields = {"D": {"handshake_total_duration_ms": {"value": ms}}}
        (folder / "record.json").write_text(json.dumps({"suite_id": suite, "categories": fields}))
    costs = handshake_costs_ms(tmp_path)
    assert costs == {"cs-mlkem768-aesgcm-mldsa65": 1.0, "cs-hqc256-aesgcm-mldsa87": 40.0}
    budget = estimate(asked, make_cells(asked, None), costs, "earlier")
    assert budget["eta_s"] == pytest.approx(2 * (7.0 + 1.0) + 30 * 0.001 + 30 * 0.040, abs=0.1)
    assert budget["eta_source"] == "earlier"
    slow = estimate(asked, make_cells(asked, None), {**costs, "cs-hqc256-aesgcm-mldsa87": 3000.0}, "earlier")
    assert slow["eta_s"] == pytest.approx(2 * 8.0 + 0.03 + 20.0, abs=0.1)  # max_s cuts the block short


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"suite_id": "x"}', '{"suite_id": "x", "categories": null}']
)
def test_a_damaged_bundle_costs_the_estimate_only(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "data" / "cells" / "0"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(text)
    assert handshake_costs_ms(tmp_path) == {}


def test_disk_grows_with_datagrams_and_shrinks_without_ledger() -> None:
    asked = scenario()
    off = Scenario({**asked.data, "ledger": False}, asked.origins, asked.file)
    rows = 2 * (328 * 5 + 600 * 2)
    assert cell_bytes(asked) - cell_bytes(off) == pytest.approx(rows * 76, rel=0.01)
