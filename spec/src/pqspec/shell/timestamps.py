"""Kernel receive timestamps and kernel drop counts of a UDP socket, where the platform has them.

Linux gives both as ancillary data (socket(7): SO_TIMESTAMPNS, SO_RXQ_OVFL). Elsewhere the receive time is the
clock's after the call returned, and the source says so.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import Final

# Not exported by Python's socket module; the values are those of asm-generic/socket.h (x86, Arm, RISC-V).
_SO_TIMESTAMPNS: Final = 35
_SO_RXQ_OVFL: Final = 40
_TIMESPEC: Final = struct.Struct("=qq")
_DROPS: Final = struct.Struct("=I")
ANCILLARY_BYTES: Final = 128

SOURCE_KERNEL: Final = "kernel"
SOURCE_CLOCK: Final = "clock"


def enable(sock: socket.socket) -> str:
    """Ask the kernel for timestamps and drop counts; returns SOURCE_KERNEL or SOURCE_CLOCK."""
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return SOURCE_CLOCK
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
    except OSError:
        return SOURCE_CLOCK  # not an error of ours: the row's source says where its time came from
    return SOURCE_KERNEL


def read(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int | None]:
    """(receive time, CLOCK_REALTIME ns; datagrams the kernel dropped so far or None when it did not say)."""
    stamp_ns = 0
    drops: int | None = None
    for level, kind, data in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            stamp_ns = seconds * 1_000_000_000 + nanoseconds
        elif kind == _SO_RXQ_OVFL and len(data) >= _DROPS.size:
            (drops,) = _DROPS.unpack_from(data)
    return stamp_ns or time.time_ns(), drops
