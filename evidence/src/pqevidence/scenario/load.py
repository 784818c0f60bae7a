"""From a scenario's name or file to the effective scenario: compose, check, defaults, options, suites."""

from __future__ import annotations

import copy
from pathlib import Path

from pqbase.documents import Json, part_of, part_or_none, texts_of
from pqevidence.errors import UsageError
from pqevidence.scenario.check import problems, raise_for, schema
from pqevidence.scenario.compose import available_scenarios, compose, find_file
from pqevidence.scenario.marks import KeyPath, MarkedYaml, read_marked
from pqevidence.scenario.model import READER_KEYS, Overrides, Scenario
from pqevidence.scenario.rules import cross_check
from pqevidence.scenario.select import select
from pqevidence.scenario.traces import resolve

DEFAULT = "default"


def find_scenario(name_or_path: str) -> Path:
    """The file of a scenario given by name (`smoke`) or by path. Raises UsageError naming the nearest one."""
    return find_file(name_or_path, available_scenarios(), "scenario")


def load_scenario(name_or_path: str, overrides: Overrides | None = None) -> Scenario:
    """Read, compose, check and complete a scenario. Raises ScenarioError: file, line, nearest key."""
    asked = overrides or Overrides()
    marked, sources = compose(find_scenario(name_or_path), asked.overlays)
    raise_for(problems(marked))
    data, origins = completed(marked)
    _override(data, origins, asked)
    traces, wrong = resolve(data, origins, marked)
    raise_for([*wrong, *cross_check(data, marked)])
    select(data, origins, marked, asked)
    return Scenario(data, origins, marked.file, tuple(sources), traces)


def load_effective(file: Path) -> Scenario:
    """A scenario as a run wrote it down: complete and expanded. Raises ScenarioError when it was altered."""
    marked = read_marked(file)
    told = {key: marked.data.pop(key, None) for key in READER_KEYS}
    raise_for(problems(marked))
    data, origins = completed(marked)
    moved = {path: str(option) for path, option in part_of(told, "overrides", {}).items()}
    return Scenario(data, {**origins, **moved}, file, tuple(texts_of(told, "composed_of", [])))


def completed(marked: MarkedYaml) -> tuple[Json, dict[str, str]]:
    """The document with the schema's defaults, and the origin of every leaf by its dotted path."""
    origins: dict[str, str] = {}
    return _filled(copy.deepcopy(marked.data), schema(), (), "", marked, origins), origins


def _complete(
    value: object, rule: Json, path: KeyPath, dotted: str, marked: MarkedYaml, origins: dict[str, str]
) -> object:
    """`value` with the schema's defaults, in schema order; notes the origin of every leaf."""
    rule = _rule_for(value, rule)
    if isinstance(value, dict) and "properties" in rule:
        return _filled(value, rule, path, dotted, marked, origins)
    if isinstance(value, dict):  # keys of the user's own: each is a leaf, or holds some
        others = rule.get("additionalProperties")
        inner = others if isinstance(others, dict) else {}
        return {
            key: _complete(held, inner, (*path, key), f"{dotted}.{key}", marked, origins)
            for key, held in value.items()
        }
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [
            _complete(item, part_of(rule, "items", {}), (*path, index), f"{dotted}[{index}]", marked, origins)
            for index, item in enumerate(value)
        ]
    origins[dotted] = str(marked.places[path]) if path in marked.places else DEFAULT
    return value


def _filled(
    value: Json, rule: Json, path: KeyPath, dotted: str, marked: MarkedYaml, origins: dict[str, str]
) -> Json:
    """A mapping whose keys the schema names, in schema order, defaults where it says nothing."""
    filled: Json = {}
    properties = part_of(rule, "properties")
    for key in properties:
        inner = part_of(properties, key)
        at = f"{dotted}.{key}" if dotted else key
        if key in value:
            filled[key] = _complete(value[key], inner, (*path, key), at, marked, origins)
        elif "default" in (given := _resolved(inner)):
            filled[key] = _complete(copy.deepcopy(given["default"]), inner, (*path, key), at, marked, origins)
    return filled


def _resolved(rule: Json) -> Json:
    """The rule with what its `$ref` names; keys beside the reference win."""
    if "$ref" not in rule:
        return rule
    target = part_of(part_of(schema(), "$defs"), str(rule["$ref"]).removeprefix("#/$defs/"))
    return {**target, **{key: value for key, value in rule.items() if key != "$ref"}}


def _rule_for(value: object, rule: Json) -> Json:
    """The rule that holds for this value where the schema branches between a word and a mapping."""
    rule = _resolved(rule)
    if isinstance(value, dict) and "properties" not in rule:
        for branch in ("then", "else"):
            if "$ref" in (told := part_of(rule, branch, {})):
                return _resolved(told)
    return rule


def _override(data: Json, origins: dict[str, str], overrides: Overrides) -> None:
    if overrides.session_s is not None:
        traffic = part_or_none(data, "traffic")
        if traffic is None:
            raise UsageError(
                "no-session",
                "--session-s has nothing to set",
                f"scenario {data['name']} has no MAVLink session",
                "leave --session-s out, or give the scenario a `traffic:` block",
            )
        if not 0.5 <= overrides.session_s <= 3600:
            raise UsageError(
                "bad-session",
                f"--session-s {overrides.session_s:g} is outside 0.5 … 3600 s",
                "shorter than half a second holds too few datagrams; both ends keep the samples of an hour",
                "--session-s 5",
            )
        traffic["session_s"] = overrides.session_s
        origins["traffic.session_s"] = "--session-s"
    if overrides.repetitions is not None:
        if not 1 <= overrides.repetitions <= 1000:
            raise UsageError(
                "bad-reps",
                f"--reps {overrides.repetitions} is outside 1 … 1000",
                "each repetition is one more cell of every suite",
                "--reps 1",
            )
        data["repetitions"] = overrides.repetitions
        origins["repetitions"] = "--reps"
    if overrides.suites is not None:
        data["suites"] = list(overrides.suites)
        origins["suites"] = "--suites"
