"""UDP ends of the services: thin, non-blocking, with their refusals and kernel drops counted."""

from __future__ import annotations

import ctypes
import socket
import sys
from pathlib import Path

from pqbase.net import host_and_port
from pqsitl.errors import SpecError

RECEIVE_BYTES = 9000
RECEIVE_BUFFER_BYTES = 4 << 20
_TABLE = Path("/proc/net/udp")


def owner_hint(kind: str, port: int) -> str:
    """How to find who has a port; `kind` is `t` for TCP, `u` for UDP."""
    if sys.platform == "win32":
        return f"find its owner with: netstat -ano | findstr :{port}"
    return f"find its owner with: ss -{kind}lpn 'sport = :{port}'"


def parse_address(text: str, name: str) -> tuple[str, int]:
    """`host:port`; SpecError names the setting."""
    try:
        return host_and_port(text)
    except ValueError as error:
        raise SpecError(f"{name} is {text!r}, not host:port", f"set {name} like 198.18.1.11:14550") from error


class UdpLink:
    """A UDP socket with one peer, as long-lived as its service: MAVProxy remembers every address it met."""

    def __init__(self, peer: tuple[str, int]) -> None:
        self.peer = peer
        self._refused_count = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.connect(peer)

    @property
    def refused_count(self) -> int | None:
        """Datagrams that the peer's host refused; None under wine, which keeps refusals to itself."""
        return None if _is_wine() else self._refused_count

    def send(self, datagram: bytes) -> bool:
        """True when the kernel took the datagram.

        A pending ICMP refusal belongs to an earlier datagram: it is counted and this one is sent again.
        """
        for _ in range(2):
            try:
                self.socket.send(datagram)
            except (ConnectionRefusedError, ConnectionResetError):
                self._refused_count += 1
            except BlockingIOError:
                return False
            else:
                return True
        return False

    def receive(self) -> bytes | None:
        """The next datagram, None when there is none now."""
        try:
            return self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return None
        except (ConnectionRefusedError, ConnectionResetError):  # Windows calls a refusal a reset (10054)
            self._refused_count += 1
            return None

    def drain(self) -> int:
        """Throw away what waits in the buffer; how many datagrams that was."""
        count = 0
        while self.receive() is not None:
            count += 1
        return count

    def close(self) -> None:
        self.socket.close()


def _is_wine() -> bool:
    """Is the Windows that we are on wine? Its ntdll alone has this function."""
    return sys.platform == "win32" and hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")


def udp_socket_state(port: int, table: Path = _TABLE) -> tuple[int, int] | None:
    """(bytes waiting, datagrams dropped) of the IPv4 socket bound to `port`, None when there is none.

    Always None on Windows: what wine shows there of its host, by some drive letter, is not Windows' to tell.
    """
    if sys.platform == "win32" and table == _TABLE:
        return None
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    wanted = f":{port:04X}"
    for line in lines:
        columns = line.split()
        if columns[1].endswith(wanted):
            return int(columns[4].split(":")[1], 16), int(columns[-1])
    return None


def udp_is_bound(port: int) -> bool:
    """Does somebody on this host receive on that UDP port?"""
    if sys.platform == "win32":
        from pqsitl.winudp import bound_ports

        return port in bound_ports()
    return udp_socket_state(port) is not None
