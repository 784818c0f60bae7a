"""What the README tells a reader to type exists, and the end-to-end tests type it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(
    set(re.findall(r"`((?:make|\./pqlab|\./pqtunnel) [^`]+)`", README))
    | {part.strip() for line in re.findall(r"^\$ (.+)$", README, re.M) for part in line.split("&&")}
)


def test_commands_were_found() -> None:
    assert len(COMMANDS) >= 10


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {c.split()[1] for c in COMMANDS if c.startswith("make ")}
    assert named <= targets


def test_verbs_and_scenarios_exist() -> None:
    verbs = {p.stem for p in (ROOT / "conduct/src/pqlab/cli").glob("*.py")}
    scenarios = {p.stem for p in (ROOT / "scenarios").glob("*.yml")}
    overlays = {p.stem for p in (ROOT / "scenarios/overlays").glob("*.yml")}
    for command in COMMANDS:
        words = command.split()
        if words[0] == "./pqlab":
            assert words[1].replace("-", "_") in verbs, command
            assert set(_positional(words[2:], overlays)) <= scenarios, command
        for name in re.findall(r"SCENARIO=(\S+)", command):
            assert name in scenarios, command


#: options of `pqlab run` that take no value
FLAGS = ("--busy-ok",)


def _positional(words: list[str], overlays: set[str]) -> list[str]:
    """The words that are no option; what an option names must exist."""
    left, rest = [], iter(words)
    for word in rest:
        if word == "--with":
            assert next(rest) in overlays
        elif word in FLAGS:
            continue
        elif word == "--inventory":
            assert (ROOT / next(rest)).is_file()
        else:
            left.append(word)
    return left


def test_the_page_of_commands_names_what_there_is() -> None:
    typed = re.findall(
        r"`((?:make|\./pqlab) [^`]+)`", (ROOT / "docs/COMMANDS.md").read_text(encoding="utf-8")
    )
    verbs = {p.stem.replace("_", "-") for p in (ROOT / "conduct/src/pqlab/cli").glob("*.py")}
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert len(typed) >= 30
    known = {"make": targets, "./pqlab": verbs}
    told = [line.split()[:2] for line in typed]
    # VERB and --help stand for any verb
    assert [pair for pair in told if pair[1] not in {*known[pair[0]], "VERB", "--help"}] == []


def test_the_first_command_is_what_the_lab_tests_run() -> None:
    typed = "".join(p.read_text() for p in sorted((ROOT / "tests/e2e").glob("*.py")))
    for words in ('"make", "lab-up"', '"make", "run", "SCENARIO=smoke"', '"make", "lab-down"', '"verify"'):
        assert words in typed


def test_linked_files_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
