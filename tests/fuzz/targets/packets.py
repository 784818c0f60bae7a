"""Sealed packets: two sessions and a network that forges, repeats, cuts, reorders and reflects.

The model beside them knows every authentic datagram. What a session accepts must be one of them, once, and
after whatever went on an honest packet must still pass: nothing unauthenticated may silence a direction.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from core_kit import Lab
from reader import Reader, altered

from pqspec.session import Session
from pqtunnel import packet
from pqtunnel.errors import SessionError
from pqtunnel.handshake.established import Established, TrafficKeys
from pqtunnel.session import COUNTERS
from targets import Target

DROPS = ("bad_header", "unknown_index", "auth_failed", "duplicate", "replay", "old_epoch")
RECEIVED = [name for name in COUNTERS if name.startswith("rx_") and name not in ("rx_ok_bytes", "rx_late")]
MAX_OPERATIONS = 64


def _pair() -> tuple[Established, Established]:
    return Lab().handshake()


_DRONE, _GCS = _pair()
_PRIMITIVES = Lab().primitives


def _epoch(number: int, salt: int) -> tuple[Established, Established]:
    """Keys of epoch `number`: one handshake's, told apart by their first byte and by the indices."""

    def other(keys: TrafficKeys) -> TrafficKeys:
        first = bytes((salt,))
        return replace(keys, send_key=first + keys.send_key[1:], receive_key=first + keys.receive_key[1:])

    mine, theirs = 0xD00000 + salt, 0x6C0000 + salt
    return (
        replace(_DRONE, epoch=number, keys=other(_DRONE.keys), rx_index=mine, tx_index=theirs),
        replace(_GCS, epoch=number, keys=other(_GCS.keys), rx_index=theirs, tx_index=mine),
    )


class _Net:
    """Both ends, everything authentic that was ever sent, and what each end has taken."""

    def __init__(self, make: Any) -> None:
        self.counters: dict[str, dict[str, int]] = {"drone": {}, "gcs": {}}
        self.ends = {role: make(role, self.counters[role]) for role in ("drone", "gcs")}
        self.sent: dict[str, list[tuple[bytes, int, bytes]]] = {"drone": [], "gcs": []}
        self.taken: dict[str, set[bytes]] = {"drone": set(), "gcs": set()}
        self.now_ns = 1
        self.epochs = 0

    def handshake(self, first: int) -> None:
        drone, gcs = _epoch(first + self.epochs, self.epochs)
        self.epochs += 1
        self.ends["gcs"].install(gcs, self.now_ns)
        self.ends["drone"].install(drone, self.now_ns)

    def seal(self, role: str, kind: int, payload: bytes) -> bytes | None:
        end = self.ends[role]
        if not end.can_send:
            return None
        datagram = end.seal_data(payload)[0] if kind == packet.DATA else end.seal_control(kind, payload)
        self.sent[role].append((datagram, kind, payload))
        return bytes(datagram)

    def _counted(self, role: str) -> int:
        return sum(self.counters[role].get(name, 0) for name in (*RECEIVED, *DROPS))

    def receive(self, role: str, datagram: bytes) -> bool:
        """True when it was taken; asserts that this was right."""
        before = self._counted(role)
        got = self.ends[role].receive(datagram, self.now_ns)
        assert self._counted(role) == before + 1, f"not counted exactly once: {got!r}"
        if got.kind == 0:
            assert got.reason in DROPS and got.payload == b""
            return False
        peer = "gcs" if role == "drone" else "drone"
        match = [row for row in self.sent[peer] if row[0] == datagram]
        assert match, "took a datagram that its peer never sent"
        assert match[0][1:] == (got.kind, bytes(got.payload)), "took it as something else"
        assert datagram not in self.taken[role], "took the same datagram twice"
        self.taken[role].add(datagram)
        return True


