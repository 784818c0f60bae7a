"""On what this agent really runs: an operating system, wine in the place of Windows, an emulated processor.

Numbers of a machine that is played by another one are never of ring hardware.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pqtunnel.config import ConfigError

_FAMILIES: Final = {3: "x86", 62: "x86", 40: "arm", 183: "arm", 243: "riscv"}
"""e_machine of an ELF header (System V ABI): i386, x86-64, Arm, AArch64, RISC-V."""
_PREFIXES: Final = {"x86": ("x86", "i386", "i686", "amd64"), "arm": ("arm", "aarch64"), "riscv": ("riscv",)}


def wine_version() -> str | None:
    """Version of wine, None on Windows itself and elsewhere (ntdll exports this in wine alone)."""
    if sys.platform != "win32":
        return None
    told = getattr(ctypes.WinDLL("ntdll"), "wine_get_version", None)
    if told is None:
        return None
    told.restype = ctypes.c_char_p
    return str(told().decode("ascii"))


def emulator(machine: str | None = None, proc: Path = Path("/proc")) -> str | None:
    """`qemu-user` where the kernel runs another program than ours, for another processor, in our place.

    The evidence is the ELF header behind /proc/thread-self/exe: qemu-user makes /proc/self/exe, uname and
    /proc/cpuinfo say what the guest expects, not this link. None where both are of one family, or unreadable.
    """
    try:
        with (proc / "thread-self/exe").open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    if len(header) < 20 or header[:4] != b"\x7fELF":
        return None
    family = _FAMILIES.get(int.from_bytes(header[18:20], "little" if header[5] == 1 else "big"))
    ours = (machine or platform.machine()).lower()
    if family is None or ours.startswith(_PREFIXES[family]):
        return None
    return "qemu-user"


def played_by() -> dict[str, str]:
    """`wine` and `emulated` of the host facts; neither key on a machine that is what it says."""
    told = {"wine": wine_version(), "emulated": None if sys.platform == "win32" else emulator()}
    return {name: value for name, value in told.items() if value is not None}


def check_ring(ring: str, played: Mapping[str, str]) -> None:
    """Raises ConfigError where ring hardware is claimed for a machine that another one plays."""
    if ring == "hardware" and played:
        by = ", ".join(f"{name} {value}" for name, value in played.items())
        raise ConfigError(
            f"PQ_RING is hardware, but this machine is played by another one ({by})",
            hint="set PQ_RING=lab: its numbers are never those of a board or of Windows itself",
        )
