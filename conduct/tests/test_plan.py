"""The matrix: complete blocks, order from the seed, ids from content; budgets that admit ignorance."""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pqevidence.costs import built_in_costs
from pqevidence.plan import cell_id, cells_of, make_cells, plan_document
from pqevidence.scenario import Overrides, Scenario, load_scenario
from pqlab.campaign.budget import Costs, cell_bytes, estimate, load_costs

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


def costs(**handshake_s: float) -> Costs:
    """One second a cell beside its windows, nothing else."""
    return Costs("earlier", handshake_s, frozenset(handshake_s), 1.0, 0.0, {}, 0.0, 0.0)


def test_a_budget_without_measurements_says_unknown() -> None:
    asked = scenario()
    budget = estimate(asked, make_cells(asked, None), costs())
    assert budget["eta_s"] is None
    assert budget["eta_reason"]
    assert budget["least_s"] == len(asked.suites) * 3 * 7.0
    assert budget["most_s"] > budget["least_s"]


FAST, SLOW = "cs-mlkem768-aesgcm-mldsa65", "cs-hqc256-aesgcm-mldsa87"


def test_a_budget_holds_the_canary_and_its_wait_after_an_attack() -> None:
    plain = scenario(1, suites=(FAST,))
    base = estimate(plain, make_cells(plain, None), costs(**{FAST: 0.001}))
    for extra, more_s in (({}, 4.0), ({"attack": {"kind": "flood", "start_s": 1, "for_s": 1}}, 10.0)):
        asked = scenario(1, suites=(FAST,))
        asked.data["conditions"][0].update({"detector": "tst", **extra})
        cells = make_cells(asked, None)
        name = cells[0].condition
        # an earlier bundle that measured a shorter wait does not hide it
        for known in (costs(**{FAST: 0.001}), replace(costs(**{FAST: 0.001}), wait_s={name: 3.0})):
            told = estimate(asked, cells, known)
            assert told["least_s"] - base["least_s"] == more_s
            assert told["eta_s"] - base["eta_s"] == pytest.approx(more_s)


def test_a_budget_from_measured_costs() -> None:
    asked = scenario(1, suites=(FAST, SLOW))
    cells = make_cells(asked, None)
    budget = estimate(asked, cells, costs(**{FAST: 0.001, SLOW: 0.040}))
    assert budget["eta_s"] == pytest.approx(2 * (7.0 + 1.0) + 30 * 0.001 + 30 * 0.040, abs=0.1)
    assert budget["eta_source"] == "earlier"
    slow = estimate(asked, cells, costs(**{FAST: 0.001, SLOW: 3.0}))
    assert slow["eta_s"] == pytest.approx(2 * 8.0 + 0.03 + 21.5, abs=0.1)  # max_s cuts the block short


def record(suite_id: str, start_s: float, handshake_s: float) -> dict[str, object]:
    """A passed cell: 10 handshakes, then 5 s of traffic, 0.3 s beside them."""
    marks = [start_s, start_s + 10 * handshake_s, start_s + 10 * handshake_s + 5]
    windows = [
        {"name": name, "start_ns": round(a * 1e9), "end_ns": round(b * 1e9)}
        for name, a, b in zip(("handshake_cold", "traffic"), marks, marks[1:], strict=False)
    ]
    return {
        "suite_id": suite_id,
        "condition": "baseline",
        "verdict": "pass",
        "ring": "lab",
        "windows": windows,
        "wall": {
            "start_ns": windows[0]["start_ns"],
            "end_ns": round((marks[2] + 0.3) * 1e9),
            "overhead_s": 0.3,
        },
        "categories": {
            "D": {"handshake_completed_count": {"value": 10}},
            "G": {"packets_sent_count": {"value": 0}},
        },
    }


def test_costs_are_read_off_an_earlier_bundle(tmp_path: Path) -> None:
    rows = [record(FAST, 0.0, 0.004), record(SLOW, 5.44, 0.080)]
    for number, row in enumerate(rows):
        folder = tmp_path / "data" / "cells" / str(number)
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(json.dumps(row))
    found = load_costs(tmp_path)
    assert found.handshake_s[FAST] == pytest.approx(0.004)
    assert found.measured == {FAST, SLOW}
    assert found.cell_s == pytest.approx(0.3 + 0.1, abs=1e-6)  # beside the windows, and to the next cell
    known = built_in_costs()
    other = "cs-classicmceliece8192128-aesgcm-falcon1024"
    speed = (0.004 / known.handshake_s[FAST] * 0.080 / known.handshake_s[SLOW]) ** 0.5
    assert found.handshake_s[other] == pytest.approx(known.handshake_s[other] * speed)
    asked = scenario(1, suites=(FAST, other))
    source = str(estimate(asked, make_cells(asked, None), found)["eta_source"])
    assert tmp_path.name in source and "built-in table" in source


