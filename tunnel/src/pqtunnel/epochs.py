"""Rekey secrets of the epochs that may still be rekeyed, by session id; in memory only.

The drone rekeys from its newest epoch alone. The GCS may be named the epoch that it sends on, and the
newest, of which it has not heard yet whether the drone has it too (FinishedGcs may be lost). Once it has
heard it, the one before is never named again. One that was never heard gives way to the next and never takes
the place of a confirmed one.
"""

from __future__ import annotations

import threading
from collections.abc import Sized
from dataclasses import dataclass, field

from pqtunnel.handshake.established import Epoch
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom


@dataclass(frozen=True, slots=True)
class KnownEpoch:
    """What a rekey of an epoch needs of it, and nothing else of its keys."""

    session_id: bytes
    rx_index: int
    epoch: int
    peer_key_id: bytes
    rekey_secret: Sized = field(repr=False)


class EpochBook:
    """Of the epochs that may be rekeyed, what a rekey needs. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[KnownEpoch] = []

    def add(self, established: Epoch, sent_on: int | None) -> None:
        """A handshake completed and was installed; the session sends on the epoch of receiver index `sent_on`
        now (None: on none yet)."""
        new = KnownEpoch(
            established.session_id,
            established.rx_index,
            established.epoch,
            established.peer_key_id,
            established.rekey_secret,
        )
        with self._lock:
            self._known = [*(known for known in self._known if known.rx_index == sent_on), new]

    def settle(self, sent_on: int | None) -> None:
        """The session sends on the epoch of this receiver index: forget what lies before it."""
        with self._lock:
            for place, known in enumerate(self._known):
                if known.rx_index == sent_on:
                    del self._known[:place]
                    return

    def clear(self) -> None:
        """Forget everything: the session has ended."""
        with self._lock:
            self._known.clear()

    @property
    def newest(self) -> KnownEpoch | None:
        """The epoch that was made last, None before the first."""
        with self._lock:
            return self._known[-1] if self._known else None

    def basis(self, session_id: bytes) -> RekeyBasis | None:
        """GCS: what a rekey of this session builds on, None for a session that is not known here."""
        with self._lock:
            for known in self._known:
                if known.session_id == session_id:
                    return RekeyBasis(known.peer_key_id, known.epoch, known.rekey_secret)
        return None

    def rekey_from(self) -> RekeyFrom | None:
        """Drone: what the next rekey builds on, None when there is no session yet."""
        newest = self.newest
        if newest is None:
            return None
        return RekeyFrom(newest.session_id, newest.epoch, newest.rekey_secret)
