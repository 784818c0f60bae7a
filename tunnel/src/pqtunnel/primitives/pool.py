"""Ephemeral KEM key pairs made ahead of the handshakes that use them.

Each pair is handed out once and belongs to its taker, who wipes it; what is left is wiped when the target
shrinks or the pool is cleared. A stored pair lives longer in memory than one made on the spot: that is the
price of the handshake it shortens, so a pool serves only who asks for it and is bounded.

In scope: making, keeping, handing out. Not in scope: the thread that calls `fill` (the endpoint owns it).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, Generic, Protocol, TypeVar

from pqtunnel.errors import KeyMaterialError


class Wipeable(Protocol):
    """An ephemeral key pair, wherever its secret lies."""

    def wipe(self) -> None:
        """Erase the secret key."""


Pair = TypeVar("Pair", bound=Wipeable)
Pair_co = TypeVar("Pair_co", bound=Wipeable, covariant=True)


class PairMaker(Protocol[Pair_co]):
    """Makes pairs of one KEM."""

    def generate(self) -> Pair_co:
        """A fresh pair. Raises PrimitiveFailed."""


class PairMakers(Protocol[Pair_co]):
    """Makers by KEM token."""

    def kem(self, token: str) -> PairMaker[Pair_co]:
        """Raises ProviderMissing for a KEM this host lacks."""


MAX_TARGET: Final = 256
"""Most pairs kept of one KEM: 350 MB of public keys with the largest McEliece, 0.8 MB with ML-KEM-1024."""


class KeyPool(Generic[Pair]):
    """Ready key pairs by KEM token. Thread-safe; key generation itself runs outside the lock."""

    def __init__(self, makers: PairMakers[Pair]) -> None:
        self._makers = makers
        self._lock = threading.Lock()
        self._ready: dict[str, deque[Pair]] = {}
        self._targets: dict[str, int] = {}
        self._wanted = threading.Event()
        self.made = 0
        self.taken = 0
        self.missed = 0

    def set_target(self, token: str, count: int) -> None:
        """Keep `count` pairs of this KEM ready; what is over is wiped at once. Raises KeyMaterialError
        outside 0 to MAX_TARGET, ProviderMissing for a KEM this host lacks."""
        if not 0 <= count <= MAX_TARGET:
            raise KeyMaterialError(
                f"a pool of {count} key pairs was asked for", hint=f"Ask for 0 to {MAX_TARGET}."
            )
        self._makers.kem(token)
        with self._lock:
            self._targets[token] = count
            ready = self._ready.setdefault(token, deque())
            while len(ready) > count:
                ready.pop().wipe()
        self._wanted.set()

    def take(self, token: str) -> Pair | None:
        """The oldest ready pair, now the caller's alone; None when there is none (make one on the spot)."""
        with self._lock:
            ready = self._ready.get(token)
            if not ready:
                self.missed += token in self._targets and self._targets[token] > 0
                return None
            self.taken += 1
            pair = ready.popleft()
        self._wanted.set()
        return pair

    def fill_one(self) -> bool:
        """Make one pair of the KEM that lacks most; False when nothing lacks. Raises PrimitiveFailed."""
        with self._lock:
            lacking = {
                token: count - len(self._ready[token])
                for token, count in self._targets.items()
                if count > len(self._ready[token])
            }
        if not lacking:
            return False
        token = max(lacking, key=lambda name: lacking[name])
        pair = self._makers.kem(token).generate()
        with self._lock:
            self.made += 1
            # `clear` forgets the target while the pair is being made.
            if len(self._ready[token]) < self._targets.get(token, 0):
                self._ready[token].append(pair)
                return True
        pair.wipe()  # the target shrank or went meanwhile
        return True

    def fill(self) -> None:
        """Make pairs until nothing lacks."""
        while self.fill_one():
            pass

    def wait(self, timeout_s: float) -> bool:
        """For the filling thread: sleep until a pair was taken or a target set, at most `timeout_s`."""
        woken = self._wanted.wait(timeout_s)
        self._wanted.clear()
        return woken

    def count(self, token: str) -> int:
        """Pairs ready now."""
        with self._lock:
            return len(self._ready.get(token, ()))

    def clear(self) -> None:
        """Wipe all pairs and forget all targets."""
        with self._lock:
            self._targets.clear()
            for ready in self._ready.values():
                while ready:
                    ready.pop().wipe()
        self._wanted.set()
