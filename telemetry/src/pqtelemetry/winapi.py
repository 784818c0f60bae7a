"""The calls into Windows that the sampler needs, by ctypes: the one place where their structures are written.

In scope: one thin function a call, in the units of its documentation. Not in scope: what the numbers mean.
Imported on Windows alone. A call that fails raises OSError with the system's own text.
"""

from __future__ import annotations

import ctypes
import sys
import winreg
from ctypes import wintypes
from dataclasses import dataclass
from typing import Final

assert sys.platform == "win32"

_AF_INET: Final = 2
_PROCESS_QUERY_LIMITED_INFORMATION: Final = 0x1000
_SYSTEM_TIME_OF_DAY_INFORMATION: Final = 3
_IF_TYPE_SOFTWARE_LOOPBACK: Final = 24
_HARDWARE_INTERFACE: Final = 1

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_iphlpapi = ctypes.WinDLL("iphlpapi")
_ntdll = ctypes.WinDLL("ntdll")
_kernel32.OpenProcess.restype = wintypes.HANDLE
_kernel32.CloseHandle.argtypes = [wintypes.HANDLE]
_kernel32.K32GetProcessMemoryInfo.argtypes = [wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD]
_iphlpapi.FreeMibTable.argtypes = [ctypes.c_void_p]


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX, bytes."""

    _fields_ = (
        ("length", wintypes.DWORD),
        ("load_pct", wintypes.DWORD),
        ("total_physical", ctypes.c_uint64),
        ("available_physical", ctypes.c_uint64),
        ("total_page_file", ctypes.c_uint64),
        ("available_page_file", ctypes.c_uint64),
        ("total_virtual", ctypes.c_uint64),
        ("available_virtual", ctypes.c_uint64),
        ("available_extended_virtual", ctypes.c_uint64),
    )


class _ProcessMemory(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS, bytes."""

    _fields_ = (
        ("length", wintypes.DWORD),
        ("page_fault_count", wintypes.DWORD),
        ("peak_working_set", ctypes.c_size_t),
        ("working_set", ctypes.c_size_t),
        ("quotas", ctypes.c_size_t * 4),
        ("page_file", ctypes.c_size_t),
        ("peak_page_file", ctypes.c_size_t),
    )


class _UdpStatistics(ctypes.Structure):
    """MIB_UDPSTATS: cumulative, 32 bits each."""

    _fields_ = (
        ("in_datagrams", wintypes.DWORD),
        ("no_ports", wintypes.DWORD),
        ("in_errors", wintypes.DWORD),
        ("out_datagrams", wintypes.DWORD),
        ("socket_count", wintypes.DWORD),
    )


class _TimeOfDay(ctypes.Structure):
    """SYSTEM_TIMEOFDAY_INFORMATION: FILETIME units (100 ns since 1601)."""

    _fields_ = (
        ("boot_time", ctypes.c_int64),
        ("current_time", ctypes.c_int64),
        ("time_zone_bias", ctypes.c_int64),
        ("time_zone_id", wintypes.ULONG),
        ("reserved", wintypes.ULONG),
        ("boot_time_bias", ctypes.c_uint64),
        ("sleep_time_bias", ctypes.c_uint64),
    )


class _InterfaceRow(ctypes.Structure):
    """MIB_IF_ROW2 of netioapi.h, 1352 bytes."""

    _fields_ = (
        ("luid", ctypes.c_uint64),
        ("index", wintypes.ULONG),
        ("guid", ctypes.c_byte * 16),
        ("alias", wintypes.WCHAR * 257),
        ("description", wintypes.WCHAR * 257),
        ("physical_address_length", wintypes.ULONG),
        ("physical_address", ctypes.c_ubyte * 32),
        ("permanent_physical_address", ctypes.c_ubyte * 32),
        ("mtu", wintypes.ULONG),
        ("type", wintypes.ULONG),
        ("tunnel_type", wintypes.ULONG),
        ("media_type", wintypes.ULONG),
        ("physical_medium_type", wintypes.ULONG),
        ("access_type", wintypes.ULONG),
        ("direction_type", wintypes.ULONG),
        ("flags", ctypes.c_uint8),
        ("oper_status", wintypes.ULONG),
        ("admin_status", wintypes.ULONG),
        ("media_connect_state", wintypes.ULONG),
        ("network_guid", ctypes.c_byte * 16),
        ("connection_type", wintypes.ULONG),
        ("transmit_link_speed", ctypes.c_uint64),
        ("receive_link_speed", ctypes.c_uint64),
        ("in_octets", ctypes.c_uint64),
        ("in_unicast_packets", ctypes.c_uint64),
        ("in_other_packets", ctypes.c_uint64),
        ("in_discards", ctypes.c_uint64),
        ("in_errors", ctypes.c_uint64),
        ("in_unknown_protocols", ctypes.c_uint64),
        ("in_unicast_octets", ctypes.c_uint64),
        ("in_multicast_octets", ctypes.c_uint64),
        ("in_broadcast_octets", ctypes.c_uint64),
        ("out_octets", ctypes.c_uint64),
        ("out_unicast_packets", ctypes.c_uint64),
        ("out_other_packets", ctypes.c_uint64),
        ("out_discards", ctypes.c_uint64),
        ("out_errors", ctypes.c_uint64),
        ("out_unicast_octets", ctypes.c_uint64),
        ("out_multicast_octets", ctypes.c_uint64),
        ("out_broadcast_octets", ctypes.c_uint64),
        ("out_queue_length", ctypes.c_uint64),
    )


