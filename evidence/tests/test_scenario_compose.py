"""Overlays, base scenarios and filters: what comes out, whence each value came, what mistakes say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqevidence.errors import EXIT_USAGE, LabError
from pqevidence.measures.link.section import control_lacks
from pqevidence.scenario import Overrides, Scenario, available_overlays, available_scenarios, load_scenario
from pqevidence.scenario.compose import read_overlay
from pqevidence.scenario.conditions import impairs, is_control, routed
from pqevidence.scenario.load import load_effective

BASE = """\
schema: pqlab/scenario/v1
name: base
suites: [cs-mlkem768-aesgcm-mldsa65, cs-hqc256-aesgcm-mldsa87]
repetitions: 2
handshake: {count: 10}
traffic:
  session_s: 5
"""
LOSSY = """\
schema: pqlab/overlay/v1
name: lossy
handshake:
  max_s: 7
condition:
  link:
    up: {delay_ms: 80, loss_pct: 5}
conditions:
  - name: link-0
    link: {}
"""
REKEY = """\
schema: pqlab/overlay/v1
name: rekey
condition:
  rekey: {every_s: 2}
  events:
    - {at_s: 1, kind: rekey}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("base", BASE), ("lossy", LOSSY), ("rekey", REKEY)):
        (tmp_path / f"{name}.yml").write_text(text)
    return tmp_path


def load(folder: Path, text: str, overrides: Overrides | None = None) -> Scenario:
    file = folder / "mine.yml"
    file.write_text(text)
    return load_scenario(str(file), overrides)


def names(scenario: Scenario) -> list[str]:
    return [str(c["name"]) for c in scenario.conditions]


def test_overlays_are_laid_in_order_with_their_origin(folder: Path) -> None:
    both = Overrides(overlays=(str(folder / "lossy.yml"), str(folder / "rekey.yml")))
    scenario = load_scenario(str(folder / "base.yml"), both)
    assert names(scenario) == ["baseline+lossy+rekey", "link-0+rekey"]
    first, control = scenario.conditions
    assert first["link"]["up"]["delay_ms"] == 80 and first["link"]["down"]["delay_ms"] == 0
    assert first["rekey"] == {"every_s": 2, "start_s": 0, "count": None, "suites": []}
    assert [e["kind"] for e in control["events"]] == ["rekey"]
    assert scenario.handshake == {"count": 10, "min_count": 5, "max_s": 7, "pooled": None}
    origin = {path: where for path, _, where in scenario.leaves()}
    assert origin["conditions[0].link.up.delay_ms"].startswith("overlay lossy (")
    assert origin["conditions[0].link.up.delay_ms"].endswith("lossy.yml:7)")
    assert origin["conditions[0].link.up.jitter_ms"] == "default"
    assert origin["handshake.count"].endswith("base.yml:5")
    assert origin["handshake.max_s"].endswith("lossy.yml:4)")
    assert origin["conditions[1].rekey.every_s"].startswith("overlay rekey (")
    assert scenario.composed_of[1:] == ("overlay lossy", "overlay rekey")


def test_an_overlay_in_a_file_is_the_overlay_of_the_option(folder: Path) -> None:
    written = load(folder, BASE + "overlays: [lossy.yml, rekey.yml]\n")
    options = Overrides(overlays=(str(folder / "lossy.yml"), str(folder / "rekey.yml")))
    asked = load_scenario(str(folder / "base.yml"), options)
    assert written.data == asked.data


def test_extends_keeps_what_is_not_said_again(folder: Path) -> None:
    text = "schema: pqlab/scenario/v1\nname: mine\nextends: base.yml\nhandshake: {min_count: 7}\n"
    scenario = load(folder, text)
    assert (scenario.name, scenario.repetitions) == ("mine", 2)
    assert scenario.handshake == {"count": 10, "min_count": 7, "max_s": 20, "pooled": None}
    origin = {path: where for path, _, where in scenario.leaves()}
    assert origin["handshake.min_count"].endswith("mine.yml:4")
    assert origin["traffic.session_s"].endswith("base.yml:7")
    gone = load(folder, "schema: pqlab/scenario/v1\nname: mine\nextends: base.yml\ntraffic: null\n")
    assert gone.traffic is None


def test_a_condition_may_name_overlays_of_its_own(folder: Path) -> None:
    text = BASE + (
        "conditions:\n  - name: plain\n  - name: slow\n    overlays: [rekey.yml]\n    rekey: {every_s: 1}\n"
    )
    scenario = load(folder, text)
    plain, slow = scenario.conditions
    assert names(scenario) == ["plain", "slow"]
    assert plain["rekey"] == "none" and slow["rekey"]["every_s"] == 1
    assert [e["kind"] for e in slow["events"]] == ["rekey"]


