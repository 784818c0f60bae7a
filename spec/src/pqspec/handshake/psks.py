"""The drones that a GCS knows, by what their PSKs yield."""

from __future__ import annotations

import secrets as system_random
from collections.abc import Iterable

from pqspec.handshake.secrets import clear
from pqspec.keyschedule import PskKeys
from pqtunnel.handshake.identity import DronePsk
from pqtunnel.wire import PSK_BYTES


class PskStore:
    """PSK-derived keys of every drone a GCS knows.

    `lookup` answers an unknown id with the keys of a random PSK that nobody holds: the caller then does
    exactly the same work for an unknown id as for a wrong MAC, and the MAC fails by itself.
    """

    def __init__(self, drones: Iterable[DronePsk]) -> None:
        self.drones = tuple(drones)
        self._keys = {drone.key_id: PskKeys.derive(clear(drone.psk)) for drone in self.drones}
        self._nobody = PskKeys.derive(system_random.token_bytes(PSK_BYTES))

    def __len__(self) -> int:
        return len(self._keys)

    def lookup(self, key_id: bytes) -> PskKeys:
        """Keys of this drone, or of nobody. Never raises and never tells which."""
        return self._keys.get(key_id, self._nobody)
