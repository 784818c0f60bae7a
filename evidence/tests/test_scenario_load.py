"""Effective scenarios: shipped ones, defaults, overrides, origins, round trip through a run's copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqevidence.errors import ScenarioError
from pqevidence.scenario import Overrides, available_scenarios, load_scenario
from pqevidence.scenario.check import schema
from pqevidence.scenario.load import load_effective

SUITES_2026_01 = {
    "cs-mlkem768-aesgcm-mldsa65",
    "cs-mlkem512-aesgcm-mldsa44",
    "cs-mlkem1024-aesgcm-mldsa87",
    "cs-mlkem768-chacha20poly1305-mldsa65",
    "cs-mlkem768-ascon128a-mldsa65",
}


def test_shipped_scenarios_are_what_they_promise() -> None:
    assert set(available_scenarios()) >= {"baseline", "smoke", "throughput"}
    baseline = load_scenario("baseline")
    assert len(baseline.suites) == 72
    assert baseline.traffic is not None
    assert (baseline.traffic["session_s"], baseline.traffic["rate_hz"]) == (110, 320)
    assert baseline.handshake == {"count": 30, "min_count": 5, "max_s": 20, "pooled": None}
    smoke = load_scenario("smoke")
    assert set(smoke.suites) == SUITES_2026_01  # the older spelling ascon128 is resolved
    assert smoke.repetitions == 3
    assert smoke.bulk is not None
    assert smoke.windows_s() == 7.0
    throughput = load_scenario("throughput")
    assert throughput.traffic is None
    assert throughput.bulk is not None
    assert throughput.bulk["rates_pps"] == sorted(throughput.bulk["rates_pps"])


def test_every_leaf_has_an_origin() -> None:
    scenario = load_scenario("smoke", Overrides(session_s=2.0, suites=("cs-hqc*",), repetitions=2))
    origins = {path: origin for path, _, origin in scenario.leaves()}
    assert origins["traffic.session_s"] == "--session-s"
    assert origins["suites"] == "--suites"
    assert origins["repetitions"] == "--reps"
    assert origins["ledger"] == "default"
    line = int(origins["traffic.rate_hz"].rsplit("smoke.yml:", 1)[1])
    text = available_scenarios()["smoke"].read_text().splitlines()[line - 1]
    assert text.strip().startswith("rate_hz:")
    assert scenario.repetitions == 2
    assert all(suite.startswith("cs-hqc") for suite in scenario.suites)


@pytest.mark.parametrize("name", ["baseline", "smoke", "throughput"])
@pytest.mark.parametrize("overrides", [Overrides(), Overrides(suites=("cs-*falcon*",), repetitions=4)])
def test_a_run_s_copy_means_the_same(tmp_path: Path, name: str, overrides: Overrides) -> None:
    scenario = load_scenario(name, overrides)
    copy = tmp_path / "scenario.effective.yml"
    copy.write_text(scenario.effective_yaml())
    again = load_effective(copy)
    assert again.data == scenario.data
    assert again.sha256 == scenario.sha256


def test_overrides_change_the_hash_and_are_recorded() -> None:
    plain, shorter = load_scenario("smoke"), load_scenario("smoke", Overrides(session_s=4))
    assert plain.sha256 != shorter.sha256
    assert "--session-s" in shorter.effective_yaml()
    assert "overrides" not in plain.effective_yaml()


def test_the_schema_is_closed_everywhere() -> None:
    """A misspelt key can only be found where unknown ones are refused."""

    def walk(rule: object, at: str) -> None:
        if isinstance(rule, dict):
            if "properties" in rule:
                assert rule.get("additionalProperties") is False, at
            for key, inner in rule.items():
                walk(inner, f"{at}/{key}")

    walk(schema(), "")


def test_a_policy_must_be_one_that_can_be_carried_out(tmp_path: Path) -> None:
    text = available_scenarios()["inflight-policy"].read_text()
    file = tmp_path / "flight.yml"
    file.write_text(text)
    told_early = "{at_s: 1, kind: policy_input, values: {loss_pct: 1}}"
    flight = load_scenario(str(file))
    assert [c["name"] for c in flight.conditions] == ["fixed", "policy"]
    for wrong, told in (
        (text.replace("floor_level: 3", "floor_level: 5"), "below the policy's own floor 5"),
        (text.replace("leave_below: 10", "leave_below: 30"), "before it enters"),
        (text.replace("- name: fixed", f"- name: fixed\n    events: [{told_early}]"), "no `policy`"),
        (text.replace("- name: policy", "- name: policy\n    rekey: {every_s: 1}"), "`policy` and `rekey`"),
    ):
        assert wrong != text
        file.write_text(wrong)
        with pytest.raises(ScenarioError, match=told):
            load_scenario(str(file))
