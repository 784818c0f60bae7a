"""Attacks in scenarios: what they mean together, and what is refused with its line before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqattack.settings import KINDS
from pqevidence.errors import ScenarioError
from pqevidence.scenario import available_overlays, load_scenario
from pqevidence.scenario.attacks import attack_events, attacked, episode_of
from pqevidence.scenario.check import schema
from pqevidence.scenario.conditions import impairs
from pqevidence.scenario.model import Overrides

HEAD = """schema: pqlab/scenario/v1
name: attacked
suites: [cs-mlkem768-aesgcm-mldsa65]
traffic: {session_s: 10}
conditions:
  - name: one
"""
LONG = HEAD.replace("session_s: 10", "session_s: 400")


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "attacked.yml"
    file.write_text(text)
    return str(file)


def test_the_schema_knows_the_attackers_kinds() -> None:
    assert tuple(schema()["$defs"]["attack"]["properties"]["kind"]["enum"]) == KINDS


def test_one_attack_and_several_are_the_same_list(tmp_path: Path) -> None:
    text = HEAD + (
        "    attack: {kind: forged, start_s: 5, for_s: 2}\n"
        "    events:\n"
        "      - {at_s: 1, kind: attack, for_s: 3, attack: {kind: flood, rate_pps: 20000, seed: 8}}\n"
    )
    condition = load_scenario(write(tmp_path, text)).conditions[0]
    events = attack_events(condition)
    assert [(e["at_s"], e["for_s"], e["attack"]["kind"]) for e in events] == [
        (1, 3, "flood"),
        (5, 2, "forged"),
    ]
    episodes = [episode_of(event, 77) for event in events]
    assert [(e.seed, e.rate_pps, e.target, e.path) for e in episodes] == [
        (8, 20000, "drone", "direct"),
        (77, 1000, "drone", "direct"),
    ]
    assert attacked(condition) and not impairs(condition), "on the direct path nothing may be lost"


def test_an_attack_over_the_link_may_cost_the_session_something(tmp_path: Path) -> None:
    text = HEAD + "    link: {}\n    attack: {kind: flood, for_s: 2, path: link}\n"
    condition = load_scenario(write(tmp_path, text)).conditions[0]
    assert impairs(condition)
    assert not attacked({"name": "x", "attack": "none", "events": []})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("    attack: {kind: forged, start_s: 9, for_s: 2}\n", "lasts until 11 s"),
        ("    attack: {kind: forged, start_s: 1}\n", "lacks `for_s`"),
        ("    attack: {kind: forged, for_s: 2, path: link}\n", "over the link and has none"),
        ("    attack: {kind: forged, for_s: 2, rate_pps: 25001}\n", "above the greatest value 25000"),
        ("    attack: {kind: forged, for_s: 2, adress: 192.0.2.1}\n", "unknown key `adress`"),
        ("    attack: {kind: froged, for_s: 2}\n", "did you mean `forged`?"),
        ("    attack: {for_s: 2}\n", "`kind` is missing"),
        ("    attack: all\n", "cannot be 'all'"),
        ("    attack: {kind: pulsing, for_s: 2}\n", "pulse_on_ms"),
        ("    attack: {kind: stray, for_s: 2, rate_pps: 21}\n", "rate_pps"),
        ("    attack: {kind: handshake-flood, for_s: 2}\n", "takes handshakes"),
        (
            "    attack: {kind: flood, start_s: 1, for_s: 4}\n"
            "    events: [{at_s: 3, kind: attack, for_s: 1, attack: {kind: flood}}]\n",
            "overlap at 3 s",
        ),
        ("    events: [{at_s: 3, kind: attack, for_s: 1}]\n", "lacks `attack`"),
        ("    events: [{at_s: 3, kind: attack, attack: {kind: flood}}]\n", "lacks `for_s`"),
        (
            "    events: [{at_s: 3, kind: attack, for_s: 1, attack: {kind: flood, start_s: 2}}]\n",
            "takes no `start_s`",
        ),
        ("    events: [{at_s: 3, kind: partition, for_s: 1, attack: {kind: flood}}]\n", "takes no `attack`"),
        ("    events: [{at_s: 3, kind: ground_pause}]\n", "lacks `for_s`"),
    ],
)
def test_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(tmp_path, HEAD + text))
    told = caught.value.text()
    assert words in told
    assert "attacked.yml:" in told


def test_two_minutes_a_cell_and_no_more(tmp_path: Path) -> None:
    one = "      - {{at_s: {}, kind: attack, for_s: 100, attack: {{kind: flood}}}}\n"
    with pytest.raises(ScenarioError, match="attacks for 200 s in all"):
        load_scenario(write(tmp_path, LONG + "    events:\n" + one.format(0) + one.format(150)))


def test_plain_proves_nothing_and_so_is_not_attacked(tmp_path: Path) -> None:
    text = HEAD.replace("[cs-mlkem768-aesgcm-mldsa65]", "[plain]") + "    attack: {kind: forged, for_s: 2}\n"
    with pytest.raises(ScenarioError, match="sets `attack` for suite plain"):
        load_scenario(write(tmp_path, text))


@pytest.mark.parametrize(
    "name", [n for n in available_overlays() if n.startswith(("attack-", "benign-", "narrow-"))]
)
def test_every_overlay_fits_a_short_session(name: str) -> None:
    scenario = load_scenario("smoke", Overrides(overlays=(name,), session_s=4))
    assert scenario.conditions[0]["name"] == f"baseline+{name}"
    assert attacked(scenario.conditions[0]) == (
        name.startswith("attack-")
        or name
        in (
            "benign-strays",
            "benign-stale-epochs",
        )
    )


def test_the_survey_holds_every_kind() -> None:
    scenario = load_scenario("attack-survey")
    kinds = {event["attack"]["kind"] for c in scenario.conditions for event in attack_events(c)}
    assert kinds == set(KINDS)
    over_link = {
        event["attack"]["kind"]
        for c in scenario.conditions
        for event in attack_events(c)
        if event["attack"]["path"] == "link"
    }
    assert over_link >= {"flood", "forged", "pulsing", "ramp", "spoof", "replay", "bad-header"}
    assert sum(not attacked(c) for c in scenario.conditions) >= 5, "and what only looks like it"
