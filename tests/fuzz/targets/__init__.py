"""Fuzz targets: one a grammar, with both its ends. A target takes bytes and returns; a raise is a finding.

Each does more than look for crashes: it states what must hold of anything the parser accepts or refuses.
Everything a target needs lies in the tree; the native core is looked at where its wheel is installed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
for _part in (
    "base/src",
    "tunnel/src",
    "spec/src",
    "telemetry/src",
    "sitl/src",
    "link/src",
    "attacker/src",
    "detectors/src",
    "evidence/src",
    "conduct/src",
    "tunnel/tests/core",
    "evidence/tests",
    "conduct/tests",
    "tests/fuzz",
):
    if str(ROOT / _part) not in sys.path:
        sys.path.insert(0, str(ROOT / _part))

MODULES = (
    "wire",
    "handshake",
    "packets",
    "roaming",
    "control",
    "link",
    "attacker",
    "archives",
    "bundles",
    "files",
)


@dataclass(frozen=True)
class Target:
    """`run` returns for whatever the parser may do and raises for the rest; `seeds` are small good inputs."""

    about: str
    run: Callable[[bytes], None]
    seeds: Callable[[], dict[str, bytes]]
    code: tuple[str, ...]
    """The parser's files, as patterns from the root: hours of search count while their code stays."""
    words: list[bytes] = field(default_factory=list)
    limit: int = 4096


def either(*scenes: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """One target of several scenes around the same code: the first byte picks, the rest is the scene's."""

    def run(data: bytes) -> None:
        scenes[data[0] % len(scenes) if data else 0](data[1:])

    return run


def scene(number: int, seeds: dict[str, bytes]) -> dict[str, bytes]:
    """The seeds of one scene of `either`."""
    return {f"{name}-{number}": bytes((number,)) + data for name, data in seeds.items()}


def table() -> dict[str, Target]:
    """All targets by name."""
    found: dict[str, Target] = {}
    for module in MODULES:
        found.update(importlib.import_module(f"targets.{module}").TARGETS)
    return found


def names() -> list[str]:
    """Names of all targets."""
    return list(table())


def find(name: str) -> Target:
    """One target. Raises KeyError."""
    return table()[name]
