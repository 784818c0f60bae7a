"""Forgeries that no witness in an unsigned bundle stops, against the same bundle as both ends swore to it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from attested_kit import claim, swear

from adversary.catalogue import Forgery, forgeries
from adversary.material import copy, lab
from adversary.raw import Bundle
from adversary.rebuild import rebuild, seal
from adversary.run import PAGE, Outcome, attempt, written
from pqevidence.plan import plan_digest
from pqevidence.verify import exit_code, verify_bundle
from pqevidence.verify.checks_attest import as_promised

#: they leave no witness, or survive in an unsigned bundle (docs/WITNESSES.md), or did
SURVIVED = set(re.findall(r"`(lab-\w+)`", written(PAGE.read_text(encoding="utf-8"))))
SURVIVED |= {"lab-one_suite_halved", "lab-last_cells_gone", "lab-latency_halved"}
FORGERIES = [
    one for one in forgeries() if one.material == "lab" and (not one.witnessed or one.label in SURVIVED)
]
#: nine runs thrown away left nothing in the tenth
OF_OTHER_RUNS = "only_the_best_of_many_runs"


@pytest.fixture(scope="module")
def sworn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = lab(tmp_path_factory.mktemp("attested"))
    claim(root)
    rebuild(root)
    swear(root)
    seal(root)
    return root


def test_what_is_forged_was_honest(sworn: Path) -> None:
    results = verify_bundle(sworn)
    assert [(r.name, r.observed) for r in results if r.status == "fail"] == []
    assert {r.name for r in results if r.name.startswith("attest_") and "unsigned" in r.observed} == set()


@pytest.mark.parametrize(
    "forgery", [one for one in FORGERIES if one.name != OF_OTHER_RUNS], ids=lambda one: one.label
)
def test_attested_bundle_stops_it(sworn: Path, tmp_path: Path, forgery: Forgery) -> None:
    outcome = attempt(forgery, sworn, tmp_path)
    assert not outcome.survived
    assert any(name.startswith("attest_") for name in outcome.stopped_by), outcome.first


def _forged(sworn: Path, folder: Path, change: str) -> Path:
    """A forgery without its verdict: times of one suite halved, everything above made again."""
    root = copy(sworn, folder)
    next(one for one in FORGERIES if one.name == change).change(Bundle(root))
    rebuild(root)
    return root


def _outcome(name: str, sworn: Path, folder: Path, change: object) -> Outcome:
    assert callable(change)
    return attempt(Forgery(name, "attested", "lab", change, name, True, True), sworn, folder)


def test_taking_the_chains_away_is_not_enough(sworn: Path, tmp_path: Path) -> None:
    def stripped(bundle: Bundle) -> None:
        shutil.rmtree(bundle.data / "attestation")

    outcome = _outcome("stripped", sworn, tmp_path, stripped)
    assert outcome.stopped_by == ("attest_signed",)


def test_a_bundle_stripped_of_every_word_of_it_is_unsigned(sworn: Path, tmp_path: Path) -> None:
    """It passes, and says that nobody vouches for it."""
    root = copy(sworn, tmp_path)
    shutil.rmtree(root / "data" / "attestation")
    Bundle(root).edit("plan.json", lambda plan: plan.pop("attestation"))
    rebuild(root)
    seal(root)
    results = {result.name: result for result in verify_bundle(root)}
    assert exit_code(list(results.values())) in (0, 3)
    assert "unsigned" in results["attest_signed"].observed


def test_other_keys_pass_unless_the_right_ones_are_known(sworn: Path, tmp_path: Path) -> None:
    """Who forges all and signs anew, with keys of his own, is met by the keys published before the run."""
    root = _forged(sworn, tmp_path, "one_suite_halved")
    plan = Bundle(root).data / "plan.json"
    before = json.loads(plan.read_text(encoding="utf-8"))
    promised = {"plan_sha256": plan_digest(before), "public_keys": {"drone": "00" * 32, "gcs": "11" * 32}}
    keys = swear(root)
    seal(root)
    assert not [r for r in verify_bundle(root) if r.name.startswith("attest_") and r.status == "fail"]
    told = as_promised(root, [promised])
    assert told.status == "fail" and "a key that nobody promised" in told.detail
    assert as_promised(root, [{**promised, "public_keys": keys}]).status == "ok"
    other = as_promised(root, [{**promised, "plan_sha256": "22" * 32}])
    assert other.status == "fail" and "no run here has the plan" in other.observed
