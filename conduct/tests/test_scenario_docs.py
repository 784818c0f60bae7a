"""docs/SCENARIOS.md and docs/CONDITIONS.md against the schema: every key with its default,
every event, and examples that load.

python conduct/tests/test_scenario_docs.py      prints the tables as they have to stand there
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pqevidence.scenario import available_overlays, available_scenarios, load_scenario
from pqevidence.scenario.check import schema
from pqevidence.scenario.compose import read_overlay
from pqevidence.scenario.rules import _EVENT_KEYS
from pqlab.cli.main import main

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "docs" / "SCENARIOS.md"
CONDITIONS = ROOT / "docs" / "CONDITIONS.md"
#: table of the two pages → where its keys are in the schema
TABLES = {
    "scenario": (),
    "condition": ("conditions", "items"),
    "link": ("$defs", "link"),
    "link direction": ("$defs", "direction"),
    "attack": ("$defs", "attack"),
    "fleet": ("$defs", "fleet"),
    "rekey": ("$defs", "rekey"),
    "policy": ("$defs", "policy"),
    "step": ("$defs", "step"),
    "event": ("$defs", "event"),
}
#: tables of SCENARIOS; all others stand in CONDITIONS
OF_SCENARIOS = ("scenario", "step")
BLOCKS = ("handshake", "traffic", "bulk", "telemetry", "order", "thermal_gate")


def rule_at(path: tuple[str, ...]) -> Json:
    found = schema()
    for step in path:
        found = (
            found[step]
            if step.startswith("$") or step not in found.get("properties", {})
            else (found["properties"][step])
        )
    return found


def rows(rule: Json, prefix: str = "", *, deep: bool = True) -> Iterator[str]:
    """One line a key: name, what it takes, default, meaning."""
    for key, raw in rule["properties"].items():
        inner = _resolved(raw)
        default = "required" if key in rule.get("required", []) else "–"
        if "default" in inner:
            default = f"`{json.dumps(inner['default'])}`"
        meaning = str(inner.get("description", "")).replace("|", "/")
        yield f"| `{prefix}{key}` | {takes(inner)} | {default} | {meaning} |".replace("  ", " ")
        if deep and "properties" in inner and "$ref" not in raw:
            yield from rows(inner, f"{prefix}{key}.")


def _resolved(rule: Json) -> Json:
    if "$ref" not in rule:
        return rule
    return {**schema()["$defs"][rule["$ref"].removeprefix("#/$defs/")], **rule}


def takes(rule: Json) -> str:
    if "enum" in rule:
        return ", ".join("null" if value is None else f"`{value}`" for value in rule["enum"])
    kinds = rule.get("type", "object")
    words = {"integer": "whole number", "object": "mapping", "array": "list", "string": "text"}
    text = " or ".join(words.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))
    low, above, high = rule.get("minimum"), rule.get("exclusiveMinimum"), rule.get("maximum")
    least = f"≥ {low}" if low is not None else f"> {above}" if above is not None else ""
    most = f"≤ {high}" if high is not None else ""
    return ", ".join(filter(None, (text, least, most)))


def table(name: str) -> list[str]:
    deep = name != "scenario"
    lines = list(rows(rule_at(TABLES[name]), deep=deep))
    if name == "scenario":
        for block in BLOCKS:
            lines += rows(schema()["properties"][block], f"{block}.")
    return ["| key | takes | default | meaning |", "|---|---|---|---|", *lines]


def page(name: str) -> Path:
    return SCENARIOS if name in OF_SCENARIOS else CONDITIONS


def section(name: str) -> str:
    begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
    return page(name).read_text("utf-8").partition(begin)[2].partition(end)[0]


@pytest.mark.parametrize("name", TABLES)
def test_every_key_stands_in_its_table_with_its_default(name: str) -> None:
    told = section(name).strip().splitlines()
    assert told == table(name), f"python conduct/tests/test_scenario_docs.py prints what is due for {name}"


def test_every_event_stands_there_with_what_it_needs() -> None:
    told = {}
    for line in section("events").splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        told[cells[0].strip("`")] = tuple(tuple(re.findall(r"`(\w+)`", cell)) for cell in cells[1:3])
    assert told == _EVENT_KEYS


def test_the_shipped_files_are_listed() -> None:
    text = SCENARIOS.read_text("utf-8")
    for name in (*available_scenarios(), *available_overlays()):
        assert f"| `{name}` |" in text, name


def test_the_examples_are_valid(tmp_path: Path) -> None:
    both = SCENARIOS.read_text("utf-8") + CONDITIONS.read_text("utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", both, re.DOTALL)
    assert len(examples) >= 3
    for number, text in enumerate(examples):
        file = tmp_path / f"example-{number}.yml"
        file.write_text(text)
        if "pqlab/overlay/v1" in text:
            read_overlay(str(file), None)
        else:
            assert load_scenario(str(file)).cell_count > 0


@pytest.mark.parametrize("name", ["rekey-sweep", "soak", "beyond-72"])
def test_the_shipped_scenarios_validate_and_plan(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", name]) == 0
    assert main(["plan", name, "--json"]) in (0, 4)
    assert name in capsys.readouterr().out


def test_beyond_72_keeps_plain_out_of_what_needs_a_handshake() -> None:
    scenario = load_scenario("beyond-72")
    assert scenario.handshake["pooled"] == {"count": 30}
    places = scenario.places(0)
    assert ("plain", "psk") in places and ("plain", "drone-signs") not in places
    assert len({suite for suite, _ in places}) == 9
    levels = {condition["name"]: condition["drone_auth"] for condition in scenario.conditions}
    assert levels == {"psk": "psk", "drone-signs": "signature"}


if __name__ == "__main__":
    for each in TABLES:
        print(f"docs/{page(each).name}", f"<!-- table: {each} -->", *table(each), "<!-- end -->", sep="\n")
