"""What is known of a cell when its record is made: what each measure's part of the record is given."""

from __future__ import annotations

from dataclasses import dataclass

from pqevidence.record.dataplane import DataPlane
from pqevidence.record.handshake import Shakes
from pqevidence.record.raw import Json, RawCell, RawRun
from pqevidence.record.system import Samples, Telemetry
from pqtunnel.suites import Suite


@dataclass(frozen=True)
class Facts:
    """Raw files of one cell and of its run, and what is read of them once.

    plan: its row. condition: as the scenario has it. suite: None for one that this build does not know.
    wall_ns: from the controller's first event to its last. windows: labelled ones by the controller's clock,
    in order. telemetry: by host, within the cell; samples: what of it was due. killed: ends that the
    condition killed. span_ns: [start, end) that means are taken over, `span_name` in words: the traffic
    window, or the cell where there is none.
    """

    cell: RawCell
    context: RawRun
    plan: Json
    condition: Json
    suite: Suite | None
    wall_ns: tuple[int, int] | None
    windows: list[Json]
    shakes: Shakes
    plane: DataPlane
    telemetry: dict[str, Telemetry]
    samples: dict[str, Samples]
    killed: frozenset[str]
    span_ns: tuple[int, int]
    span_name: str

    @property
    def seed(self) -> int:
        """The cell's own, by the plan."""
        return int(self.plan["seed"])

    def window_ns(self, name: str) -> tuple[int, int] | None:
        """Begin and end of a labelled window; None where there is none of that name."""
        return next(((int(w["start_ns"]), int(w["end_ns"])) for w in self.windows if w["name"] == name), None)