def _play(reader: Reader, net: _Net) -> None:
    net.handshake(reader.u8())
    waiting: list[tuple[str, bytes]] = []
    for _ in range(MAX_OPERATIONS):
        if not reader.left:
            break
        operation = reader.u8() % 12
        role = "drone" if reader.u8() & 1 else "gcs"
        peer = "gcs" if role == "drone" else "drone"
        if operation <= 1:
            kind = packet.DATA if operation == 0 else packet.KEEPALIVE + reader.u8() % 5
            sealed = net.seal(role, kind, reader.take(reader.u8() % 32) if kind != packet.KEEPALIVE else b"")
            if sealed is not None:
                waiting.append((peer, sealed))
        elif operation <= 3 and waiting:
            place = reader.u8() % len(waiting)
            net.receive(*(waiting.pop(place) if operation == 2 else waiting[place]))
        elif operation == 4 and waiting:
            to, datagram = waiting[reader.u8() % len(waiting)]
            net.receive(to, altered(reader, datagram))
        elif operation == 5:
            net.receive(role, reader.take(reader.u8()))
        elif operation == 6 and waiting:  # the right header but for the sequence it claims
            to, datagram = waiting[reader.u8() % len(waiting)]
            net.receive(to, datagram[:4] + reader.exactly(4) + datagram[8:])
        elif operation == 7 and waiting:  # reflected to its sender
            to, datagram = waiting[reader.u8() % len(waiting)]
            net.receive("gcs" if to == "drone" else "drone", datagram)
        elif operation == 8:
            net.now_ns += reader.u8() * 50_000_000
        elif operation == 9 and net.epochs < 40:
            net.handshake(reader.u8() % 3)
        elif operation == 10 and waiting:  # spliced from two authentic ones
            to, datagram = waiting[reader.u8() % len(waiting)]
            other = waiting[reader.u8() % len(waiting)][1]
            cut = reader.u8() % (len(datagram) + 1)
            net.receive(to, datagram[:cut] + other[cut:])
        else:
            end = net.ends[role]
            assert end.keepalive_due(net.now_ns) in (True, False) and end.silent(net.now_ns) in (True, False)
            assert end.rekey_due(net.now_ns) in (True, False)
    # Nothing that went on may have silenced the link.
    for role, peer in (("drone", "gcs"), ("gcs", "drone")):
        honest = net.seal(role, packet.DATA, b"honest")
        assert honest is not None, f"the {role} cannot send"
        assert net.receive(peer, honest), f"an honest packet to the {peer} was dropped"


class _Twin:
    """Both sessions side by side: every call must have the same outcome and leave the same counters."""

    def __init__(self, role: Any, counters: dict[str, int]) -> None:
        import pq_core

        from pqtunnel.primitives import load

        self._python = Session(role, counters, load())
        self._native = pq_core.Session(role)
        self._counters = counters

    def __getattr__(self, name: str) -> Any:
        mine, theirs = getattr(self._python, name), getattr(self._native, name)
        if not callable(mine):
            assert mine == theirs, f"{name}: {mine} here, {theirs} natively"
            return mine

        def both(*arguments: Any) -> Any:
            expected, got = _outcome(mine, arguments), _outcome(theirs, arguments)
            assert got == expected, f"{name}: {expected} here, {got} natively"
            assert dict(self._native.session_counters()) == self._counters, f"counters after {name}"
            if expected[0] == "error":
                raise SessionError(expected[1][0], code=expected[1][1])
            return expected[1]

        return both


def _outcome(call: Any, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        result = call(*arguments)
    except SessionError as error:
        return "error", (str(error), error.code)
    if hasattr(result, "reason"):
        return "received", _Row(result)
    return "value", result


class _Row:
    """A Received that compares by content."""

    def __init__(self, received: Any) -> None:
        self.kind, self.payload = received.kind, bytes(received.payload)
        self.epoch, self.sequence, self.reason = received.epoch, received.sequence, received.reason
        self.newest, self.first = getattr(received, "newest", None), getattr(received, "first", None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Row) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(vars(self))


def _python(role: Any, counters: dict[str, int]) -> Session:
    return Session(role, counters, _PRIMITIVES)


def session(data: bytes) -> None:
    """The executable specification; beside it, with real AEADs, the Rust core where its wheel is there."""
    _play(Reader(data), _Net(_Twin if find_spec("pq_core") else _python))


def _seeds() -> dict[str, bytes]:
    send_deliver = b"\x00\x01\x05hello\x02\x01\x00"
    return {
        "seed-data": b"\x00" + send_deliver * 3,
        "seed-replay": b"\x01\x00\x01\x02hi\x03\x01\x00\x03\x01\x00",
        "seed-forged-sequence": b"\x00\x00\x01\x01x\x06\x01\x00\x7f\xff\xff\xff\x02\x01\x00",
        "seed-epochs": b"\x0e" + (send_deliver + b"\x09\x00\x00") * 6,
        "seed-late": b"\x00\x00\x01\x01a" + b"\x09\x00\x01" + b"\x08\x00\x30" + b"\x02\x00\x00",
        "seed-control": b"\x00"
        + b"".join(bytes((1, 1, kind)) + b"\x08token678\x02\x01\x00" for kind in range(5)),
        "seed-reflect": b"\x00\x00\x01\x01x\x07\x00\x00",
        "seed-splice": b"\x00\x00\x01\x08abcdefgh\x00\x01\x08ijklmnop\x0a\x01\x00\x01\x0c",
    }


TARGETS = {
    "session": Target(
        "sealed packets: the Python session and the native one side by side",
        session,
        _seeds,
        (
            "spec/src/pqspec/session.py",
            "spec/src/pqspec/replay.py",
            "tunnel/src/pqtunnel/packet.py",
            "tunnel/core/src/session.rs",
            "tunnel/core/src/replay.rs",
            "tunnel/core/src/packet.rs",
            "tunnel/core/src/python/session.rs",
        ),
        limit=1024,
    ),
}
