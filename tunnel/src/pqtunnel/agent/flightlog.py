"""The telemetry log that the traffic service recorded in a cell: its pieces, for the controller to fetch."""

from __future__ import annotations

from pqbase.documents import texts_of, whole_of
from pqtunnel.agent.drivers.base import TrafficDriver
from pqtunnel.endpoint.work import CellWork


class FlightLog:
    """Knows of which cell the service's recording is: the service itself knows no cells."""

    def __init__(self, traffic: TrafficDriver) -> None:
        self._traffic = traffic
        self._recorded: CellWork | None = None

    def begins(self, work: CellWork) -> None:
        """A source that records was started in this cell."""
        self._recorded = work

    def page(self, work: CellWork, since: int) -> tuple[list[str], int]:
        """Pieces from number `since` on, base64, as many as the service gives at once; how many there are.

        ([], 0) where the cell recorded nothing. Raises DriverError where it did and the service has lost it.
        """
        if self._recorded is not work:
            return [], 0
        answer = self._traffic.recording(since)
        return texts_of(answer, "chunks"), whole_of(answer, "total")
