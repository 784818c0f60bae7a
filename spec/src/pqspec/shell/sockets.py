"""Sockets of the specified data plane: binding them, receiving from them, and naming what a failed send
means."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final

from pqbase.net import claim
from pqtunnel.config import Address
from pqtunnel.endpoint.sockets import PortTakenError

RECEIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Asked for; the kernel grants at most net.core.rmem_max."""
_BUSY: Final = (errno.EAGAIN, errno.ENOBUFS, errno.EWOULDBLOCK)


def ignore_refusals(sock: socket.socket) -> None:
    """Keep Windows from failing a receive because an earlier datagram was refused (WSAECONNRESET, 10054)."""
    if sys.platform == "win32":
        from pqspec.shell.winsock import connection_reset_off

        connection_reset_off(sock)


Received = tuple[int, list[tuple[int, int, bytes]], int, Address]


def receiver(sock: socket.socket) -> Callable[[Sequence[memoryview], int], Received]:
    """recvmsg_into; on Windows, which has none, the same without ancillary data."""
    if sys.platform != "win32":
        return sock.recvmsg_into

    def receive(buffers: Sequence[memoryview], _ancillary_bytes: int) -> Received:
        length, source = sock.recvfrom_into(buffers[0])
        return length, [], 0, source

    return receive


def bound(host: str, port: int, setting: str) -> socket.socket:
    """A UDP socket with large buffers. Raises PortTakenError that names `setting`."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECEIVE_BUFFER_BYTES)
        claim(sock)
        ignore_refusals(sock)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise PortTakenError(
            f"UDP {host}:{port} ({setting}) cannot be bound: {error.strerror or error}"
        ) from error
    return sock


def failed_send(error: OSError, size_bytes: int, target: tuple[str, int]) -> tuple[str, str]:
    """(counter, log line) of a datagram that the kernel did not take. None of them closes anything."""
    where = f"{target[0]}:{target[1]}"
    if error.errno == errno.EMSGSIZE:
        hint = "lower the size of the plaintext datagrams or raise the link's MTU"
        return "oversize_link", f"a datagram of {size_bytes} bytes to {where} exceeds the link's MTU: {hint}"
    return "queue_full" if error.errno in _BUSY else "send_failed", f"send to {where}: {error}"
