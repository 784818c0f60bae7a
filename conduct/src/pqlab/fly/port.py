"""The ground port: where QGroundControl, Mission Planner or MAVProxy on this machine meet the vehicle.

Two doors on 127.0.0.1 and no other address, open while `pqlab fly` runs: every frame goes as a datagram to
UDP 14550, where ground stations listen, and to each client of TCP 5760. What either answers goes up, frame
by frame.

    vehicle ═ tunnel ═ MAVProxy (ground) ── station source ── [this port] ── ground station

The hop to the ground's container is one TCP connection to its address on the lab's internal network, which
this machine reaches and nobody else: no port of a container is published for it, so the containers are
those of a measured run.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pqbase.documents import Json
from pqevidence.errors import LabError, UsageError
from pqlab.fly.frames import Frames

LOOPBACK: Final = "127.0.0.1"
UDP_PORT: Final = 14550
TCP_PORT: Final = 5760
MOST_CLIENTS: Final = 8
_CONNECT_S: Final = 5.0
_POLL_S: Final = 0.2
_SEND_S: Final = 1.0
_LENGTH_BYTES: Final = 2


@dataclass
class Counts:
    """What passed. udp_refused: datagrams to a UDP port where nobody listens."""

    down_frames: int = 0
    up_frames: int = 0
    tcp_clients: int = 0
    udp_stations: int = 0
    udp_refused: int = 0
    cut_clients: int = 0

    def as_dict(self) -> Json:
        return dict(vars(self))


@dataclass
class _Client:
    """One TCP client."""

    stream: socket.socket
    name: str
    frames: Frames = field(default_factory=Frames)


class GroundPort:
    """Opens both doors at once, relays in a thread of its own until `close`.

    ports: 0 for TCP takes any that is free, 0 for UDP sends nowhere. tell: hears of every ground station
    that comes or goes. Raises LabError `port-taken`.
    """

    def __init__(self, udp_port: int, tcp_port: int, tell: Callable[[str, str], None]) -> None:
        self.counts = Counts()
        self._tell = tell
        self._udp_target = (LOOPBACK, udp_port) if udp_port else None
        self._udp_heard = False
        self._upstream: socket.socket | None = None
        self._pending = bytearray()
        self._clients: list[_Client] = []
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        #: why the way to the vehicle ended; None while it stands
        self.lost: str | None = None
        self._listener = _listen(tcp_port)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.setblocking(False)
        if self._udp_target is not None:
            self._udp.connect(self._udp_target)

    @property
    def tcp_port(self) -> int:
        return int(self._listener.getsockname()[1])

    def begin(self, upstream: tuple[str, int]) -> None:
        """Connect to the ground's station source and relay. Raises LabError where it does not answer."""
        try:
            self._upstream = socket.create_connection(upstream, timeout=_CONNECT_S)
        except OSError as error:
            raise LabError(
                "no-ground-port",
                f"the ground's container does not answer at {upstream[0]}:{upstream[1]}",
                str(error.strerror or error),
                "make lab-status; then the same command again",
            ) from error
        self._upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._thread = threading.Thread(target=self._run, name="ground-port", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Both doors shut; every client's connection ends."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        for client in self._clients:
            client.stream.close()
        for one in (self._listener, self._udp, self._upstream):
            if one is not None:
                one.close()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        upstream = self._upstream
        assert upstream is not None
        while not self._closing.is_set() and self.lost is None:
            watched = [upstream, self._listener, self._udp, *(client.stream for client in self._clients)]
            ready, _, _ = select.select(watched, [], [], _POLL_S)
            if upstream in ready:
                self._down(upstream)
            if self._udp in ready:
                self._up_udp()
            for client in list(self._clients):
                if client.stream in ready:
                    self._up_tcp(client)
            if self._listener in ready:
                self._accept()

    def _down(self, upstream: socket.socket) -> None:
        try:
            chunk = upstream.recv(65_536)
        except OSError as error:
            self.lost = str(error.strerror or error)
            return
        if not chunk:
            self.lost = "the ground's container closed the connection"
            return
        for frame in self._unframed(chunk):
            self.counts.down_frames += 1
            self._send_udp(frame)
            for client in list(self._clients):
                try:
                    client.stream.sendall(frame)
                except OSError:  # gone, or it reads nothing any more
                    self.counts.cut_clients += 1
                    self._leave(client)

    def _unframed(self, chunk: bytes) -> Iterator[bytes]:
        self._pending += chunk
        while len(self._pending) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._pending[:_LENGTH_BYTES], "big")
            if len(self._pending) < end:
                return
            yield bytes(self._pending[_LENGTH_BYTES:end])
            del self._pending[:end]

    def _send_udp(self, frame: bytes) -> None:
        if self._udp_target is None:
            return
        try:
            self._udp.send(frame)
        except ConnectionRefusedError:
            self._nobody_listens()
        except BlockingIOError:
            self.counts.udp_refused += 1

    def _nobody_listens(self) -> None:
        """An earlier datagram was refused."""
        self.counts.udp_refused += 1
        if self._udp_heard and self._udp_target is not None:
            self._udp_heard = False
            self._tell("ground_station_left", f"UDP {self._udp_target[1]}")

    def _up_udp(self) -> None:
        try:
            datagram = self._udp.recv(65_536)
        except ConnectionRefusedError:
            self._nobody_listens()
            return
        except BlockingIOError:
            return
        if not self._udp_heard and self._udp_target is not None:
            self._udp_heard = True
            self.counts.udp_stations += 1
            self._tell("ground_station", f"UDP {self._udp_target[1]}")
        for frame in Frames().feed(datagram):
            self._up(frame)

    def _up_tcp(self, client: _Client) -> None:
        try:
            chunk = client.stream.recv(65_536)
        except OSError:
            chunk = b""
        if not chunk:
            self._leave(client)
            return
        for frame in client.frames.feed(chunk):
            self._up(frame)

    def _up(self, frame: bytes) -> None:
        if self._upstream is None or self.lost is not None:
            return
        try:
            self._upstream.sendall(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
        except OSError as error:
            self.lost = str(error.strerror or error)
            return
        self.counts.up_frames += 1

    def _accept(self) -> None:
        stream, (host, port) = self._listener.accept()
        if len(self._clients) >= MOST_CLIENTS:
            stream.close()
            return
        stream.settimeout(_SEND_S)
        with contextlib.suppress(OSError):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(stream, f"TCP {self.tcp_port} from {host}:{port}")
        self._clients.append(client)
        self.counts.tcp_clients += 1
        self._tell("ground_station", client.name)

    def _leave(self, client: _Client) -> None:
        self._clients.remove(client)
        client.stream.close()
        self._tell("ground_station_left", client.name)


def checked_port(port: int, option: str) -> int:
    """The port. Raises UsageError for a number that is none."""
    if not 0 <= port <= 65_535:
        raise UsageError("bad-port", f"{option} {port} is no port", "ports go from 0 to 65535", f"{option} 0")
    return port


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise LabError(
            "port-taken",
            f"TCP port {port} on this machine is taken",
            f"ground stations connect to the vehicle there (who has it: ss -ltnp 'sport = :{port}')",
            f"./pqlab fly --tcp-port {port + 2 if port <= 65_533 else 0}",
        ) from error
    listener.listen(MOST_CLIENTS)
    return listener
