"""The attacker's process: control connections in one loop, an episode in a thread beside it.

Ops, one JSON object a line: hello, take {owner, hold_s}, renew {owner}, start {owner, attack}, stop {owner},
state, truth {owner, episode}, release {owner}. A request names kinds and roles; it cannot name an address.
"""

from __future__ import annotations

import random
import selectors
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

from pqattack import __version__
from pqattack.bounds import MAX_FOR_S, MAX_RATE_PPS, Addresses, port_of, port_of_peer
from pqattack.desk import Desk
from pqattack.errors import RequestError
from pqattack.frames import Flow, udp_frame
from pqattack.handshakes import HandshakeFlood
from pqattack.heard import Heard, parse_told
from pqattack.payloads import datagrams
from pqattack.sender import Runner, Sender
from pqattack.settings import KINDS, LEARNING, Episode
from pqattack.wire import interface_of, mac_of, neighbour, open_sender
from pqbase.documents import Json
from pqbase.errors import PqError
from pqbase.lines import Client, refusal
from pqbase.lines import Server as LineServer

#: the tap listens this long after each time it is asked to
_LISTEN_S: Final = 5.0
_LISTEN_AGAIN_NS: Final = 2_000_000_000
_TAP_LIMIT_S: Final = 1.0
_MAX_CONNECTIONS: Final = 8
#: a port of nobody's, as a stranger's datagrams have
_SOURCE_PORT: Final = 40_960


