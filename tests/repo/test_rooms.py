"""Arrows between packages and rooms go one way: evidence knows nothing of conduct, and no circle is new.

A room is a folder or a module right below its package. Imports inside functions count, those for type
checkers too, and names of modules in strings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: package → its sources
PACKAGES = {path.parent.name: path.parents[1] for path in ROOT.glob("*/src/*/__init__.py")}
DOTTED = re.compile(r"\w+(\.\w+)+$", re.ASCII)
#: rooms that know each other: the doctor asks the agents, the campaign tunes the machine
CIRCLES = [{"pqlab.campaign", "pqlab.doctor"}]


def names_in(path: Path, package: str = "") -> Iterator[str]:
    """Full names that a file imports; `package`: where relative imports begin."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.match(node.value):
            yield node.value  # what import_module, resources.files, monkeypatch and the like are given


def rooms_of(*packages: str) -> dict[str, set[str]]:
    """Room → rooms of the named packages that it knows."""
    known: dict[str, set[str]] = {}
    for package in packages:
        for path in (PACKAGES[package] / package).rglob("*.py"):
            inner = path.relative_to(PACKAGES[package]).with_suffix("").parts
            room = ".".join(inner[:2])
            there = known.setdefault(room, set())
            for name in names_in(path, ".".join(inner[:-1])):
                parts = name.split(".")
                if parts[0] in packages and len(parts) > 1:
                    there.add(".".join(parts[:2]))
    return {room: {other for other in there if other in known} - {room} for room, there in known.items()}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Largest sets of rooms each of which reaches every other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in graph[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    reach = {room: reached(room) for room in graph}
    found = {
        frozenset({room, *(other for other in there if room in reach[other])})
        for room, there in reach.items()
        if room in there
    }
    return sorted((set(circle) for circle in found), key=sorted)


@pytest.mark.parametrize("folder", ["evidence/src", "evidence/tests"])
def test_evidence_knows_nothing_of_conduct(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    told = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in names_in(path)
        if name.split(".")[0] == "pqlab"
    ]
    assert not told, "what evidence needs belongs in evidence; what needs a lab belongs in conduct"


def test_only_conduct_stands_on_evidence() -> None:
    told = [
        f"{package} imports {name}"
        for package, source in PACKAGES.items()
        if package not in ("pqlab", "pqevidence")
        for path in (source / package).rglob("*.py")
        for name in names_in(path, package)
        if name.split(".")[0] in ("pqlab", "pqevidence")
    ]
    assert not told


def test_the_tunnel_does_not_know_its_specification() -> None:
    """No endpoint has it: what an agent runs is native."""
    told = [
        f"{package} imports {name}"
        for package in ("pqbase", "pqtunnel", "pqtelemetry", "pqsitl", "pqbench", "pqevidence")
        for path in (PACKAGES[package] / package).rglob("*.py")
        for name in names_in(path, package)
        if name.split(".")[0] == "pqspec"
    ]
    assert not told


def test_no_circle_of_rooms_is_new() -> None:
    graph = rooms_of("pqevidence", "pqlab")
    assert len(graph) > 30
    assert circles(graph) == CIRCLES


MEASURES = PACKAGES["pqevidence"] / "pqevidence" / "measures"
#: what everybody may know of the measures: the tuple, and what a measure is
COMMON = {"MEASURES", "measure", "place"}
#: measure → those that it knows all the same, and why
KNOWN_TO: dict[str, set[str]] = {}


def _measures_in(path: Path) -> set[str]:
    """Measures that a file imports, and whatever else of their room is not common."""
    source = next(source for source in PACKAGES.values() if source in path.parents)
    package = ".".join(path.relative_to(source).parts[:-1])
    names = (name.split(".") for name in names_in(path, package))
    return {name[2] for name in names if name[:2] == ["pqevidence", "measures"] and len(name) > 2} - COMMON


def test_measures_do_not_know_one_another() -> None:
    folders = [path.parent for path in sorted(MEASURES.glob("*/__init__.py"))]
    assert folders
    told = {
        f"{path.relative_to(MEASURES)} imports {other}"
        for folder in folders
        for path in folder.rglob("*.py")
        for other in _measures_in(path) - {folder.name} - KNOWN_TO.get(folder.name, set())
    }
    assert not told, "what two measures need belongs beneath them: record, analysis, report or kernel"


def test_only_the_tuple_is_known_outside() -> None:
    told = {
        f"{path.relative_to(source)} imports measures.{other}"
        for source in PACKAGES.values()
        for path in source.rglob("*.py")
        if MEASURES not in path.parents
        for other in _measures_in(path)
    }
    assert not told, "iterate over MEASURES; what one measure alone needs belongs into its folder"
