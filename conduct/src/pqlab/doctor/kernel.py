"""Kernel features that comparisons and impaired links can use (netem, WireGuard, UDP offload, TUN), socket
buffers.

The lab runs without all of them. Nothing is loaded or changed to find out.
"""

from __future__ import annotations

import gzip
import socket

from pqlab.doctor.model import Reading, Requirement, Wish
from pqlab.doctor.system import System

NOTHING = "nothing to do: no scenario of this version needs it"
# linux/udp.h; Python does not name them.
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104


def _module(system: System, module: str, option: str) -> Reading:
    """A module that is loaded, built in, or there to be loaded; else what the kernel's configuration says."""
    if system.exists(f"sys/module/{module}"):
        return Reading(True, "loaded")
    release = system.text("proc/sys/kernel/osrelease").strip()
    folder = f"lib/modules/{release}"
    for name, word in (("modules.builtin", "built in"), ("modules.dep", "a module")):
        path = f"{folder}/{name}"
        if system.exists(path) and f"/{module}.ko" in system.text(path):
            return Reading(True, word)
    if system.exists("proc/config.gz"):
        config = gzip.decompress((system.root / "proc/config.gz").read_bytes()).decode()
        if f"{option}=y" in config.splitlines():
            return Reading(True, "built in")
        if f"{option}=m" in config.splitlines():
            return Reading(False, "configured as a module that is not installed")
    return Reading(False, f"not in kernel {release}")


def read_netem(system: System) -> Reading:
    """The netem queueing discipline."""
    return _module(system, "sch_netem", "CONFIG_NET_SCH_NETEM")


def read_wireguard(system: System) -> Reading:
    """WireGuard in the kernel."""
    return _module(system, "wireguard", "CONFIG_WIREGUARD")


def read_udp_offload(_system: System) -> Reading:
    """UDP GSO and GRO, asked of a socket that is closed again."""
    missing: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for name, option, value in (("GSO", _UDP_SEGMENT, 1200), ("GRO", _UDP_GRO, 1)):
            try:
                probe.setsockopt(_SOL_UDP, option, value)
            except OSError:
                missing.append(name)
    return Reading(not missing, f"no UDP {' and '.join(missing)}" if missing else "UDP GSO and GRO")


def read_tun(system: System) -> Reading:
    """The TUN device."""
    there = system.exists("dev/net/tun")
    return Reading(there, "/dev/net/tun" if there else "no /dev/net/tun")


#: what the tunnel asks for on each of its sockets (tunnel/core: SOCKET_BUFFER_BYTES)
SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
_BUFFERS = ("proc/sys/net/core/rmem_max", "proc/sys/net/core/wmem_max")


def read_buffers(system: System) -> Reading:
    """The greatest socket buffers a program may ask for."""
    sizes = [int(system.text(path)) for path in _BUFFERS]
    told = f"receive {sizes[0] / 2**20:.1f} MiB, send {sizes[1] / 2**20:.1f} MiB"
    return Reading(min(sizes) >= SOCKET_BUFFER_BYTES, told)


def write_buffers(system: System) -> list[Wish]:
    """What the tunnel asks for; what is larger stays."""
    small = [path for path in _BUFFERS if int(system.text(path)) < SOCKET_BUFFER_BYTES]
    return [Wish(path, str(SOCKET_BUFFER_BYTES)) for path in small]


REQUIREMENTS = (
    Requirement(
        "socket buffers",
        "note",
        f"{SOCKET_BUFFER_BYTES // 2**20} MiB each way, so that a burst waits instead of being dropped",
        read_buffers,
        "sudo ./pqlab tune",
        write_buffers,
    ),
    Requirement(
        "netem",
        "note",
        "netem, for impairments by the kernel",
        read_netem,
        NOTHING,
    ),
    Requirement(
        "wireguard",
        "note",
        "WireGuard, to compare with",
        read_wireguard,
        NOTHING,
    ),
    Requirement(
        "udp offload",
        "note",
        "UDP GSO and GRO, for batched forwarding",
        read_udp_offload,
        NOTHING,
    ),
    Requirement(
        "tun",
        "note",
        "/dev/net/tun, for impaired links",
        read_tun,
        NOTHING,
    ),
)
