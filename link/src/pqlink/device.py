"""The kernel's part: a TUN device, the rules that lead packets into it, and host routes. Linux, NET_ADMIN."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
from typing import Final

from pqlink.errors import DeviceError

TUN: Final = "pqlink0"
#: linux/if_tun.h
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_TABLE: Final = "100"
#: a whole McEliece public key may arrive at once
_QUEUE_PACKETS: Final = "5000"


def ip(*argv: str, missing_ok: bool = False) -> str:
    """Run ip(8). Raises DeviceError with what it said; `missing_ok` forgives what is already gone."""
    try:
        done = subprocess.run(["ip", *argv], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"ip {' '.join(argv)}: {error}") from error
    if done.returncode and not (missing_ok and "No such process" in done.stderr):
        raise DeviceError(f"ip {' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def interface_of(address: str) -> str:
    """The interface that holds `address`. Raises DeviceError when none does (any more)."""
    for link in json.loads(ip("-j", "-4", "address", "show") or "[]"):
        if any(entry.get("local") == address for entry in link.get("addr_info", [])):
            return str(link["ifname"])
    raise DeviceError(f"no interface holds {address}", code="no_address")


def open_router(air: str, drone: str, gcs: str, guest: str | None = None) -> int:
    """A TUN device that gets every packet between the two ends that reaches `air`; its file descriptor.

    Nothing else is forwarded, but for what `guest` (the lab's own attacker) sends to either end: a packet
    that is neither falls into a black hole.
    """
    try:
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", TUN.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError as error:
        raise DeviceError(f"/dev/net/tun: {error.strerror or error}") from error
    ip("link", "set", TUN, "addrgenmode", "none")  # or the kernel talks IPv6 into it
    ip("link", "set", TUN, "up", "mtu", "1500", "txqueuelen", _QUEUE_PACKETS)
    ip("route", "replace", "default", "dev", TUN, "table", _TABLE)
    entrance = interface_of(air)
    pairs = [(drone, gcs), (gcs, drone)]
    if guest is not None:
        pairs += [(guest, drone), (guest, gcs)]
    for here, there in pairs:
        ip("rule", "add", "pref", "90", "iif", entrance, "from", here, "to", there, "lookup", _TABLE)
    for link in json.loads(ip("-j", "link", "show")):
        if link["ifname"] not in ("lo", TUN):
            ip("rule", "add", "pref", "95", "iif", str(link["ifname"]), "blackhole")
    return tun


def has_netem() -> bool:
    """Can this kernel delay by itself? Tried on our own loopback and taken away again."""
    try:
        done = subprocess.run(
            ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1us"],
            capture_output=True,
            timeout=5,
            check=False,
        )
        if done.returncode:
            return False
        subprocess.run(
            ["tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise DeviceError(f"tc: {error}") from error
    return True


def route_via(peer: str, router: str) -> None:
    """Reach `peer` through `router`."""
    ip("route", "replace", f"{peer}/32", "via", router)


def route_direct(peer: str) -> None:
    """Reach `peer` as the network does."""
    ip("route", "del", f"{peer}/32", missing_ok=True)
