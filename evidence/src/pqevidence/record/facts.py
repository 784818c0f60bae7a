"""What is known of a cell when its record is made: what each measure's part of the record is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pqevidence.record.dataplane import DataPlane
from pqevidence.record.raw import Json, RawCell, RawRun
from pqevidence.record.system import Telemetry
from pqtunnel.suites import Suite


@dataclass(frozen=True)
class Facts:
    """Raw files of one cell and of its run, and what is read of them once.

    condition: as the scenario has it. seed: that of the plan. suite: None for one that this build does not
    know. telemetry: by host, within the cell. span_ns: [start, end) that means are taken over, `span_name` in
    words: the traffic window, or the cell where there is none.
    """

    cell: RawCell
    context: RawRun
    condition: Json
    seed: int
    suite: Suite | None
    plane: DataPlane
    telemetry: Mapping[str, Telemetry]
    span_ns: tuple[int, int]
    span_name: str
