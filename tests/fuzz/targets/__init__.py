"""Fuzz targets: one a parser. A target takes bytes and returns; whatever it raises is a finding.

Each does more than look for crashes: it states what must hold of anything the parser accepts or refuses.
Everything a target needs lies in the tree; native code is optional and said to be missing where it is.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
for _part in (
    "tunnel/src",
    "telemetry/src",
    "sitl/src",
    "link/src",
    "attacker/src",
    "detectors/src",
    "lab/src",
    "tunnel/tests/core",
    "lab/tests",
    "tests/fuzz",
):
    if str(ROOT / _part) not in sys.path:
        sys.path.insert(0, str(ROOT / _part))

MODULES = ("handshake", "wire", "packets", "control", "files", "bundles", "link", "attacker", "roaming")


def _nothing_missing() -> str:
    return ""


@dataclass(frozen=True)
class Target:
    """`run` returns for whatever the parser may do and raises for the rest; `seeds` are small good inputs."""

    about: str
    run: Callable[[bytes], None]
    seeds: Callable[[], dict[str, bytes]]
    words: list[bytes] = field(default_factory=list)
    limit: int = 4096
    missing: Callable[[], str] = _nothing_missing
    """Why it cannot run on this host, or ''."""


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