def test_a_run_s_copy_of_a_composed_scenario_means_the_same(folder: Path) -> None:
    scenario = load(folder, BASE + "overlays: [lossy.yml]\n", Overrides(levels=(3,), only=("ab",)))
    copy = folder / "scenario.effective.yml"
    copy.write_text(scenario.effective_yaml())
    again = load_effective(copy)
    assert (again.data, again.sha256, again.only) == (scenario.data, scenario.sha256, ("ab",))


def test_link_conditions_tell_what_they_do(folder: Path) -> None:
    lossy, control = load(folder, BASE + "overlays: [lossy.yml]\n").conditions
    (direct,) = load(folder, BASE).conditions
    assert (routed(direct), impairs(direct), is_control(direct)) == (False, False, False)
    assert (routed(control), impairs(control), is_control(control)) == (True, False, True)
    assert (routed(lossy), impairs(lossy), is_control(lossy)) == (True, True, False)
    assert lossy["link"]["probe"] is None
    event = {"events": [{"kind": "partition"}], "link": control["link"]}
    assert impairs(event) and routed(event)


def test_filters_narrow_and_say_so() -> None:
    wide = Overrides(levels=(3,), families=("mlkem",), tags=("standard",))
    scenario = load_scenario("baseline", wide)
    assert set(scenario.suites) == {f"cs-mlkem768-{a}-mldsa65" for a in ("aesgcm", "chacha20poly1305")}
    assert "--level" in {p: o for p, _, o in scenario.leaves()}["suites"]
    assert "--tag" in scenario.effective_yaml()
    both = load_scenario("baseline", Overrides(levels=(1, 5), families=("falcon",)))
    assert len(both.suites) == 3 * 3 * 2


TWINS = """\
conditions:
  - name: a
  - name: b
    rekey: {every_s: 1}
  - name: a-again
    aa_of: a
    suites: [cs-mlkem768-*]
    repetitions: [2]
"""


def test_twins_and_condition_filters(folder: Path) -> None:
    scenario = load(folder, BASE + TWINS)
    assert scenario.cell_count == 2 * 2 * 2 + 1
    assert ("cs-mlkem768-aesgcm-mldsa65", "a-again") in scenario.places(1)
    assert "a-again" not in {c for _, c in scenario.places(0)}
    one = load(folder, BASE + TWINS, Overrides(conditions=("b",)))
    assert names(one) == ["b"]
    origin = {path: where for path, _, where in one.leaves()}
    assert origin["conditions[0].rekey.every_s"].endswith("mine.yml:11")
    without = load(folder, BASE + TWINS, Overrides(suites=("cs-hqc*",)))
    assert names(without) == ["a", "b"]


#: (file text after BASE, where, what is said, what to do)
MISTAKES = [
    ("conditions: [{name: a, link: nune}]\n", "mine.yml:8", "cannot be 'nune'", "`none`"),
    (
        "conditions:\n  - name: a\n    link:\n      up: {dealy_ms: 3}\n",
        "mine.yml:11",
        "unknown key `dealy_ms`",
        "`delay_ms`",
    ),
    (
        "conditions: [{name: a, rekey: {start_s: 1}}]\n",
        "mine.yml:8",
        "key `every_s` is missing",
        "`every_s:`",
    ),
    (
        "conditions: [{name: a, rekey: {every_s: 1, start_s: 9}}]\n",
        "mine.yml:8",
        "the session 5 s",
        "lengthen",
    ),
    ("conditions: [{name: a, link: 7}]\n", "mine.yml:8", "must be text or a mapping", "conditions.0.link"),
    (
        "conditions:\n  - name: a\n    events:\n      - {at_s: 1, kind: patrition}\n",
        "mine.yml:11",
        "cannot be 'patrition'",
        "`partition`",
    ),
    (
        "conditions:\n  - name: a\n    events:\n      - {at_s: 1, kind: partition}\n",
        "mine.yml:11",
        "event `partition` lacks `for_s`",
        "`for_s:`",
    ),
    (
        "conditions:\n  - name: a\n    events:\n      - {at_s: 4, kind: partition, for_s: 3}\n",
        "mine.yml:11",
        "lasts until 7 s, the session 5 s",
        "session_s",
    ),
    (
        "conditions:\n  - name: a\n    events:\n      - {at_s: 1, kind: rekey, offset_ms: 3}\n",
        "mine.yml:11",
        "takes no `offset_ms`",
        "remove",
    ),
    ("conditions: [{name: a, aa_of: b}]\n", "mine.yml:8", "`aa_of` of condition `a` names `b`", "condition"),
    (
        "conditions:\n  - name: a\n  - name: b\n    aa_of: a\n    rekey: {every_s: 1}\n",
        "mine.yml:12",
        "A/A twin `b` differs from `a` in `rekey`",
        "remove `aa_of`",
    ),
    (
        "conditions:\n  - name: a\n    repetitions: [3]\n",
        "mine.yml:10",
        "names repetition 3 of 2",
        "`repetitions`",
    ),
    (
        "conditions:\n  - name: a\n    suites: [cs-hqc265-aesgcm-mldsa87]\n",
        "mine.yml:10",
        "no suite `cs-hqc265",
        "cs-hqc256",
    ),
    ("overlays: [rekey-2s]\n", "mine.yml:8", "no overlay `rekey-2s`", "`rekey-1s`"),
    ("overlays: lossy\n", "mine.yml:8", "must be a list of overlay names", "overlays"),
    ("extends: basline\n", "mine.yml:8", "no scenario `basline`", "`baseline`"),
    ("extends: 5\n", "mine.yml:8", "must be the name of a scenario", "extends"),
    ("thermal_gate: {below_c: warm}\n", "mine.yml:8", "must be a number or null", "thermal_gate"),
]


