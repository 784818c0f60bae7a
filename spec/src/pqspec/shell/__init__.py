"""The specification over sockets: what the tests put in the native tunnel's place
(`pqtunnel.endpoint.tunnel`)."""

from __future__ import annotations

from collections.abc import Callable

from pqspec.shell.dataplane import DataPlane
from pqspec.shell.handshakes import SpecifiedDrone, SpecifiedGcs
from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.primitives import Primitives


class SpecifiedTunnel:
    """`pqtunnel.endpoint.handshakes.Tunnel`."""

    def plane(self, config: EndpointConfig, note: Callable[[str], None]) -> DataPlane:
        """Raises PortTakenError."""
        return DataPlane(config, note)

    def drone(self, keys: DroneKeys, primitives: Primitives) -> SpecifiedDrone:
        """The drone's end."""
        return SpecifiedDrone(keys, primitives)

    def gcs(self, keys: GcsKeys, primitives: Primitives) -> SpecifiedGcs:
        """The gcs's end."""
        return SpecifiedGcs(keys, primitives)
