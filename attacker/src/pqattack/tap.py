"""Listens on air beside the drone: shares its network namespace, needs NET_RAW, sends nothing there.

The endpoint itself needs no capability, and the bridge stays as it is. Asked to, it keeps copies of sealed
datagrams for some seconds; not asked again, it closes its ear. It never hears a flood: it rests meanwhile.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final

from pqattack.bounds import TARGETS
from pqattack.errors import RequestError
from pqattack.heard import Ear
from pqattack.wire import interface_of, open_listener
from pqbase.documents import Json
from pqbase.errors import PqError
from pqbase.lines import Server, refusal
from pqbase.net import holds

LISTEN_MAX_S: Final = 10.0
EXIT_MOVED: Final = 70
#: how often we look whether the namespace is still the endpoint's
_LOOK_EVERY_S: Final = 2.0
#: an endpoint that restarts has a new namespace; by then it runs and the engine can put us into it
_LEAVE_AFTER_S: Final = 3.0
_READ_AT_ONCE: Final = 64
_MAX_CONNECTIONS: Final = 4


@dataclass(frozen=True)
class TapConfig:
    """Both ends' addresses on air (the first: of the namespace we share), and where requests come in."""

    drone: str
    gcs: str
    control: tuple[str, int]


class Tap:
    """One loop over the ear and its few connections."""

    def __init__(self, config: TapConfig) -> None:
        self._config = config
        self._ear = Ear(config.drone, config.gcs)
        self._socket: socket.socket | None = None
        self._until_s = 0.0
        self._selector = selectors.DefaultSelector()
        self._connections = Server(
            self._selector, config.control, lambda request, _, __: self.answer(request), most=_MAX_CONNECTIONS
        )

    def run(self) -> int:
        """Until the namespace is gone (exit code 70, so that we are started anew)."""
        print(
            f"tap: beside {self._config.drone}, asked on {self._config.control}", file=sys.stderr, flush=True
        )
        looked_s = time.monotonic()
        while True:
            for key, _ in self._selector.select(self._patience_s()):
                key.data()
            now_s = time.monotonic()
            if self._socket is not None and now_s >= self._until_s:
                self.rest()
            if now_s - looked_s >= _LOOK_EVERY_S:
                looked_s = now_s
                if not holds(self._config.drone):
                    print(f"tap: {self._config.drone} is gone from here", file=sys.stderr, flush=True)
                    time.sleep(_LEAVE_AFTER_S)
                    return EXIT_MOVED

    def _patience_s(self) -> float:
        if self._socket is None:
            return _LOOK_EVERY_S
        return max(0.01, min(_LOOK_EVERY_S, self._until_s - time.monotonic()))

    # ------------------------------------------------------------------ the ear

    def _listen(self, for_s: object) -> None:
        if isinstance(for_s, bool) or not isinstance(for_s, int | float) or not 0 < for_s <= LISTEN_MAX_S:
            raise RequestError(
                f"listen: for_s must be above 0 and at most {LISTEN_MAX_S:g}, not {for_s!r:.20}"
            )
        if self._socket is None:
            self._socket = open_listener(interface_of(self._config.drone))
            self._selector.register(self._socket, selectors.EVENT_READ, self._hear)
        self._until_s = time.monotonic() + for_s

    def rest(self) -> None:
        """Close the ear; what was heard stays."""
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def _hear(self) -> None:
        for _ in range(_READ_AT_ONCE):
            if self._socket is None:
                return
            try:
                packet = self._socket.recv(65_535)
            except BlockingIOError:
                return
            self._ear.take(packet)

    # ------------------------------------------------------------------ requests

    def answer(self, request: Json) -> Json:
        """{"ok": true, …} or the error."""
        try:
            return {"ok": True, **self._do(request)}
        except PqError as error:
            return refusal(error)

    def _do(self, request: Json) -> Json:
        op = request.get("op")
        if op == "listen":
            if request.get("anew"):
                self._ear.forget()
            self._listen(request.get("for_s"))
        elif op == "rest":
            self.rest()
        elif op == "heard":
            target = request.get("to")
            if target not in TARGETS:
                raise RequestError(f"heard: 'to' is drone or gcs, not {target!r:.20}")
            return {"heard": self._ear.told(str(target))}
        elif op != "state":
            raise RequestError(f"no op {op!r:.20}", hint="ops: listen, rest, heard, state")
        return {"listening": self._socket is not None, "count": dict(self._ear.count)}

    def close(self) -> None:
        """Every socket."""
        self.rest()
        self._connections.close()
        self._selector.close()


def run_tap(config: TapConfig) -> int:
    """The process."""
    with contextlib.closing(Tap(config)) as tap:
        return tap.run()
