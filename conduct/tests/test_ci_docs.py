"""docs/CI.md: a workflow that parses, commands that the command line takes, the real exit codes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from pqevidence import errors
from pqlab.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "CI.md").read_text(encoding="utf-8")
FENCED = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def steps() -> list[str]:
    (workflow,) = [body for kind, body in FENCED.findall(TEXT) if kind == "yaml"]
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def commands() -> list[str]:
    """Every line that calls pqlab, as a shell would see it up to the next command."""
    shown = [line for kind, body in FENCED.findall(TEXT) if kind == "console" for line in body.splitlines()]
    calls = [re.split(r"\|\||&&|;", line)[0].strip() for line in [*steps(), *shown]]
    return [line for line in calls if line.startswith("./pqlab ")]


@pytest.mark.parametrize("line", commands())
def test_every_command_is_one(line: str) -> None:
    args = build_parser().parse_args(shlex.split(line)[1:])
    assert callable(args.run)


def test_the_workflow_measures_checks_compares_and_keeps() -> None:
    verbs = [shlex.split(line)[1] for line in steps() if line.startswith("./pqlab ")]
    assert verbs == ["run", "verify", "compare", "index"]


def test_the_table_of_exit_codes_is_whole() -> None:
    table = TEXT.split("## Exit codes", 1)[1].split("## ", 1)[0]
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert told == {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("Exit codes: ", 1)[1].split("\n", 1)[0]
    assert {int(code) for code in re.findall(r"(?:^|, )(\d+) ", readme)} == told