assert ctypes.sizeof(_InterfaceRow) == 1352, "MIB_IF_ROW2"


class _InterfaceTable(ctypes.Structure):
    """MIB_IF_TABLE2: as many rows as `count` says."""

    _fields_ = (("count", wintypes.ULONG), ("rows", _InterfaceRow * 1))


@dataclass(frozen=True)
class InterfaceCounts:
    """Cumulative counts of one hardware interface, under the names of the series `pq_if`."""

    name: str
    fields: dict[str, int]


def wine_version() -> str | None:
    """Version of wine this process runs under, None on Windows itself (ntdll exports it in wine alone)."""
    try:
        told = _ntdll.wine_get_version
    except AttributeError:
        return None
    told.restype = ctypes.c_char_p
    return str(told().decode("ascii"))


def system_times() -> tuple[int, int, int]:
    """(idle, kernel with idle, user) of all cores together since boot, 100 ns (GetSystemTimes)."""
    idle, kernel, user = wintypes.FILETIME(), wintypes.FILETIME(), wintypes.FILETIME()
    if not _kernel32.GetSystemTimes(ctypes.byref(idle), ctypes.byref(kernel), ctypes.byref(user)):
        raise ctypes.WinError(ctypes.get_last_error())
    one, two, three = ((time.dwHighDateTime << 32) | time.dwLowDateTime for time in (idle, kernel, user))
    return one, two, three


def available_memory_bytes() -> int:
    """Physical memory that is free for programs now (GlobalMemoryStatusEx)."""
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    if not _kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise ctypes.WinError(ctypes.get_last_error())
    return int(status.available_physical)


def resident_bytes(pid: int) -> int:
    """Working set of a process (GetProcessMemoryInfo)."""
    handle = _kernel32.OpenProcess(_PROCESS_QUERY_LIMITED_INFORMATION, False, pid)
    if not handle:
        raise ctypes.WinError(ctypes.get_last_error())
    try:
        memory = _ProcessMemory(length=ctypes.sizeof(_ProcessMemory))
        if not _kernel32.K32GetProcessMemoryInfo(handle, ctypes.byref(memory), memory.length):
            raise ctypes.WinError(ctypes.get_last_error())
        return int(memory.working_set)
    finally:
        _kernel32.CloseHandle(handle)


def udp_statistics() -> dict[str, int]:
    """IPv4 UDP counters since boot, modulo 2^32 (GetUdpStatisticsEx)."""
    told = _UdpStatistics()
    code = _iphlpapi.GetUdpStatisticsEx(ctypes.byref(told), _AF_INET)
    if code != 0:
        raise ctypes.WinError(code)
    names = ("in_datagrams", "out_datagrams", "no_ports", "in_errors")
    return {f"udp_{name}": int(getattr(told, name)) for name in names}


def interfaces() -> list[InterfaceCounts]:
    """Every hardware interface but the loopback (GetIfTable2: one call for the rows of GetIfEntry2)."""
    table = ctypes.POINTER(_InterfaceTable)()
    code = _iphlpapi.GetIfTable2(ctypes.byref(table))
    if code != 0:
        raise ctypes.WinError(code)
    try:
        count = table.contents.count
        rows = (_InterfaceRow * count).from_address(
            ctypes.addressof(table.contents) + _InterfaceTable.rows.offset
        )
        return [_counts(row) for row in rows if _is_wanted(row)]
    finally:
        _iphlpapi.FreeMibTable(table)


def _is_wanted(row: _InterfaceRow) -> bool:
    # The table lists each card once more for every filter that sits on it: those are not hardware.
    return bool(row.flags & _HARDWARE_INTERFACE) and row.type != _IF_TYPE_SOFTWARE_LOOPBACK


def _counts(row: _InterfaceRow) -> InterfaceCounts:
    return InterfaceCounts(
        str(row.alias),
        {
            "rx_bytes": row.in_octets,
            "rx_packets": row.in_unicast_packets + row.in_other_packets,
            "rx_errors": row.in_errors,
            "rx_dropped": row.in_discards,
            "tx_bytes": row.out_octets,
            "tx_packets": row.out_unicast_packets + row.out_other_packets,
            "tx_errors": row.out_errors,
            "tx_dropped": row.out_discards,
        },
    )


def boot_time_100ns() -> int:
    """When this machine was booted, 100 ns since 1601 (NtQuerySystemInformation, class 3)."""
    told = _TimeOfDay()
    status = _ntdll.NtQuerySystemInformation(
        _SYSTEM_TIME_OF_DAY_INFORMATION, ctypes.byref(told), ctypes.sizeof(told), None
    )
    if status != 0:
        raise OSError(f"NtQuerySystemInformation answered {status & 0xFFFFFFFF:#010x}")
    return int(told.boot_time)


def registry_text(key: str, name: str) -> str | None:
    """A value below HKEY_LOCAL_MACHINE as text, None where there is none."""
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
            return str(winreg.QueryValueEx(opened, name)[0]).strip()
    except FileNotFoundError:
        return None
