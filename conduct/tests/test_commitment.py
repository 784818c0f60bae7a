"""What is promised before a run: `plan --seal`, `run --seal`, `verify --sealed`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fake_agent import FakeLab

from pqevidence import commitment
from pqevidence.errors import UsageError
from pqevidence.paths import project_root
from pqevidence.plan import plan_digest
from pqevidence.verify.checks_attest import as_promised
from pqlab.campaign.engine import Campaign
from pqlab.cli.main import main

SIM = str(project_root() / "ansible" / "inventories" / "sim.ini")
TEXT = """\
schema: pqlab/scenario/v1
name: promised
title: One suite in virtual time
seed: 5
suites: [cs-mlkem768-aesgcm-mldsa65]
repetitions: 1
handshake: {count: 6, min_count: 5, max_s: 20}
traffic: {session_s: 1}
bulk: null
"""


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    file = tmp_path / "promised.yml"
    file.write_text(TEXT, encoding="utf-8")
    return [str(file), "--inventory", SIM, "--out", str(tmp_path / "results")]


def test_a_plan_sealed_before_is_that_of_the_run(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, then, results = tmp_path / "before.json", tmp_path / "then.json", str(tmp_path / "results")
    assert main(["plan", *options, "--seal", str(before)]) == 0
    digest = json.loads(before.read_text())["plan_sha256"]
    assert f"sealed: plan {digest}" in capsys.readouterr().out
    assert main(["run", *options, "--seal", str(then)]) == 0
    told = json.loads(then.read_text())
    assert told["plan_sha256"] == digest
    assert "public_keys" not in told  # a simulated run has none
    plan = json.loads((tmp_path / "results" / "latest" / "data" / "plan.json").read_text())
    assert plan_digest(plan) == digest
    capsys.readouterr()
    assert main(["verify", "--out", results, "--sealed", str(before)]) == 0
    assert "[x] as_promised: 1 runs, plan as promised" in capsys.readouterr().out
    before.write_text(json.dumps({**told, "plan_sha256": "00" * 32}))
    assert main(["verify", "--out", results, "--sealed", str(before)]) == 5
    assert "no run here has the plan that was promised" in capsys.readouterr().out
    before.write_text(json.dumps({**told, "public_keys": {"drone": "00" * 32}}))
    assert main(["verify", "--out", results, "--sealed", str(before)]) == 5
    assert "was promised with keys, and holds no attestation/" in capsys.readouterr().out


def test_another_seed_is_another_plan(options: list[str], tmp_path: Path) -> None:
    digests = []
    for seed in (5, 6):
        Path(options[0]).write_text(TEXT.replace("seed: 5", f"seed: {seed}"), encoding="utf-8")
        file = tmp_path / f"{seed}.json"
        assert main(["plan", *options, "--seal", str(file)]) == 0
        digests.append(json.loads(file.read_text())["plan_sha256"])
    assert len(set(digests)) == 2


def test_a_promise_is_never_overwritten(options: list[str], tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    file.write_text("kept")
    for verb in ("plan", "run"):
        assert main([verb, *options, "--seal", str(file)]) == 2
    assert file.read_text() == "kept"
    assert not (tmp_path / "results").exists()
    assert main(["plan", *options, "--seal", str(tmp_path / "none" / "before.json")]) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": "pqlab/plan/v1"}'])
def test_what_is_no_promise_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "promise.json"
    file.write_text(text)
    with pytest.raises(UsageError):
        commitment.read(str(file))


def test_a_run_of_agents_names_their_keys(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    lab.drone.attests()
    lab.gcs.attests()
    file = tmp_path / "promise.json"
    root = Campaign.begin(replace(lab.around(), seal=file), lab.scenario(1)).carry_out().bundle
    promised = commitment.read(str(file))
    assert set(promised["public_keys"]) == {"drone", "gcs"}
    assert as_promised(root, [promised]).observed == "1 runs, plan and keys as promised"
    keys = {**promised["public_keys"], "gcs": "00" * 32}
    told = as_promised(root, [{**promised, "public_keys": keys}])
    assert told.status == "fail" and "never signed with 0000" in told.observed
    strangers = {"drone": "00" * 32, "gcs": "00" * 32}
    told = as_promised(root, [{**promised, "public_keys": strangers}])
    assert told.status == "fail" and "a key that nobody promised" in told.detail
