"""The one interface an agent uses to start and stop traffic on its host, whatever runs it there."""

from __future__ import annotations

from typing import Protocol

from pqbase.documents import Json
from pqtunnel.errors import TunnelError


class DriverError(TunnelError):
    """The traffic service refused, or does not answer."""

    code = "traffic_driver"
    hint = "see the traffic service's log and `make lab-status`"


class TrafficDriver(Protocol):
    """Start and stop one traffic source at a time."""

    name: str

    def facts(self) -> dict[str, object]:
        """What the service can do here: sources, versions, hashes."""

    def start(self, spec: dict[str, object]) -> dict[str, object]:
        """Start a source; returns {"source": …, "detail": …}. Raises DriverError."""

    def stop(self) -> dict[str, object]:
        """Stop whatever runs; returns the source's report of what it sent and received. Raises
        DriverError."""

    def recording(self, since: int) -> Json:
        """{"chunks", "next", "end", "total"}: base64 pieces, from number `since` on, of what the last source
        that recorded received. Raises DriverError, also where nothing was recorded."""


class NoTraffic:
    """For an agent without a traffic service: a window without a source is fine, one with a source is
    refused."""

    name = "none"

    def facts(self) -> dict[str, object]:
        """Nothing is there."""
        return {"available": False, "reason": "PQ_TRAFFIC_CONTROL is not set"}

    def start(self, spec: dict[str, object]) -> dict[str, object]:
        """Always raises DriverError."""
        raise DriverError(
            "this agent has no traffic service",
            code="no_traffic_service",
            hint="set PQ_TRAFFIC_CONTROL to host:port, or send spec null",
        )

    def stop(self) -> dict[str, object]:
        """Nothing ran."""
        return {}

    def recording(self, since: int) -> Json:
        """Always raises DriverError: nothing ran that could have recorded."""
        raise DriverError("this agent has no traffic service", code="no_traffic_service")