def test_a_simulated_bundle_has_no_costs_of_a_machine(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "cells" / "0"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps({**record(FAST, 0.0, 0.004), "ring": "sim"}))
    assert load_costs(tmp_path) == built_in_costs()


def test_the_built_in_table_knows_all_72_suites() -> None:
    assert set(built_in_costs().handshake_s) >= set(load_scenario("baseline").suites)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"suite_id": "x"}', '{"suite_id": "x", "verdict": "pass", "windows": null}']
)
def test_a_damaged_bundle_costs_the_estimate_only(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "data" / "cells" / "0"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(text)
    assert load_costs(tmp_path) == built_in_costs()


def test_disk_grows_with_datagrams_and_shrinks_without_ledger() -> None:
    asked = scenario()
    off = Scenario({**asked.data, "ledger": False}, asked.origins, asked.file)
    rows = 2 * (328 * 5 + 600 * 2)
    assert cell_bytes(asked) - cell_bytes(off) == pytest.approx(rows * 76, rel=0.01)


TWINS = """\
schema: pqlab/scenario/v1
name: twins
seed: 5
suites: ["cs-mlkem*-aesgcm-*"]
repetitions: 4
order: {method: abba}
traffic: {session_s: 2}
conditions:
  - name: a
  - name: b
    rekey: {every_s: 1}
  - name: a-again
    aa_of: a
    suites: ["cs-mlkem768-*"]
    repetitions: [2, 4]
"""


def twins(tmp_path: Path, text: str = TWINS) -> Scenario:
    file = tmp_path / "twins.yml"
    file.write_text(text)
    return load_scenario(str(file))


def test_abba_turns_the_conditions_round_from_suite_to_suite_and_block_to_block(tmp_path: Path) -> None:
    asked = twins(tmp_path)
    cells = make_cells(asked, PROVIDERS)
    for block in range(4):
        rows = [(c.suite_id, c.condition) for c in cells if c.block == block]
        order = list(dict.fromkeys(suite for suite, _ in rows))
        assert sorted(order) == sorted(asked.suites)
        plain = [[c for s, c in rows if s == suite and c != "a-again"] for suite in order]
        first = "a" if block % 2 == 0 else "b"
        assert [pair[0] for pair in plain] == [
            first if n % 2 == 0 else "ab".strip(first) for n in range(len(order))
        ]
        assert all(sorted(pair) == ["a", "b"] for pair in plain)
    # a suite's cells of one block stand side by side
    for before, cell in pairwise(cells):
        if cell.suite_id != before.suite_id:
            later = {c.suite_id for c in cells if c.block == before.block and c.position > cell.position}
            assert before.suite_id not in later


def test_twins_run_where_they_are_asked_for_and_have_ids_of_their_own(tmp_path: Path) -> None:
    cells = make_cells(twins(tmp_path), PROVIDERS)
    again = [c for c in cells if c.condition == "a-again"]
    assert {(c.suite_id.split("-")[1], c.repetition) for c in again} == {("mlkem768", 2), ("mlkem768", 4)}
    assert len({c.cell_id for c in cells}) == len(cells)
    wider = make_cells(twins(tmp_path, TWINS.replace("[2, 4]", "[1, 2, 4]")), PROVIDERS)
    assert {c.cell_id for c in cells} < {c.cell_id for c in wider}


def test_more_repetitions_leave_the_earlier_ids_as_they_are() -> None:
    few, more = ({c.cell_id for c in make_cells(scenario(n), PROVIDERS)} for n in (2, 3))
    assert few < more


def test_only_keeps_the_cells_whose_id_begins_so() -> None:
    asked = scenario()
    whole = make_cells(asked, PROVIDERS)
    prefix = str(whole[4].cell_id)[:3]
    some = make_cells(Scenario({**asked.data, "only": [prefix]}, asked.origins, asked.file), PROVIDERS)
    assert {c.cell_id for c in some} == {c.cell_id for c in whole if str(c.cell_id).startswith(prefix)}
    assert [c.position for c in some] == list(range(len(some)))


def test_plain_and_extras_have_an_expected_time() -> None:
    known = built_in_costs().handshake_s
    assert known["plain"] == 0.0
    assert known["xs-x25519mlkem768-aesgcm-mldsa65"] == known["cs-mlkem768-aesgcm-mldsa65"]
    assert known["xs-mlkem768-asconaead128-mldsa65"] == known["cs-mlkem768-ascon128a-mldsa65"]
    assert 0 < known["xs-x25519-aesgcm-ed25519"] < known["cs-mlkem768-aesgcm-mldsa65"]
    assert "xs-mlkem768-aesgcm-slhdsa192s" not in known
