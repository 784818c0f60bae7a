"""A corpus of bundles that must be rejected, each by the check it names.

Every function takes a copy of a small good bundle and spoils one thing in it, the way a careless or
dishonest laboratory would: the files around it are made to fit (tag files, metadata, report hash, medians),
so that only the check that is meant can find it. Nothing here uses the code under test.

    python -m bad_bundles GOOD OUT      (in evidence/tests) writes every bad bundle to OUT/<name>
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

THEMES = (
    "fixity", "plans", "campaigns", "corrections", "times", "records", "hosts", "texts",
    "neighbours", "flightlogs", "witnesses", "attested",
)  # fmt: skip
#: each measure has its own beside its tests
MEASURES = [path.parent.name for path in (Path(__file__).parents[1] / "measures").glob("*/bad_bundles.py")]


@dataclass(frozen=True)
class BadBundle:
    """One way to spoil a bundle, and the check that must say so."""

    name: str
    check: str
    spoil: Callable[[Path], None]
    why: str


def corpus() -> Iterator[BadBundle]:
    """All of them, in the order of the themes, then those of the measures."""
    themes = [f"bad_bundles.{theme}" for theme in THEMES]
    themes += [f"measures.{measure}.bad_bundles" for measure in sorted(MEASURES)]
    for theme in themes:
        module = importlib.import_module(theme)
        for name, (check, function) in module.BAD.items():
            yield BadBundle(name, check, function, (function.__doc__ or "").strip())
