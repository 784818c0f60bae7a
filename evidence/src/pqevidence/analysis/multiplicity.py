"""Many tests at once: Holm's step-down for claims, Benjamini–Hochberg beside it as a screen."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values (Holm 1979): those at most α are claims with family-wise error ≤ α, whatever the
    dependence. None (no test was made) stays None and counts for nothing."""
    tested = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(tested):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        adjusted[index] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """q-values (Benjamini and Hochberg 1995): expected share of false ones among those at most q; a screen,
    never a claim here."""
    tested = sorted(((p, i) for i, p in enumerate(p_values) if p is not None), reverse=True)
    adjusted: list[float | None] = [None] * len(p_values)
    lowest = 1.0
    for below, (p, index) in enumerate(tested):
        lowest = min(lowest, p * len(tested) / (len(tested) - below))
        adjusted[index] = lowest
    return adjusted
