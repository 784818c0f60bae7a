"""Rekey secrets of the epochs that live, by session id; in memory only.

Mirrors the session's table: previous, sent on, and at the GCS one that has not been heard yet. One that was
never heard gives way to the next and never takes the place of a confirmed one. The GCS looks the basis of a
rekey up here; the drone finds here what it rekeys from.
"""

from __future__ import annotations

import threading

from pqtunnel.handshake.established import Established
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom


class EpochBook:
    """Of the living epochs, what a rekey needs. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[Established] = []

    def add(self, established: Established, sent_on: int | None) -> None:
        """A handshake completed while the session sends on epoch `sent_on` (None: on none yet)."""
        with self._lock:
            places = [place for place, known in enumerate(self._known) if known.epoch == sent_on]
            end = places[-1] + 1 if places else 0
            self._known = [*self._known[max(0, end - 2) : end], established]

    def clear(self) -> None:
        """Forget everything: the session has ended."""
        with self._lock:
            self._known.clear()

    @property
    def newest(self) -> Established | None:
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
