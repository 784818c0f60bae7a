"""A claim of a report: what the page says, in its own three parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A finding as printed: what is said, the effect, and what it rests on."""

    statement: str
    effect: str
    basis: str
