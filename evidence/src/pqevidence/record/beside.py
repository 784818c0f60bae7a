"""What the vehicle sent beside its mix: answers to what the ground asked, which no nominal rate knows."""

from __future__ import annotations

from collections.abc import Mapping

from pqbase.documents import counts_of, part_of, whole_of


def beside_of(window: Mapping[str, object] | None) -> tuple[int, dict[int, int]]:
    """(count, sizes) of the vehicle's frames that its mix does not hold: answers to a workload, which no
    nominal rate knows. Nothing where no workload was asked for."""
    sides = window or {}
    report = part_of(part_of(sides, "gcs", {}), "source_report", {})
    if not report.get("workload"):
        return 0, {}
    told = part_of(part_of(part_of(sides, "drone", {}), "source_report", {}), "beside", {})
    sizes = {int(size): count for size, count in counts_of(told, "sizes", {}).items()}
    return whole_of(told, "count", 0), sizes


def without_beside(
    count: int, sizes: dict[int, int], window: Mapping[str, object] | None
) -> tuple[int, dict[int, int]]:
    """Count and sizes of a window less what the vehicle sent beside its mix."""
    beside_count, beside_sizes = beside_of(window)
    left = {size: number - beside_sizes.get(size, 0) for size, number in sizes.items()}
    return max(0, count - beside_count), {size: number for size, number in left.items() if number > 0}
