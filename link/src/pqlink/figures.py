"""What was achieved, in figures: counts, loss with its interval, delay with its spread. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Final

from pqbase.documents import Json

_Z95: Final = 1.959964


def wilson_pct(hits: int, n: int, z: float = _Z95) -> tuple[float, float]:
    """Wilson score interval of a share, percent (E. B. Wilson, 1927). n must be above 0."""
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def loss_figures(sent: int, received: int) -> Json:
    """Of `sent` probes `received` came; the 95 % interval holds for independent losses."""
    lost = sent - received
    if sent <= 0:
        nothing = dict.fromkeys(("loss_pct", "loss_low_pct", "loss_high_pct"))
        return {"n": sent, "received": received, "lost": lost, **nothing}
    low, high = wilson_pct(lost, sent)
    return {
        "n": sent,
        "received": received,
        "lost": lost,
        "loss_pct": round(100 * lost / sent, 4),
        "loss_low_pct": round(low, 4),
        "loss_high_pct": round(high, 4),
    }


def time_figures(times_ns: Sequence[int], name: str) -> Json:
    """`name`_mean_ms, _sd_ms, _min_ms, _p50_ms, _max_ms; nulls where there is too little to say."""
    values = [t / 1e6 for t in times_ns]
    figures: dict[str, float | None] = {
        "mean": fmean(values) if values else None,
        "sd": stdev(values) if len(values) > 1 else None,
        "min": min(values, default=None),
        "p50": median(values) if values else None,
        "max": max(values, default=None),
    }
    return {f"{name}_{key}_ms": None if v is None else round(v, 4) for key, v in figures.items()}
