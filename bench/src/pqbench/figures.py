"""Medians and paired ratios of the bench; quantiles are those of pqbase.stats."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pqbase.documents import Json
from pqbase.stats import tail


def median(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return statistics.median(values) if values else None


def paired_ratio(mine: Sequence[float], other: Sequence[float]) -> float | None:
    """Median of the ratios within each round; None when a round is missing on one side or is zero."""
    if not mine or len(mine) != len(other) or min(other) <= 0:
        return None
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))


def rounded(value: float | None, digits: int = 3) -> float | None:
    """Rounded for people; None stays None."""
    return None if value is None else round(value, digits)


def of_handshakes(taken: Sequence[dict[str, float]]) -> Json:
    """Medians of handshakes, each with `wall_ms`, `crypto_ms` and, of that, `keygen_ms`; none of none."""
    walls = [row["wall_ms"] for row in taken]
    found: dict[str, float | None] = {
        "wall_median_ms": median(walls),
        "wall_p95_ms": tail(walls, 0.95),
        "crypto_median_ms": median([row["crypto_ms"] for row in taken]),
        "ratio_median": median([row["wall_ms"] / row["crypto_ms"] for row in taken]),
        "keygen_median_ms": median([row["keygen_ms"] for row in taken]),
        "rest_median_ms": median([row["wall_ms"] - row["keygen_ms"] for row in taken]),
    }
    medians = {name: rounded(value) for name, value in found.items()}
    missing = {} if walls else {"missing": "no handshake completed"}
    return {"n": len(walls), "wall_ms": walls, **medians, **missing}
