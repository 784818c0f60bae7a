"""A server of JSON lines in a thread, for tests: `answer` runs there, one request after another."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable

from pqbase.documents import Json
from pqbase.lines import Server


class Served:
    """Serves on loopback until closed, as when its process is killed."""

    def __init__(
        self,
        answer: Callable[[Json, socket.socket, int], Json | None],
        *,
        gone: Callable[[socket.socket], None] = lambda _: None,
        address: tuple[str, int] = ("127.0.0.1", 0),
        most: int = 16,
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self.server = Server(self._selector, address, answer, most=most, gone=gone)
        self.address = self.server.address
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(0.02):
                key.data()

    def close(self) -> None:
        """End every connection; a second time does nothing."""
        if not self._over:
            self._over = True
            self._thread.join()
            self.server.close()
            self._selector.close()
