"""The tunnel that endpoints run: native, by the wheel `pq_core`."""

from __future__ import annotations

from collections.abc import Callable

from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint.handshakes import DroneHandshakes, GcsHandshakes, Tunnel
from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.endpoint.plane import Plane
from pqtunnel.errors import ProviderMissing
from pqtunnel.primitives import Primitives


class _Native:
    """`handshakes.Tunnel`. The core brings its own primitives."""

    def plane(self, config: EndpointConfig, note: Callable[[str], None]) -> Plane:
        from pqtunnel.endpoint.native import NativeDataPlane

        return NativeDataPlane(config, note)

    def drone(self, keys: DroneKeys, primitives: Primitives) -> DroneHandshakes:
        from pqtunnel.endpoint.native_handshakes import NativeDrone

        return NativeDrone(keys)

    def gcs(self, keys: GcsKeys, primitives: Primitives) -> GcsHandshakes:
        from pqtunnel.endpoint.native_handshakes import NativeGcs

        return NativeGcs(keys)


def native_tunnel() -> Tunnel:
    """Raises ProviderMissing where the wheel is not installed."""
    try:
        import pq_core  # noqa: F401  only whether it is there
    except ImportError as error:
        raise ProviderMissing(
            f"the tunnel's wheel pq_core is not installed ({error})",
            hint="Run inside the tunnel image, or build tunnel/native with maturin.",
        ) from error
    return _Native()