@pytest.mark.parametrize(("text", "where", "said", "next_step"), MISTAKES)
def test_golden(folder: Path, text: str, where: str, said: str, next_step: str) -> None:
    with pytest.raises(LabError) as caught:
        load(folder, BASE + text)
    assert caught.value.exit_code == EXIT_USAGE
    assert where in caught.value.what
    assert said in caught.value.what
    assert next_step in caught.value.hint


def test_a_mistake_in_an_overlay_names_the_overlay_s_line(folder: Path) -> None:
    (folder / "lossy.yml").write_text(LOSSY.replace("loss_pct: 5", "loss_pct: 500"))
    with pytest.raises(LabError) as caught:
        load(folder, BASE + "overlays: [lossy.yml]\n")
    assert "lossy.yml:7: `condition.link.up.loss_pct`: 500 is above" in caught.value.what
    (folder / "lossy.yml").write_text(LOSSY.replace("condition:", "conditon:"))
    with pytest.raises(LabError) as caught:
        load_scenario(str(folder / "base.yml"), Overrides(overlays=(str(folder / "lossy.yml"),)))
    assert "lossy.yml:5: unknown key `conditon`" in caught.value.what
    assert "did you mean `condition`" in caught.value.hint


def test_a_condition_refuses_an_overlay_of_the_whole_scenario(folder: Path) -> None:
    with pytest.raises(LabError) as caught:
        load(folder, BASE + "conditions:\n  - name: a\n    overlays: [lossy.yml]\n")
    assert "mine.yml:10: overlay `lossy.yml` sets more than a condition" in caught.value.what


def test_a_circle_is_found(folder: Path) -> None:
    (folder / "base.yml").write_text("schema: pqlab/scenario/v1\nname: base\nextends: mine.yml\n")
    with pytest.raises(LabError) as caught:
        load(folder, "schema: pqlab/scenario/v1\nname: mine\nextends: base.yml\n")
    assert caught.value.code == "extends-circle"


@pytest.mark.parametrize(
    ("overrides", "said", "next_step"),
    [
        (Overrides(families=("mlkm",)), "--family mlkm selects nothing", "--family mlkem"),
        (Overrides(tags=("standart",)), "--tag standart selects nothing", "--tag standard"),
        (Overrides(conditions=("basline",)), "--condition basline selects nothing", "--condition baseline"),
        (Overrides(levels=(1,), suites=("cs-mlkem768-*",)), "no suite is left", "--level"),
        (Overrides(only=("xyz",)), "--only xyz", "pqlab plan"),
        (Overrides(overlays=("rekey-2s",)), "no overlay `rekey-2s`", "`rekey-1s`"),
    ],
)
def test_filters_that_select_nothing(overrides: Overrides, said: str, next_step: str) -> None:
    with pytest.raises(LabError) as caught:
        load_scenario("baseline", overrides)
    assert caught.value.exit_code == EXIT_USAGE
    assert said in caught.value.what
    assert next_step in caught.value.hint


def test_a_twin_without_its_condition_is_refused(folder: Path) -> None:
    with pytest.raises(LabError) as caught:
        load(folder, BASE + TWINS, Overrides(conditions=("a-again",)))
    assert caught.value.hint == "add --condition a"


def test_every_shipped_overlay_composes_with_every_shipped_scenario_that_has_a_session() -> None:
    assert {"rekey-1s", "link-0"} <= set(available_overlays())
    for name, file in available_overlays().items():
        assert read_overlay(str(file), None).data["name"] == name
        load_scenario("smoke", Overrides(overlays=(name,)))


@pytest.mark.parametrize("name", list(available_scenarios()))
def test_a_shipped_campaign_that_impairs_the_link_has_its_control(name: str) -> None:
    assert control_lacks(load_scenario(name).conditions) == ""


def test_a_campaign_without_a_control_is_told_so() -> None:
    narrow, nothing = {"link": {"up": {"rate_kbps": 64}}}, {"link": {}}
    assert "link-0" in control_lacks([{"link": "none"}, narrow])
    assert control_lacks([narrow, nothing]) == control_lacks([{"link": "none"}]) == ""
