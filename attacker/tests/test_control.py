"""The hold: one at a time, on one connection; ends with it, in silence, and at its own deadline."""

from __future__ import annotations

import functools
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pqattack import serve
from pqattack.bins import SentBins
from pqattack.bounds import Addresses
from pqattack.desk import Desk
from pqattack.errors import RequestError
from pqattack.sender import Sender
from pqattack.serve import Attacker, Server
from pqattack.settings import Episode
from pqbase.documents import Json
from pqbase.lines import encode
from served import Served
from waiting import LIMIT_S, free_port, unstalled_ns, wait_for

S = 1_000_000_000
FLOOD = Episode("flood", 60.0, rate_pps=200)


class StubRunner:
    """Counts nothing, ends when told."""

    def __init__(self) -> None:
        self.bins, self.failed = SentBins(), 0
        self.why: str | None = None

    def start(self) -> None:
        return

    def stop(self, why: str) -> None:
        self.why = self.why or why

    @property
    def ended(self) -> str | None:
        return self.why


def test_one_holder_and_one_episode_at_a_time() -> None:
    desk, here = Desk(), object()
    desk.take("a", here, 1.0, 0)
    with pytest.raises(RequestError, match="held by 'a'"):
        desk.take("b", object(), 1.0, 0)
    with pytest.raises(RequestError, match="does not hold"):
        desk.admit("b", FLOOD)
    runner = StubRunner()
    desk.admit("a", FLOOD)
    desk.begin(FLOOD, runner)
    with pytest.raises(RequestError, match="still on"):
        desk.admit("a", FLOOD)
    assert desk.running is not None and desk.running.number == 1
    desk.stop("stopped")
    assert desk.running is None and desk.account(1).summary()["ended"] == "stopped"
    assert desk.release("a") and not desk.release("a")
    with pytest.raises(RequestError):
        desk.account(2)


def test_a_hold_has_two_minutes_of_sending_and_no_more() -> None:
    desk = Desk()
    desk.take("a", object(), 1.0, 0)
    for _ in range(2):
        desk.admit("a", FLOOD)
        runner = StubRunner()
        desk.begin(FLOOD, runner)
        runner.stop("deadline")
    with pytest.raises(RequestError) as caught:
        desk.admit("a", Episode("flood", 0.1))
    assert caught.value.code == "out_of_bounds"


def test_silence_and_a_lost_connection_end_it() -> None:
    desk, here = Desk(), object()
    for why, end in (
        ("the controller fell silent", lambda: desk.tick(3 * S)),
        ("the controller's connection ended", lambda: desk.gone(here)),
    ):
        desk.take("a", here, 1.0, 0)
        runner = StubRunner()
        desk.begin(FLOOD, runner)
        desk.renew("a", S)
        assert not desk.tick(2 * S - 1) and not desk.gone(object())
        assert end() and runner.why == why and desk.owner is None


@pytest.mark.parametrize("hold_s", [0, 0.05, 3.1, 60])
def test_nobody_holds_it_for_long(hold_s: float) -> None:
    with pytest.raises(RequestError, match="hold_s"):
        Desk().take("a", object(), hold_s, 0)


# ---------------------------------------------------------------------- over a real connection


class StubTap:
    """Answers every question; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._served = Served(self._answer)
        self.address, self.close = self._served.address, self._served.close

    def _answer(self, request: Json, _connection: socket.socket, _now_ns: int) -> Json:
        self.asked.append(str(request["op"]))
        return {"ok": True, "heard": []}


class Client:
    """One control connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=LIMIT_S)
        self._lines = self.socket.makefile("rb")

    def call(self, op: str, **details: Any) -> Json:
        self.socket.sendall(encode({"op": op, **details}))
        return json.loads(self._lines.readline())  # type: ignore[no-any-return]

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


