"""A door for a ground station: MAVProxy's frames to whoever connects, and theirs to MAVProxy.

It is a source of the ground service, so the door is open between a start and its stop and at no other time,
and MAVProxy meets it under the one address of the uplink probe: MAVProxy sends to every address it ever
met, and a client of its own would cost every later run one more datagram a frame.

The hop to `pqlab fly` is TCP: each datagram with its length before it, two bytes, big-endian, both ways.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator

from pqsitl.errors import SitlError
from pqsitl.net import UdpLink
from pqsitl.sources import MAX_WAIT_S, Source
from pqsitl.spec import TrafficSpec
from pqsitl.uplink import HEARTBEAT_PERIOD_NS, UplinkProbe

STATION_PORT = 48071
SEND_LIMIT_S = 1.0
"""A reader that leaves its socket full for longer is cut off: frames wait for nobody."""
_LENGTH_BYTES = 2
_MOST_AT_ONCE = 64


class Framing:
    """Sans-IO: bytes of the stream in, whole datagrams out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Every datagram that is whole now."""
        self._buffer += chunk
        while len(self._buffer) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
            if len(self._buffer) < end:
                return
            yield bytes(self._buffer[_LENGTH_BYTES:end])
            del self._buffer[:end]


def framed(datagram: bytes) -> bytes:
    """The datagram as it goes over the stream."""
    return len(datagram).to_bytes(_LENGTH_BYTES, "big") + datagram


class StationSource(Source):
    """Relays between MAVProxy and one connection; while nobody speaks, a heartbeat a second keeps MAVProxy
    sending."""

    name = "station"

    def __init__(self, link: UdpLink, spec: TrafficSpec, address: tuple[str, int]) -> None:
        super().__init__(link, spec)
        self._address = address
        self._listener: socket.socket | None = None
        self._reader: socket.socket | None = None
        self._framing = Framing()
        self.connection_count = 0
        self.downlink_frame_count = 0
        self.uplink_frame_count = 0
        self.cut_count = 0

    def start(self) -> dict[str, object]:
        """Listen, then relay. Raises SitlError where the port is taken."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(self._address)
            listener.listen(4)
        except OSError as error:
            listener.close()
            raise SitlError(
                f"the ground station's port {self._address[1]} is taken: {error.strerror}",
                "restart the ground's container",
                "unavailable",
            ) from error
        self._listener = listener
        return super().start()

    def detail(self) -> dict[str, object]:
        return {"port": self._address[1] if self._listener is None else self._listener.getsockname()[1]}

    def report(self) -> dict[str, object]:
        return super().report() | {
            "connection_count": self.connection_count,
            "downlink_frame_count": self.downlink_frame_count,
            "uplink_frame_count": self.uplink_frame_count,
            "cut_count": self.cut_count,
        }

    def run(self) -> None:
        assert self._listener is not None
        probe = UplinkProbe(time.monotonic_ns())
        quiet_since_ns = 0
        with contextlib.closing(self._listener) as listener:
            try:
                while not self.finished(now_ns := time.monotonic_ns()):
                    if now_ns - quiet_since_ns >= HEARTBEAT_PERIOD_NS:
                        quiet_since_ns = now_ns
                        self.send(probe.heartbeat())
                    readable = [listener, self.link.socket, *([self._reader] if self._reader else [])]
                    ready, _, _ = select.select(readable, [], [], MAX_WAIT_S)
                    if listener in ready:
                        self._accept(listener)
                    if self.link.socket in ready:
                        self._down()
                    if self._reader is not None and self._reader in ready and self._up():
                        quiet_since_ns = time.monotonic_ns()
            finally:
                self._leave()

    def _accept(self, listener: socket.socket) -> None:
        """The newest connection takes the place of the one before it."""
        self._leave()
        self._reader, _ = listener.accept()
        self._reader.settimeout(SEND_LIMIT_S)
        self._reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._framing = Framing()
        self.connection_count += 1

    def _leave(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _down(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            datagram = self.link.receive()
            if datagram is None:
                return
            self.downlink_frame_count += 1
            if self._reader is None:
                continue
            try:
                self._reader.sendall(framed(datagram))
            except OSError:  # gone, or it does not read: half a datagram may be on its way, so it is over
                self.cut_count += 1
                self._leave()

    def _up(self) -> bool:
        """True when something was passed on."""
        assert self._reader is not None
        try:
            chunk = self._reader.recv(65_536)
        except OSError:
            chunk = b""
        if not chunk:
            self._leave()
            return False
        passed = False
        for datagram in self._framing.feed(chunk):
            self.uplink_frame_count += 1
            self.send(datagram)
            passed = True
        return passed
