"""Forgeries by class. A forgery is a function over a copy of an honest bundle; its docstring is what a reader
would be led to believe."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from adversary.raw import Bundle

Change = Callable[[Bundle], None]
THEMES = ("times", "counts", "places", "claims", "shape", "relabel", "readers", "runs", "steps", "witnesses")


@dataclass(frozen=True)
class Forgery:
    """One forgery on one material.

    witnessed: something else in the bundle still tells the truth; False where every witness was rewritten,
    which only an attested measurement stops. pages: the forger lets the lab's builder make records, tables
    and pages again; without, the forgery lies above raw, or where the builder does not look. last: the change
    comes after all that the builder writes, just before the manifests.
    """

    name: str
    klass: str
    material: str
    change: Change
    belief: str
    witnessed: bool
    pages: bool
    last: bool = False

    @property
    def label(self) -> str:
        return f"{self.material}-{self.name}"


_FOUND: list[Forgery] = []


def forgery(
    klass: str, *materials: str, witnessed: bool = True, pages: bool = True, last: bool = False
) -> Callable[[Change], Change]:
    """Decorator: file a function under its class, once for each material."""

    def register(change: Change) -> Change:
        belief = " ".join((change.__doc__ or "").split())
        for material in materials:
            _FOUND.append(Forgery(change.__name__, klass, material, change, belief, witnessed, pages, last))
        return change

    return register


def forgeries() -> Iterator[Forgery]:
    """All of them, by theme."""
    for theme in THEMES:
        importlib.import_module(f"adversary.forgeries.{theme}")
    yield from _FOUND
