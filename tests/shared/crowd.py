"""A crowd before a ground station, and a long way to it: strangers who knock without end, and a relay that
keeps every byte of a drone for half a round trip, so that its Hello takes its time."""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from waiting import LIMIT_S

STRANGERS = Path(__file__).with_name("strangers.py")
SOURCES, A_SECOND = 64, 31
"""Addresses that strangers knock from, and how often each does."""
ROUND_TRIP_S = 0.1


@dataclass
class _Pair:
    """One relayed connection: bytes on their way in each direction, with when they are due."""

    near: socket.socket
    far: socket.socket | None = None
    due: list[tuple[float, bool, bytes]] = field(default_factory=list)


class Distance:
    """A TCP relay to `target`, half a round trip away: a connection, and every byte, arrives that much later.
    What a drone sends with its connection arrives with it."""

    def __init__(self, target: tuple[str, int], one_way_s: float) -> None:
        self._target, self._one_way_s = target, one_way_s
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._pairs: dict[socket.socket, _Pair] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        return int(self._listener.getsockname()[1])

    def _work(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.002):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._read(key.fileobj)
            now_s = time.monotonic()
            for pair in set(map(id, self._pairs.values())):
                self._pass_on(next(one for one in self._pairs.values() if id(one) == pair), now_s)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = _Pair(near)
        pair.due.append((time.monotonic() + self._one_way_s, True, b""))  # the connection itself
        self._pairs[near] = pair
        self._selector.register(near, selectors.EVENT_READ)

    def _read(self, sock: socket.socket) -> None:
        pair = self._pairs[sock]
        try:
            data = sock.recv(65_536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(sock)
        to_far = sock is pair.near
        pair.due.append((time.monotonic() + self._one_way_s, to_far, data or b"\0END"))

    def _pass_on(self, pair: _Pair, now_s: float) -> None:
        while pair.due and pair.due[0][0] <= now_s:
            _, to_far, data = pair.due.pop(0)
            if data == b"":
                self._connect(pair)
                continue
            target = pair.far if to_far else pair.near
            if data == b"\0END" or target is None:
                self._drop(pair)
                return
            try:
                target.sendall(data)
            except OSError:
                self._drop(pair)
                return

    def _connect(self, pair: _Pair) -> None:
        try:
            far = socket.create_connection(self._target, timeout=LIMIT_S)
        except OSError:
            return
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair.far = far
        self._pairs[far] = pair
        self._selector.register(far, selectors.EVENT_READ)

    def _drop(self, pair: _Pair) -> None:
        for sock in (pair.near, pair.far):
            if sock is not None and sock in self._pairs:
                del self._pairs[sock]
                if sock in self._selector.get_map():
                    self._selector.unregister(sock)
                sock.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for pair in list(self._pairs.values()):
            self._drop(pair)
        self._selector.close()
        self._listener.close()


@contextmanager
def knocking(port: int, sources: int, rate: int, count: int) -> Iterator[subprocess.Popen[str]]:
    """Strangers at a station's door, from before the block until it ends."""
    words = [sys.executable, STRANGERS, "127.0.0.1", port, sources, rate, count]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "knocking\n"
            yield child
        finally:
            child.terminate()
