"""Shares: whole blocks, disjoint and complete, decided by the plan; simulated machines to carry them out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pqevidence.analysis.stats import sd
from pqevidence.errors import EXIT_USAGE, UsageError
from pqevidence.paths import project_root
from pqevidence.plan import campaign_of, make_cells, plan_digest, plan_document
from pqevidence.scenario import Overrides, Scenario, load_scenario
from pqevidence.share import Share, is_pair
from pqevidence.verify import verify_bundle
from pqlab.cli.main import main
from pqlab.sim.machine import PACE_SD, SimMachine

PROVIDERS = {"drone": {"liboqs": "a"}, "gcs": {"liboqs": "a"}}
SUITE = "cs-mlkem768-aesgcm-mldsa65"
SIM = ["--inventory", str(project_root() / "ansible" / "inventories" / "sim.ini")]


def scenario(repetitions: int, method: str = "blocked-random") -> Scenario:
    loaded = load_scenario("smoke", Overrides(repetitions=repetitions))
    return Scenario({**loaded.data, "order": {"method": method}}, loaded.origins, loaded.file)


@settings(max_examples=30, deadline=None)
@given(of=st.integers(1, 9), more=st.integers(0, 20), method=st.sampled_from(["blocked-random", "abba"]))
def test_shares_hold_every_cell_once_and_whole_blocks(of: int, more: int, method: str) -> None:
    asked = scenario(of + more, method)
    whole = make_cells(asked, PROVIDERS)
    shares = [make_cells(asked, PROVIDERS, Share(number, of, "p")) for number in range(1, of + 1)]
    together = [cell for cells in shares for cell in cells]
    assert all(cells for cells in shares)
    assert [c.cell_id for c in together] == [c.cell_id for c in whole], "in the order of the campaign"
    assert len({c.cell_id for c in together}) == len(together)
    for cells in shares:
        assert [c.position for c in cells] == list(range(len(cells)))
        blocks = {c.block for c in cells}
        assert {c.cell_id for c in cells} == {c.cell_id for c in whole if c.block in blocks}
        assert blocks == set(range(min(blocks), max(blocks) + 1))
    sizes = [len({c.block for c in cells}) for cells in shares]
    assert max(sizes) - min(sizes) <= 1


def test_the_plan_names_campaign_share_and_pair_and_promises_them() -> None:
    asked = scenario(4)
    documents = {
        share: plan_document(
            asked, make_cells(asked, PROVIDERS, share), {}, run_id=None, created_utc=None, share=share
        )
        for share in (Share(1, 2, "a"), Share(2, 2, "b"))
    }
    one, other = documents.values()
    assert one["campaign"] == other["campaign"] == campaign_of(asked)
    assert (other["share"], other["pair"]) == ({"number": 2, "of": 2}, "b")
    assert Share.of_plan(other) == Share(2, 2, "b")
    assert plan_digest(one) != plan_digest(other)
    assert plan_digest(one) != plan_digest({**one, "pair": "c"}), "a sealed plan promises the pair"
    assert campaign_of(scenario(5)) != campaign_of(asked)
    assert campaign_of(scenario(4, "abba")) != campaign_of(asked)
    alone = plan_document(asked, [], {}, run_id=None, created_utc=None)
    assert not {"campaign", "share", "pair"} & set(alone) and Share.of_plan(alone) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--share", "3/2"], "--share 3/2 is no share"),
        (["--share", "0/2"], "--share 0/2 is no share"),
        (["--share", "half"], "--share half is no share"),
        (["--share", "1/2/3"], "--share 1/2/3 is no share"),
        (["--share", "1/4", "--reps", "3"], "3 blocks, too few for 4 shares"),
        (["--share", "1/2", "--reps", "2", "--pair", "Bench One"], "no name of a pair"),
        (["--share", "1/2", "--reps", "2", "--only", "ab"], "does not go with --only"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "run"])
def test_what_is_no_share_is_refused_in_one_sentence(
    verb: str, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "smoke", *SIM, "--out", str(tmp_path), *words]) == EXIT_USAGE
    first = capsys.readouterr().err.splitlines()[0]
    assert said in first
    assert not list(tmp_path.iterdir())


def test_a_machine_s_seed_is_of_simulated_hosts_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "smoke", "--host-seed", "1", "--out", str(tmp_path)]) == EXIT_USAGE
    assert "ring sim alone" in capsys.readouterr().err


def test_names_of_pairs() -> None:
    assert Share.asked("2/3", None) == Share(2, 3, "pair-2")
    assert Share.asked(None, "bench-1") == Share(1, 1, "bench-1")
    assert Share.asked(None, None) is None
    assert (
        is_pair("a") and is_pair("9_b-c") and not is_pair("") and not is_pair("-a") and not is_pair("a" * 33)
    )
    assert not is_pair("a\n") and not is_pair(7)
    for told in ({"number": 0, "of": 2}, {"number": 3, "of": 2}, {"number": True, "of": 2}, {"of": 2}):
        with pytest.raises(ValueError):
            Share.of_plan({"share": told, "pair": "a"})
    with pytest.raises(UsageError):
        Share.asked("1/1", "")


def run(folder: Path, *words: str) -> Path:
    asked = ["run", "smoke", *SIM, "--suites", SUITE, "--reps", "3", "--session-s", "1", *words]
    assert main([*asked, "--out", str(folder)]) == 0
    return (folder / "latest").resolve()


def document(root: Path, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((root / "data" / name).read_text(encoding="utf-8"))
    return loaded


def test_a_share_is_run_sealed_and_verified(tmp_path: Path) -> None:
    root = run(tmp_path, "--share", "2/2", "--pair", "bench-2", "--host-seed", "4")
    plan = document(root, "plan.json")
    assert [row["repetition"] for row in plan["cells"]] == [2, 3]
    assert [row["block"] for row in plan["cells"]] == [1, 2]
    results = verify_bundle(root)
    assert [(r.name, r.observed) for r in results if r.status != "ok"] == []
    (owned,) = (r for r in results if r.name == "share_owned")
    assert owned.observed == "2 planned cells, share 2/2, pair bench-2"


def test_a_forged_share_is_found(tmp_path: Path) -> None:
    root = run(tmp_path, "--share", "1/1", "--pair", "bench-1")
    plan = root / "data" / "plan.json"
    told = json.loads(plan.read_text(encoding="utf-8"))
    plan.write_text(json.dumps({**told, "share": {"number": 1, "of": 2}}), encoding="utf-8")
    failed = {r.name: r.observed for r in verify_bundle(root) if r.status == "fail"}
    assert "of block 1, which is none of share 1/2" in failed["share_owned"]
    assert "is planned, the scenario does not ask for it" in failed["cells_accounted"]
    plan.write_text(json.dumps({**told, "cells": told["cells"][:2]}), encoding="utf-8")
    failed = {r.name: r.observed for r in verify_bundle(root) if r.status == "fail"}
    assert "share_owned" not in failed, "blocks that it has are its own"
    assert "was not planned" in failed["cells_accounted"] and "asked for and not planned" in str(
        next(r.detail for r in verify_bundle(root) if r.name == "cells_accounted")
    )


def test_simulated_machines_differ_and_each_stays_itself(tmp_path: Path) -> None:
    assert SimMachine(3) == SimMachine(3) and SimMachine(3).pace == SimMachine(3).pace
    assert SimMachine().pace == SimMachine().pace_of("mlkem768") == 1.0
    spread = sd([math.log(SimMachine(seed).pace) for seed in range(400)])
    assert spread is not None and 0.85 * PACE_SD < spread < 1.15 * PACE_SD
    assert SimMachine(1).facts() != SimMachine(2).facts()
    roots = [run(tmp_path / str(seed), "--pair", "bench", "--host-seed", str(seed)) for seed in (1, 2)]
    plans = [document(root, "plan.json") for root in roots]
    assert plans[0]["campaign"] == plans[1]["campaign"]
    assert [c["cell_id"] for c in plans[0]["cells"]] == [c["cell_id"] for c in plans[1]["cells"]]
    boots = {
        document(root, f"hosts/{role}.json")["host"]["boot_id"] for root in roots for role in ("drone", "gcs")
    }
    assert len(boots) == 2
    tables = [(root / "data" / "analysis" / "handshakes.csv").read_bytes() for root in roots]
    assert tables[0] != tables[1]