class Attacker:
    """Addresses from the environment, the desk, and what each request does."""

    def __init__(self, addresses: Addresses, tap: tuple[str, int]) -> None:
        self.desk = Desk()
        self._addresses = addresses
        self._tap = Client(tap, _TAP_LIMIT_S, "./compose/lab.sh profile attacker")
        self._listen_next_ns: int | None = None
        self._socket: socket.socket | None = None
        self._interface = ""
        self._macs: dict[str, bytes] = {}
        self._handlers: dict[str, Callable[[Json, object, int], Json]] = {
            "hello": self._hello,
            "take": self._take,
            "renew": self._renew,
            "start": self._start,
            "stop": self._stop,
            "state": self._state,
            "truth": self._truth,
            "release": self._release,
        }

    def answer(self, request: Json, connection: object, now_ns: int) -> Json:
        """{"ok": true, …} or {"ok": false, "code", "error", "hint"}."""
        try:
            handler = self._handlers.get(str(request.get("op")))
            if handler is None:
                raise RequestError(
                    f"no op {request.get('op')!r:.20}", hint=f"ops: {', '.join(self._handlers)}"
                )
            answer = {"ok": True, **handler(request, connection, now_ns)}
        except PqError as error:
            answer = refusal(error)
        if self.desk.owner is not None and request.get("owner") == self.desk.owner:
            # whatever the holder asks is a sign of life, and what takes us long must not be held against him
            self.desk.renew(self.desk.owner, time.monotonic_ns())
        return answer

    # ------------------------------------------------------------------ upkeep

    def tick(self, now_ns: int) -> None:
        """Let a silent holder's hold end; keep the tap's ear open while one waits for his next episode."""
        if self.desk.tick(now_ns):
            note("the controller fell silent: nothing is sent any more")
        if self.desk.owner is None:
            self._rest()
        elif self._listen_next_ns is not None and now_ns >= self._listen_next_ns and not self.desk.running:
            self._listen(now_ns)

    def gone(self, connection: object) -> None:
        """A control connection has ended."""
        if self.desk.gone(connection):
            note("the controller's connection ended: nothing is sent any more")
            self._rest()

    def wait_s(self, now_ns: int) -> float | None:
        """How long nothing is due."""
        if self.desk.next_ns is None:
            return None
        due_ns = min(self.desk.next_ns, self._listen_next_ns or self.desk.next_ns)
        return max(0.02, (due_ns - now_ns) / 1e9)

    def _listen(self, now_ns: int, *, anew: bool = False) -> None:
        self._ask_tap("listen", for_s=_LISTEN_S, anew=anew)
        self._listen_next_ns = now_ns + _LISTEN_AGAIN_NS

    def _ask_tap(self, op: str, **details: object) -> Json:
        with self._tap:  # for this question alone: a tap that was started anew knows no older connection
            return self._tap.ask(op, **details)

    def _rest(self) -> None:
        """The tap is not asked again: it closes its ear by itself, and now if it can be told."""
        if self._listen_next_ns is not None:
            self._listen_next_ns = None
            try:
                self._ask_tap("rest")
            except PqError as error:
                note(f"the tap ends by itself: {error}")

    # ------------------------------------------------------------------ ops

    def _hello(self, request: Json, connection: object, now_ns: int) -> Json:
        bounds = {"max_rate_pps": MAX_RATE_PPS, "max_for_s": MAX_FOR_S}
        return {
            "version": __version__,
            "kinds": list(KINDS),
            **bounds,
            **self._state(request, connection, now_ns),
        }

    def _take(self, request: Json, connection: object, now_ns: int) -> Json:
        self.desk.take(_owner(request), connection, _hold_s(request), now_ns)
        try:
            self._open()
            self._listen(now_ns, anew=True)
        except PqError:
            self.desk.release(_owner(request))
            raise
        return self._state(request, connection, now_ns)

    def _open(self) -> None:
        """The raw socket, and both ends' hardware addresses."""
        interface = interface_of(self._addresses.here)
        if self._socket is None or interface != self._interface:
            self._socket, self._interface = open_sender(interface), interface
        self._macs = {
            target: neighbour(interface, self._addresses.here, self._addresses.of(target))
            for target in ("drone", "gcs")
        }

    def _renew(self, request: Json, connection: object, now_ns: int) -> Json:
        self.desk.renew(_owner(request), now_ns)
        running = self.desk.running
        return {"running": None if running is None else running.number}

    def _start(self, request: Json, connection: object, now_ns: int) -> Json:
        owner, episode = _owner(request), Episode.parse(request.get("attack"))
        self.desk.admit(owner, episode)
        runner = self._runner(episode, len(self.desk.episodes) + 1)
        done = self.desk.begin(episode, runner)
        note(
            f"{owner}: {episode.kind} at the {episode.target}, {episode.rate_pps:g}/s for {episode.for_s:g} s"
        )
        return done.summary()

    def _runner(self, episode: Episode, number: int) -> Runner:
        addresses, rng = self._addresses, random.Random(f"pqattack {episode.seed} {number}")
        target = addresses.of(episode.target)
        if episode.kind == "handshake-flood":
            return HandshakeFlood(episode, target, rng)
        assert self._socket is not None
        heard: list[Heard] = []
        if episode.kind in LEARNING:
            answer = self._ask_tap("heard", to=episode.target)
            heard = parse_told(answer.get("heard"))
        # a flood is not listened to: it says nothing, and it would cost the drone's cores
        self._ask_tap("rest")
        via = addresses.link if episode.path == "link" else target
        next_mac = self._macs.get(episode.target) if episode.path == "direct" else None
        flow = Flow(
            own_mac=mac_of(self._interface),
            next_mac=next_mac or neighbour(self._interface, addresses.here, via),
            source=addresses.other(episode.target) if episode.kind == "spoof" else addresses.here,
            source_port=port_of_peer(episode.target) if episode.kind == "spoof" else _SOURCE_PORT,
            target=target,
            target_port=port_of(episode.target),
        )
        frames = [udp_frame(flow, payload) for payload in datagrams(episode, heard, rng)]
        return Sender(episode, frames, self._socket.send)

    def _stop(self, request: Json, connection: object, now_ns: int) -> Json:
        self.desk.require(_owner(request))
        self.desk.stop("stopped")
        return self._state(request, connection, now_ns)

    def _state(self, request: Json, connection: object, now_ns: int) -> Json:
        running = self.desk.running
        return {
            "owner": self.desk.owner,
            "running": None if running is None else running.number,
            "episodes": [done.summary() for done in self.desk.episodes],
        }

    def _truth(self, request: Json, connection: object, now_ns: int) -> Json:
        self.desk.require(_owner(request))
        return self.desk.account(request.get("episode")).truth()

    def _release(self, request: Json, connection: object, now_ns: int) -> Json:
        released = self.desk.release(_owner(request))
        self._rest()
        return {"released": released, **self._state(request, connection, now_ns)}


class Server:
    """Carries lines to and from the attacker; nothing it holds outlives the process."""

    def __init__(self, attacker: Attacker, control: tuple[str, int]) -> None:
        self._attacker = attacker
        self._selector = selectors.DefaultSelector()
        self._connections = LineServer(
            self._selector, control, attacker.answer, most=_MAX_CONNECTIONS, gone=attacker.gone
        )
        note(f"asked on {control[0]}:{control[1]}")

    def run(self) -> None:
        """Obey until the process ends."""
        while True:
            for key, _ in self._selector.select(self._attacker.wait_s(time.monotonic_ns())):
                key.data()
            try:
                self._attacker.tick(time.monotonic_ns())
            except PqError as error:
                note(f"{error}")


def note(text: str) -> None:
    """One line for people."""
    print(f"attacker: {text}", file=sys.stderr, flush=True)


def _owner(request: Json) -> str:
    owner = request.get("owner")
    if not isinstance(owner, str) or not 0 < len(owner) <= 200:
        raise RequestError(f"'owner' must be a name of 1 to 200 characters, not {owner!r:.40}")
    return owner


def _hold_s(request: Json) -> float:
    value = request.get("hold_s", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise RequestError(f"'hold_s' must be a number of seconds, not {value!r:.20}")
    return float(value)