class Wire:
    """In place of the raw socket: what was sent."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire()
    # a sender leaves out what was due while it was stalled
    monkeypatch.setattr(serve, "Sender", functools.partial(Sender, clock_ns=unstalled_ns()))
    monkeypatch.setattr(serve, "interface_of", lambda address: "air0")
    monkeypatch.setattr(serve, "open_sender", lambda interface: wire)
    monkeypatch.setattr(serve, "mac_of", lambda interface: b"\x02" * 6)
    monkeypatch.setattr(serve, "neighbour", lambda interface, own, wanted: socket.inet_aton(wanted) + b"\0\0")
    return wire


@pytest.fixture
def tap() -> Iterator[StubTap]:
    tap = StubTap()
    yield tap
    tap.close()


@pytest.fixture
def control(wire: Wire, tap: StubTap) -> tuple[str, int]:
    address = ("127.0.0.1", free_port())
    addresses = Addresses("198.18.2.60", "198.18.2.20", "198.18.2.30", "198.18.2.50")
    server = Server(Attacker(addresses, tap.address), address)
    threading.Thread(target=server.run, daemon=True).start()
    return address


def begin(client: Client, **attack: Any) -> Json:
    """Holds it for as long as is allowed: a stalled test is no silent controller."""
    assert client.call("take", owner="cell", hold_s=3.0)["ok"]
    return client.call("start", owner="cell", attack={**FLOOD.as_dict(), **attack})


def ended(control: tuple[str, int], wire: Wire) -> str:
    """Why the one episode of 60 s ended, once it has; nothing is sent from then on."""
    other = Client(control)
    wait_for(lambda: other.call("state")["running"] is None)
    count = len(wire.frames)
    time.sleep(0.5)
    assert len(wire.frames) == count
    state = other.call("state")
    other.close()
    assert state["owner"] is None and state["running"] is None
    return str(state["episodes"][0]["ended"])


def test_it_ends_with_its_controllers_connection(control: tuple[str, int], wire: Wire) -> None:
    """At once: its silence would be noticed only later, and be told as such."""
    client = Client(control)
    assert begin(client)["ok"]
    wait_for(lambda: len(wire.frames) > 20)
    client.close()
    assert ended(control, wire) == "the controller's connection ended"


def test_it_ends_when_its_controller_is_silent(control: tuple[str, int], wire: Wire) -> None:
    client = Client(control)
    assert begin(client)["ok"]
    assert ended(control, wire) == "the controller fell silent"
    assert client.call("renew", owner="cell")["code"] == "not_held"
    client.close()


def test_it_ends_at_its_deadline_and_tells_what_it_sent(
    control: tuple[str, int], wire: Wire, tap: StubTap
) -> None:
    client = Client(control)
    assert begin(client, for_s=0.4)["episode"] == 1
    truth: Json = {}

    def over() -> bool:
        client.call("renew", owner="cell")
        truth.update(client.call("truth", owner="cell", episode=1))
        return truth["ended"] is not None

    wait_for(over)
    assert truth["ended"] == "deadline"
    assert truth["sent_count"] == sum(count for _, count in truth["bins"]) == len(wire.frames)
    assert truth["sent_count"] == pytest.approx(80, abs=3)
    assert tap.asked[:2] == ["listen", "rest"], "it listens until it sends"
    assert client.call("release", owner="cell")["released"] is True
    client.close()


@pytest.mark.parametrize(
    ("attack", "mac", "source", "port"),
    [
        ({}, "198.18.2.20", "198.18.2.60", 46012),
        ({"target": "gcs"}, "198.18.2.30", "198.18.2.60", 46011),
        ({"path": "link"}, "198.18.2.50", "198.18.2.60", 46012),
    ],
)
def test_a_path_is_a_hardware_address(
    control: tuple[str, int], wire: Wire, attack: Json, mac: str, source: str, port: int
) -> None:
    client = Client(control)
    assert begin(client, for_s=0.1, **attack)["ok"]
    wait_for(lambda: len(wire.frames) > 0)
    client.close()
    frame = wire.frames[0]
    assert frame[:4] == socket.inet_aton(mac)
    assert socket.inet_ntoa(frame[26:30]) == source
    assert int.from_bytes(frame[36:38], "big") == port
    assert socket.inet_ntoa(frame[30:34]) in ("198.18.2.20", "198.18.2.30")


def test_what_is_asked_wrongly_is_refused_and_changes_nothing(control: tuple[str, int], wire: Wire) -> None:
    client = Client(control)
    for request in (
        {"op": "start", "owner": "cell", "attack": FLOOD.as_dict()},
        {"op": "take"},
        {"op": "take", "owner": ""},
        {"op": "take", "owner": "x", "hold_s": "1"},
        {"op": "shell"},
        {"op": ["take"]},
        {},
    ):
        assert client.call(str(request.pop("op", "")), **request)["ok"] is False
    assert client.call("take", owner="cell", hold_s=1.0)["ok"]
    for attack in (
        {**FLOOD.as_dict(), "target": "192.0.2.1"},
        {**FLOOD.as_dict(), "address": "192.0.2.1"},
        None,
    ):
        refused = client.call("start", owner="cell", attack=attack)
        assert refused["ok"] is False and refused["code"] == "bad_settings"
    client.close()
    assert wire.frames == []


def test_a_tap_that_is_not_there_is_named(wire: Wire) -> None:
    addresses = Addresses("198.18.2.60", "198.18.2.20", "198.18.2.30", "198.18.2.50")
    attacker = Attacker(addresses, ("127.0.0.1", free_port()))
    answer = attacker.answer({"op": "take", "owner": "cell", "hold_s": 1}, object(), 0)
    assert answer["code"] == "no_answer" and "profile attacker" in answer["hint"]
    assert attacker.desk.owner is None
