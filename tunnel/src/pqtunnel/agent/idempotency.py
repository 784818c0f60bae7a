"""Same request id, same answer: a request repeated after a broken connection is answered, not run again."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from pqtunnel.errors import TunnelError

MAX_ANSWERS: Final = 1024
MAX_BYTES: Final = 64 * 1024 * 1024
WAIT_S: Final = 600.0


class IdReusedError(TunnelError):
    """One id was used for two different requests."""

    code = "id_reused"
    hint = "give every request an id of its own"


class _Entry:
    __slots__ = ("answer", "digest", "ready")

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.answer: bytes | None = None
        self.ready = threading.Event()


class AnswerCache:
    """Answers by request id, oldest forgotten first, bounded in number and bytes."""

    def __init__(self, max_answers: int = MAX_ANSWERS, max_bytes: int = MAX_BYTES) -> None:
        self._entries: OrderedDict[str | int, _Entry] = OrderedDict()
        self._bytes = 0
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def answer(self, identifier: str | int, request: bytes, run: Callable[[], bytes]) -> bytes:
        """The answer to this id: by `run` the first time, remembered afterwards.

        A repetition that comes while the first is still running waits for it. Raises IdReusedError when the
        id belongs to another request.
        """
        digest = hashlib.sha256(request).digest()
        with self._lock:
            entry = self._entries.get(identifier)
            first = entry is None
            if entry is None:
                entry = _Entry(digest)
                self._entries[identifier] = entry
            elif entry.digest != digest:
                raise IdReusedError(f"request id {identifier!r} was used for another request")
        if first:
            try:
                entry.answer = run()
            except BaseException:
                with self._lock:
                    self._entries.pop(identifier, None)
                raise
            finally:
                entry.ready.set()
            self._keep(entry.answer)
            return entry.answer
        if not entry.ready.wait(WAIT_S) or entry.answer is None:
            raise IdReusedError(
                f"request {identifier!r} is still running",
                code="still_running",
                hint="ask again later with the same id",
            )
        return entry.answer

    def _keep(self, answer: bytes) -> None:
        with self._lock:
            self._bytes += len(answer)
            while len(self._entries) > self._max_answers or self._bytes > self._max_bytes:
                oldest = next((key for key, entry in self._entries.items() if entry.ready.is_set()), None)
                if oldest is None:
                    return
                gone = self._entries.pop(oldest)
                self._bytes -= len(gone.answer or b"")
