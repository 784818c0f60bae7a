"""Which UDP ports of this Windows host are bound (GetUdpTable). Imported on Windows alone."""

from __future__ import annotations

import ctypes
import socket
import sys
from typing import Final

assert sys.platform == "win32"

_INSUFFICIENT_BUFFER: Final = 122
_ROW_BYTES: Final = 8
"""MIB_UDPROW: local address and local port, each 32 bits, in network order."""


def bound_ports() -> frozenset[int]:
    """IPv4 ports. Raises OSError with the system's own text."""
    ask = ctypes.WinDLL("iphlpapi").GetUdpTable
    size = ctypes.c_uint32(0)
    code = ask(None, ctypes.byref(size), 0)
    while code == _INSUFFICIENT_BUFFER:
        table = ctypes.create_string_buffer(size.value)
        code = ask(table, ctypes.byref(size), 0)
    if code != 0:
        raise ctypes.WinError(code)
    count = int.from_bytes(table.raw[:4], "little")
    rows = (table.raw[4 + n * _ROW_BYTES : 4 + (n + 1) * _ROW_BYTES] for n in range(count))
    return frozenset(socket.ntohs(int.from_bytes(row[4:6], "little")) for row in rows)
