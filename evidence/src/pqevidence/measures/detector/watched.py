"""Cells that a detector watched, and the windows that were due in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pqbase.documents import part_of
from pqdetect.service.verdict import WINDOW_NS
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.measures.detector.record import AFTERMATH_NS, due_windows
from pqevidence.scenario.conditions import NO_DETECTOR as NONE


def watched_cells(bundle: BundleData) -> dict[str, list[Cell]]:
    """Detector → the cells that it watched and that are results."""
    watched: dict[str, list[Cell]] = defaultdict(list)
    for cell in bundle.cells:
        name = cell.value("S", "detector_name")
        if cell.verdict in ("pass", "fail") and name is not None and name["value"] != NONE:
            watched[str(name["value"])].append(cell)
    return watched


def gate_of(cell: Cell) -> tuple[int, int] | None:
    side = part_of(cell.traffic_windows.get("traffic") or {}, "drone", {})
    opened, closed = side.get("open_ns"), side.get("close_ns")
    return (int(opened), int(closed)) if isinstance(opened, int) and isinstance(closed, int) else None


def due_windows_of(cell: Cell) -> range:
    """The windows that lie wholly in the session; none without one."""
    gate = gate_of(cell)
    return range(0) if gate is None else due_windows(gate)


def alarm_is_caused(window: int, episodes: Iterable[tuple[int, int]]) -> bool:
    """An alarm of this window may come from an attack: one lasts in it, or had ended within 3 s before."""
    begins, ends = window * WINDOW_NS, (window + 1) * WINDOW_NS
    return any(on < ends and begins < off + AFTERMATH_NS for on, off in episodes)
