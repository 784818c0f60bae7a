"""Counting sealed datagrams where the tunnel's own counters cannot be had: AF_PACKET, standard library alone.

It sees sizes, sources and whether the first nibble is a packet type; it cannot see whether a tag fits. The
tunnel's bins cost nothing and say more: this is for hosts in the way, and for comparison. Linux, NET_RAW.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Final

from pqdetect.errors import DetectError

IPV4: Final = 0x0800
UDP: Final = 17
LEAST_BYTES: Final = 24
TYPES: Final = range(1, 7)
_LATER_FRAGMENT: Final = 0x1F
_TICK: Final = struct.pack("ll", 0, 50_000)
"""struct timeval: the longest wait for a packet."""


class SnifferError(DetectError):
    """The interface cannot be listened on."""

    code = "sniffer"
    hint = "run it on Linux as root or with NET_RAW, and name an interface of this host"


@dataclass
class Seen:
    """Datagrams to the port since the last `take`."""

    datagrams: int = 0
    size_bytes: int = 0
    malformed: int = 0
    """Too short for a sealed packet, or of a type that does not exist."""
    sources: set[bytes] = field(default_factory=set)
    """IPv4 addresses they claim to come from."""


class Counter:
    """Sans-IO half: IPv4 packets in, counts out."""

    def __init__(self, port: int) -> None:
        self._high, self._low = divmod(port, 256)
        self._seen = Seen()

    def packet(self, data: memoryview, length: int) -> None:
        """One IPv4 packet, from its first header byte on; what is no datagram to the port is passed over."""
        if length < 28 or data[9] != UDP:
            return
        start = (data[0] & 15) * 4
        # Byte by byte: a slice would make an object for every packet of a flood.
        if data[start + 3] != self._low or data[start + 2] != self._high:
            return
        if data[7] or data[6] & _LATER_FRAGMENT:
            return
        size = min(data[start + 4] << 8 | data[start + 5], length - start) - 8
        seen = self._seen
        seen.datagrams += 1
        seen.size_bytes += size
        if size < LEAST_BYTES or data[start + 8] >> 4 not in TYPES:
            seen.malformed += 1
        seen.sources.add(bytes(data[12:16]))

    def take(self) -> Seen:
        """Counts so far; counting starts anew."""
        seen, self._seen = self._seen, Seen()
        return seen


class Sniffer:
    """Listens on one interface for one UDP port. Raises SnifferError."""

    def __init__(self, interface: str, port: int) -> None:
        if not hasattr(socket, "AF_PACKET"):
            raise SnifferError("this platform has no packet sockets")
        self.counter = Counter(port)
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(IPV4))
            self._socket.bind((interface, IPV4))
            # The kernel's own time limit: Python's would cost a second system call a packet.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TICK)
        except OSError as error:
            raise SnifferError(f"interface {interface}: {error.strerror or error}") from error
        self._buffer = memoryview(bytearray(65_536))

    def run_until(self, end_ns: int) -> None:
        """Count what comes until this realtime, ns. A train that was not cut yet (GSO) counts as one."""
        buffer, receive, count = self._buffer, self._socket.recv_into, self.counter.packet
        while time.time_ns() < end_ns:
            try:
                count(buffer, receive(buffer))
            except BlockingIOError:
                continue

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
