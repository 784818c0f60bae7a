"""SIO_UDP_CONNRESET, the one socket setting that Python's `socket` does not offer. Used on Windows alone."""

from __future__ import annotations

import ctypes
import socket
import sys
from typing import Final

_SIO_UDP_CONNRESET: Final = 0x9800000C
"""mswsock.h: whether a receive fails with WSAECONNRESET after an ICMP port unreachable."""


def connection_reset_off(sock: socket.socket) -> None:
    """Raises OSError with the system's own text."""
    if sys.platform != "win32":
        raise OSError("a call of Windows")
    off, returned = ctypes.c_uint32(0), ctypes.c_uint32(0)
    ioctl = ctypes.WinDLL("ws2_32", use_last_error=True).WSAIoctl
    ioctl.argtypes = [
        ctypes.c_size_t,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    size = ctypes.sizeof(off)
    if ioctl(
        sock.fileno(),
        _SIO_UDP_CONNRESET,
        ctypes.byref(off),
        size,
        None,
        0,
        ctypes.byref(returned),
        None,
        None,
    ):
        raise ctypes.WinError(ctypes.get_last_error())
