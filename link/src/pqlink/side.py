"""One end's helper: shares its network namespace, sets one host route while told to, and makes probes.

The endpoint itself needs no capability. The route is withdrawn when the router has been silent for its
`ttl_s`, when this process ends, and when it starts (an earlier one may have been killed).
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import Final

from pqbase.documents import Json, number_of
from pqbase.errors import PqError
from pqbase.lines import MAX_REQUEST_BYTES, encode, parse, refusal
from pqbase.net import holds
from pqlink.device import interface_of, route_direct, route_via
from pqlink.errors import DeviceError, LinkError, RequestError
from pqlink.probe import Echo, ProbePlan, run_probe

#: how often we look whether the namespace is still the endpoint's
_LOOK_EVERY_S: Final = 2.0
#: an endpoint that restarts has a new namespace; by then it runs and the engine can put us into it
_LEAVE_AFTER_S: Final = 3.0
EXIT_MOVED: Final = 70


@dataclass(frozen=True)
class SideConfig:
    """Our end's address on the air network, the other end's, and where requests come in."""

    here: str
    peer: str
    control: tuple[str, int]


class Side:
    """Serves one request at a time; a probe runs in a thread of its own and is asked for its result."""

    def __init__(self, config: SideConfig) -> None:
        self._config = config
        self._via: str | None = None
        self._until_s = 0.0
        self._echo: Echo | None = None
        self._probe: threading.Thread | None = None
        self._result: Json | None = None

    def run(self) -> int:
        """Until the namespace is gone (exit code 70, so that we are started anew) or a signal comes."""
        route_direct(self._config.peer)
        interface_of(self._config.here)
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(self._config.control)
        print(f"side: {self._config.here} listens on {self._config.control}", file=sys.stderr, flush=True)
        looked_s = time.monotonic()
        while True:
            sock.settimeout(self._patience_s())
            try:
                line, source = sock.recvfrom(MAX_REQUEST_BYTES)
            except TimeoutError:
                line, source = b"", None
            if source is not None:
                sock.sendto(encode(self._answer(line)), source)
            self._expire()
            if time.monotonic() - looked_s >= _LOOK_EVERY_S:
                looked_s = time.monotonic()
                if not holds(self._config.here):
                    print(
                        f"side: {self._config.here} is gone from this namespace", file=sys.stderr, flush=True
                    )
                    time.sleep(_LEAVE_AFTER_S)
                    return EXIT_MOVED

    def go_direct(self) -> None:
        """Withdraw the route."""
        self._via = None
        route_direct(self._config.peer)

    def _patience_s(self) -> float:
        if self._via is None:
            return _LOOK_EVERY_S
        return min(_LOOK_EVERY_S, max(0.01, self._until_s - time.monotonic()))

    def _expire(self) -> None:
        now_s = time.monotonic()
        if self._via is not None and now_s >= self._until_s:
            print("side: the router is silent; direct again", file=sys.stderr, flush=True)
            self.go_direct()
        if self._echo is not None and self._echo.over(now_s):
            self._echo.close()
            self._echo = None

    # ------------------------------------------------------------------ requests

    def _answer(self, line: bytes) -> Json:
        number: Json = {}
        try:
            request = parse(line)
            number = {"id": request.get("id")}
            return {**number, "ok": True, **self._do(request)}
        except PqError as error:
            return {**number, **refusal(error), "via": self._via}

    def _do(self, request: Json) -> Json:
        op = request.get("op")
        if op == "via":
            self._go_via(str(request.get("router")), number_of({"ttl_s": 0, **request}, "ttl_s"))
        elif op == "direct":
            if self._via is not None:
                self.go_direct()
        elif op == "echo":
            if self._echo is not None:
                self._echo.close()
            self._echo = Echo(
                self._config.here, time.monotonic() + number_of({"for_s": 0, **request}, "for_s")
            )
        elif op == "echo_end":
            seen = 0 if self._echo is None else self._echo.close()
            self._echo = None
            return {"via": self._via, "seen": seen}
        elif op == "probe":
            self._start_probe(request)
        elif op == "probe_result":
            running = self._probe is not None and self._probe.is_alive()
            return {"via": self._via, "running": running, "result": None if running else self._result}
        elif op != "state":
            raise RequestError(
                f"no op {op!r}", hint="ops: via, direct, echo, echo_end, probe, probe_result, state"
            )
        return {"via": self._via}

    def _go_via(self, router: str, ttl_s: float) -> None:
        if not 0 < ttl_s <= 5:
            raise RequestError(f"via: ttl_s {ttl_s:g} is outside 0 … 5")
        if self._via != router:
            route_via(self._config.peer, router)
            self._via = router
        self._until_s = time.monotonic() + ttl_s

    def _start_probe(self, request: Json) -> None:
        if self._probe is not None and self._probe.is_alive():
            raise RequestError("a probe is running", code="busy", hint="ask for its result first")
        plan = ProbePlan.parse(request, self._config.here, self._config.peer)
        self._result = None

        def work() -> None:
            try:
                self._result = run_probe(plan)
            except (LinkError, OSError) as error:
                self._result = refusal(error if isinstance(error, LinkError) else DeviceError(str(error)))

        self._probe = threading.Thread(target=work, name="probe", daemon=True)
        self._probe.start()


def run_side(config: SideConfig) -> int:
    """The process: serve until told to end, and leave no route behind."""
    side = Side(config)

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    try:
        return side.run()
    finally:
        side.go_direct()
