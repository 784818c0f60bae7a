"""The kernel's part: which interface holds our address, raw frames in and out, neighbours. Linux, NET_RAW."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Final

from pqattack.errors import WireError
from pqattack.frames import arp_answer, arp_request
from pqbase import net

_ETH_IPV4: Final = 0x0800
_ETH_ARP: Final = 0x0806
_ASK_EVERY_S: Final = 0.2
_ASK_TIMES: Final = 5


def interface_of(address: str) -> str:
    """Name of the interface that holds `address`. Raises WireError when none does (any more)."""
    name = net.interface_of(address)
    if name is None:
        raise WireError(f"no interface holds {address}", code="no_address")
    return name


def mac_of(interface: str) -> bytes:
    """Hardware address of one of our interfaces."""
    text = Path(f"/sys/class/net/{interface}/address").read_text(encoding="ascii").strip()
    return bytes.fromhex(text.replace(":", ""))


def open_sender(interface: str) -> socket.socket:
    """A socket that sends whole frames and receives none. Raises WireError without NET_RAW."""
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.bind((interface, 0))
    except OSError as error:
        raise WireError(f"a raw socket on {interface}: {error.strerror or error}") from error
    return sock


def open_listener(interface: str) -> socket.socket:
    """A socket that shows IPv4 packets of `interface` in both directions, without their frame."""
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_IPV4))
        sock.bind((interface, _ETH_IPV4))
    except OSError as error:
        raise WireError(f"a packet socket on {interface}: {error.strerror or error}") from error
    sock.setblocking(False)
    return sock


def neighbour(interface: str, own: str, wanted: str) -> bytes:
    """Hardware address of `wanted`, asked for on the wire; up to a second. Raises WireError."""
    own_mac = mac_of(interface)
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_ARP))
    except OSError as error:
        raise WireError(f"a raw socket on {interface}: {error.strerror or error}") from error
    with sock:
        sock.bind((interface, _ETH_ARP))
        for _ in range(_ASK_TIMES):
            sock.send(arp_request(own_mac, own, wanted))
            until_s = time.monotonic() + _ASK_EVERY_S
            while (left_s := until_s - time.monotonic()) > 0:
                sock.settimeout(left_s)
                try:
                    frame = sock.recv(2048)
                except TimeoutError:
                    break
                if (mac := arp_answer(frame, wanted)) is not None:
                    return mac
    raise WireError(f"{wanted} does not answer on {interface}", code="no_neighbour", hint="make lab-status")
