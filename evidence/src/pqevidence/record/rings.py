"""Rings: what a number comes from, and so what may be claimed of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: the weakest claim first: simulated, containers of one machine, real boards
RINGS: Final = ("sim", "lab", "hardware")


def weakest(rings: Iterable[str]) -> str:
    """What may be claimed of all of them together. Raises ValueError for none, and for what is no ring."""
    return min(rings, key=RINGS.index)
