"""Sockets and addresses of this host: a port that nobody shares, and who holds an address."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final

#: linux/sockios.h
_SIOCGIFADDR: Final = 0x8915


def host_and_port(text: str) -> tuple[str, int]:
    """`HOST:PORT` as a pair, port 1 to 65535; an IPv6 host stands in brackets. Raises ValueError."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or not (port.isascii() and port.isdigit() and len(port) <= 5) or not 0 < int(port) < 65_536:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return bare, int(port)


def claim(sock: socket.socket) -> None:
    """Before bind: nobody else may have this port while we do; after a restart it is free at once.

    Windows' SO_REUSEADDR lets any process take a port that is in use; SO_EXCLUSIVEADDRUSE forbids that
    (Microsoft, "Using SO_REUSEADDR and SO_EXCLUSIVEADDRUSE"). On Linux SO_REUSEADDR of a TCP listener only
    passes over connections in TIME_WAIT, and a UDP socket without it shares its port with nobody.
    """
    if sys.platform == "win32":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    elif sock.type == socket.SOCK_STREAM:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def holds(address: str) -> bool:
    """Is IPv4 `address` this host's, in this network namespace? A bind asks the kernel, without a program."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True


def interface_of(address: str) -> str | None:
    """Name of the interface that holds IPv4 `address`, None where none does (any more). Linux alone."""
    if sys.platform == "win32":
        raise OSError("interfaces are told by address on Linux alone")
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # an interface without an IPv4 address
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
