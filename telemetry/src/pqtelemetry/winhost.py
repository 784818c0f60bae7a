"""Host facts and readers of a Windows machine. Imported on Windows alone."""

from __future__ import annotations

import mmap
import os
import socket
import sys
import uuid
from pathlib import Path
from typing import Final

from pqtelemetry import winapi
from pqtelemetry.procfile import read_text
from pqtelemetry.readers import windows
from pqtelemetry.readers.base import Missing, Reader

assert sys.platform == "win32"

_CPU: Final = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
_CRYPTOGRAPHY: Final = r"SOFTWARE\Microsoft\Cryptography"
_CONTROL: Final = r"SYSTEM\CurrentControlSet\Control"
_UNIX: Final = "\\\\?\\unix"
"""wine's own name for the root of the system below it."""
_MINUTE: Final = 600_000_000
"""In units of 100 ns."""
_WHY_NULL: Final = {
    "machine": "PROCESSOR_ARCHITECTURE is not in the environment",
    "cpu_model": "the registry has no ProcessorNameString",
    "cpu_count": "the system did not tell",
    "cpu_features": "Windows names no list of processor features",
    "board_model": "no device tree on Windows",
    "board_revision": "no device tree on Windows",
    "boot_id": "neither a MachineGuid nor the boot id of a kernel below could be read",
    "clock_tick_ms": "Windows accounts CPU time in no fixed tick",
}


def find_readers(pid: int | None, counters: Path | None) -> list[Reader]:
    """The readers that ask the system; those that every platform shares are not among them."""
    readers: list[Reader] = [windows.WindowsCpu(winapi.system_times)]
    if pid is not None and counters is not None:
        readers.append(windows.ToldProcess(pid, counters, winapi.resident_bytes))
    elif pid is not None:
        readers.append(Missing("process", "no counters file in which that process tells its CPU time"))
    readers += [
        windows.WindowsMemory(winapi.available_memory_bytes),
        windows.WindowsUdp(winapi.udp_statistics),
        *_interface_readers(),
        *windows.absent_sensors(),
    ]
    return readers


def _interface_readers() -> list[Reader]:
    if winapi.wine_version() is not None:
        return [Missing(name, windows.WINE_INTERFACES) for name in ("interface-drops", "interfaces")]

    def rows() -> list[tuple[str, dict[str, int]]]:
        return [(row.name, row.fields) for row in winapi.interfaces()]

    return [windows.WindowsInterfaceDrops(rows), windows.WindowsInterfaces(rows)]


def host_facts() -> dict[str, object]:
    """The same keys as on Linux; what Windows does not tell is null and has its entry in `reasons`. `wine` is
    there under wine alone."""
    version = sys.getwindowsversion()
    wine = winapi.wine_version()
    facts: dict[str, object] = {
        "os": "windows",
        "machine": os.environ.get("PROCESSOR_ARCHITEW6432") or os.environ.get("PROCESSOR_ARCHITECTURE"),
        "cpu_model": winapi.registry_text(_CPU, "ProcessorNameString"),
        "cpu_count": os.cpu_count(),
        "cpu_features": None,
        "kernel": f"{version.major}.{version.minor}.{version.build}",
        "hostname": socket.gethostname(),
        "board_model": None,
        "board_revision": None,
        "boot_id": _boot_id(wine),
        "in_container": _in_container(wine),
        "clock_tick_ms": None,
        "page_bytes": mmap.PAGESIZE,
    }
    facts["reasons"] = {name: _WHY_NULL[name] for name, value in facts.items() if value is None}
    return facts if wine is None else {**facts, "wine": wine}


def _boot_id(wine: str | None) -> str | None:
    """Names this boot: a UUID made of the machine's own (MachineGuid) and the minute it was booted in.

    Under wine it is the boot id of the kernel below, because that is the kernel and the clock there are.
    """
    if wine is not None:
        return read_text(Path(_UNIX + r"\proc\sys\kernel\random\boot_id"))
    machine = winapi.registry_text(_CRYPTOGRAPHY, "MachineGuid")
    if machine is None:
        return None
    minute = (winapi.boot_time_100ns() + _MINUTE // 2) // _MINUTE
    return str(uuid.uuid5(uuid.UUID(machine), f"booted in minute {minute} since 1601"))


def _in_container(wine: str | None) -> bool:
    if wine is not None:
        return Path(_UNIX + r"\.dockerenv").exists() or Path(_UNIX + r"\run\.containerenv").exists()
    # Windows' containers are told so by this value.
    return winapi.registry_text(_CONTROL, "ContainerType") is not None
