"""From a scenario's name or file to the effective scenario: parse, check, defaults, overrides, suites."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from pqlab.errors import ScenarioError, UsageError
from pqlab.paths import project_root, shown
from pqlab.scenario.check import Problem, nearest, problems, schema
from pqlab.scenario.marks import KeyPath, MarkedYaml, read_marked
from pqlab.scenario.model import Overrides, Scenario
from pqtunnel import suites as registry
from pqtunnel.errors import SuiteUnknown

DEFAULT = "default"
#: problems listed in one error; the rest is counted
_SHOWN_PROBLEMS = 10


def available_scenarios(root: Path | None = None) -> dict[str, Path]:
    """Name → file of the scenarios shipped in `scenarios/`."""
    folder = (root or project_root()) / "scenarios"
    return {file.stem: file for file in sorted(folder.glob("*.yml"))}


def find_scenario(name_or_path: str) -> Path:
    """The file of a scenario given by name (`smoke`) or by path. Raises UsageError naming the nearest one."""
    as_path = Path(name_or_path)
    if as_path.suffix in (".yml", ".yaml") or as_path.is_file():
        if as_path.is_file():
            return as_path
        raise UsageError(
            "no-scenario", f"there is no file {name_or_path}", "a name with .yml is taken for a path",
            "./pqlab validate lists the shipped scenarios",
        )  # fmt: skip
    known = available_scenarios()
    if name_or_path in known:
        return known[name_or_path]
    close = nearest(name_or_path, list(known))
    raise UsageError(
        "no-scenario",
        f"there is no scenario `{name_or_path}`",
        "shipped: " + (", ".join(known) or "none"),
        f"did you mean `{close}`?" if close else "give one of them, or the path of a .yml file",
    )


def load_scenario(name_or_path: str, overrides: Overrides | None = None) -> Scenario:
    """Read, check and complete a scenario. Raises ScenarioError (exit 2): file, line, nearest key."""
    marked = read_marked(find_scenario(name_or_path))
    _raise(problems(marked), marked)
    data = copy.deepcopy(marked.data)
    origins: dict[str, str] = {}
    data = _complete(data, schema(), (), "", marked, origins)
    _override(data, origins, overrides or Overrides())
    _cross_check(data, marked)
    _expand_suites(data, origins, marked)
    return Scenario(data, origins, marked.file)


def load_effective(file: Path) -> Scenario:
    """A scenario as a run wrote it down: complete and expanded. Raises ScenarioError when it was altered."""
    marked = read_marked(file)
    overrides = marked.data.pop("overrides", {})
    _raise(problems(marked), marked)
    origins: dict[str, str] = {}
    data = _complete(marked.data, schema(), (), "", marked, origins)
    return Scenario(data, {**origins, **overrides}, file)


def _raise(found: list[Problem], marked: MarkedYaml) -> None:
    if not found:
        return
    name = shown(marked.file)
    first = found[0]
    what = f"{name}:{first.line}: {first.message}"
    more = [f"\n       {name}:{p.line}: {p.message} ({p.hint})" for p in found[1:_SHOWN_PROBLEMS]]
    if len(found) > _SHOWN_PROBLEMS:
        more.append(f"\n       and {len(found) - _SHOWN_PROBLEMS} more")
    hint = f"{first.hint} Correct line {first.line}, then: ./pqlab validate {name}"
    raise ScenarioError("scenario-invalid", what + "".join(more), first.why, hint)


def _complete(
    value: Any, rule: dict[str, Any], path: KeyPath, dotted: str, marked: MarkedYaml, origins: dict[str, str]
) -> Any:
    """`value` with the schema's defaults, in schema order; notes the origin of every leaf."""
    if isinstance(value, dict) and "properties" in rule:
        filled: dict[str, Any] = {}
        for key, inner in rule["properties"].items():
            at = f"{dotted}.{key}" if dotted else key
            if key in value:
                filled[key] = _complete(value[key], inner, (*path, key), at, marked, origins)
            elif "default" in inner:
                filled[key] = _complete(
                    copy.deepcopy(inner["default"]), inner, (*path, key), at, marked, origins
                )
        return filled
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [
            _complete(item, rule["items"], (*path, index), f"{dotted}[{index}]", marked, origins)
            for index, item in enumerate(value)
        ]
    written = path in marked.lines
    origins[dotted] = f"{shown(marked.file)}:{marked.line(path)}" if written else DEFAULT
    return value


def _override(data: dict[str, Any], origins: dict[str, str], overrides: Overrides) -> None:
    if overrides.session_s is not None:
        if data["traffic"] is None:
            raise UsageError(
                "no-session",
                "--session-s has nothing to set",
                f"scenario {data['name']} has no MAVLink session",
                "leave --session-s out, or give the scenario a `traffic:` block",
            )
        if not 0.5 <= overrides.session_s <= 86400:
            raise UsageError(
                "bad-session",
                f"--session-s {overrides.session_s:g} is outside 0.5 … 86400 s",
                "a session shorter than half a second holds too few datagrams, one of days does not end",
                "--session-s 5",
            )
        data["traffic"]["session_s"] = overrides.session_s
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


def _cross_check(data: dict[str, Any], marked: MarkedYaml) -> None:
    found: list[Problem] = []
    handshake = data["handshake"]
    if handshake["min_count"] > handshake["count"]:
        found.append(
            Problem(
                marked.line(("handshake", "min_count")),
                f"`handshake.min_count` {handshake['min_count']} is above "
                f"`handshake.count` {handshake['count']}",
                "the least number of handshakes cannot exceed the wanted one",
                "lower min_count or raise count.",
            )
        )
    names = [c["name"] for c in data["conditions"]]
    for index, name in enumerate(names):
        if name in names[:index]:
            found.append(
                Problem(
                    marked.line(("conditions", index, "name")),
                    f"condition `{name}` is written twice",
                    "a condition's name is part of its cells' identity",
                    "give each condition its own name.",
                )
            )
    traffic = data["traffic"]
    if traffic and traffic["source"] == "tlog" and not traffic["path"]:
        found.append(
            Problem(
                marked.line(("traffic", "source")),
                "`traffic.path` is missing for source tlog",
                "a replay needs its recording",
                "add `path:` under `traffic`.",
            )
        )
    _raise(found, marked)


def _expand_suites(data: dict[str, Any], origins: dict[str, str], marked: MarkedYaml) -> None:
    from_option = origins["suites"] == "--suites"
    for index, pattern in enumerate(list(data["suites"])):
        try:
            registry.match([pattern])
        except SuiteUnknown as error:
            where = "--suites" if from_option else f"{shown(marked.file)}:{marked.line(('suites', index))}"
            raise ScenarioError(
                "unknown-suite",
                f"{where}: no suite `{pattern}`",
                "it is neither an id of the registry nor a pattern that matches one",
                (f"did you mean `{error.nearest}`? " if error.nearest else "")
                + "./pqtunnel suites lists them",
            ) from error
    data["suites"] = [suite.id for suite in registry.match(data["suites"])]
