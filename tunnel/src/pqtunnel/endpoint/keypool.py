"""The gcs's pool of ephemeral keys and the thread that fills it. Off until a cell asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic

from pqtunnel.errors import TunnelError
from pqtunnel.primitives.pool import KeyPool, Pair, PairMakers

_WAKE_S: Final = 0.5


class PoolKeeper(Generic[Pair]):
    """Fills at once when a target is set, and again behind every pair that is taken."""

    def __init__(self, makers: PairMakers[Pair], note: Callable[[str], None]) -> None:
        self._pool = KeyPool(makers)
        self._note = note
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @property
    def is_on(self) -> bool:
        """Has a cell asked for pairs?"""
        return self._thread is not None

    def take(self, token: str) -> Pair | None:
        """A ready pair, or None where no pool is asked for or it is empty."""
        return self._pool.take(token)

    def keep(self, token: str, count: int) -> int:
        """Keep `count` pairs of this KEM ready; returns once they are there, with how many there are. Raises
        KeyMaterialError, ProviderMissing, PrimitiveFailed."""
        self._pool.set_target(token, count)
        self._pool.fill()
        if count and self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._refill, name="gcs-key-pool", daemon=True)
            self._thread.start()
        return self._pool.count(token)

    def end(self) -> None:
        """Wipe what is left; called at the end of a cell."""
        self._ended.set()
        self._pool.clear()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout=5.0)
        self._pool.clear()  # what was being made meanwhile

    def _refill(self) -> None:
        while not self._ended.is_set():
            self._pool.wait(_WAKE_S)
            try:
                while not self._ended.is_set() and self._pool.fill_one():
                    pass
            except TunnelError as error:
                self._note(f"key pool stopped: {error} [{error.code}]; handshakes make their own keys")
                return
