"""What the vehicle sent beside its mix: answers to what the ground asked, which no nominal rate knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def beside_of(window: Mapping[str, Any] | None) -> tuple[int, dict[int, int]]:
    """(count, sizes) of the vehicle's frames that its mix does not hold: answers to a workload, which no
    nominal rate knows. Nothing where no workload was asked for."""
    sides = window or {}
    report = (sides.get("gcs") or {}).get("source_report") or {}
    if not report.get("workload"):
        return 0, {}
    told = ((sides.get("drone") or {}).get("source_report") or {}).get("beside") or {}
    sizes = {int(size): int(count) for size, count in (told.get("sizes") or {}).items()}
    return int(told.get("count") or 0), sizes


def without_beside(
    count: int, sizes: dict[int, int], window: Mapping[str, Any] | None
) -> tuple[int, dict[int, int]]:
    """Count and sizes of a window less what the vehicle sent beside its mix."""
    beside_count, beside_sizes = beside_of(window)
    left = {size: number - beside_sizes.get(size, 0) for size, number in sizes.items()}
    return max(0, count - beside_count), {size: number for size, number in left.items() if number > 0}
