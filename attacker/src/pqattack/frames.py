"""Ethernet, ARP, IPv4 and UDP as bytes. Sans-IO.

Frames are built whole, because the path is chosen by the destination of the frame (the target, or the link
router), and a spoofed source by the header: neither needs a route, and so no capability beyond NET_RAW.
UDP goes without a checksum, which IPv4 allows (RFC 768).
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from typing import Final

ETH_BYTES: Final = 14
IP_BYTES: Final = 20
UDP_BYTES: Final = 8
BROADCAST: Final = b"\xff" * 6
_IPV4: Final = 0x0800
_ARP: Final = 0x0806
_ETH: Final = struct.Struct("!6s6sH")
_IP: Final = struct.Struct("!BBHHHBBH4s4s")
_UDP: Final = struct.Struct("!HHHH")
_ARP_BODY: Final = struct.Struct("!HHBBH6s4s6s4s")


@dataclass(frozen=True)
class Flow:
    """Who a datagram says it is from, where it goes, and whose hardware address carries it there."""

    own_mac: bytes
    next_mac: bytes
    source: str
    source_port: int
    target: str
    target_port: int


def checksum(header: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_frame(flow: Flow, payload: bytes) -> bytes:
    """One datagram as an Ethernet frame."""
    udp_bytes = UDP_BYTES + len(payload)
    source, target = (ipaddress.IPv4Address(a).packed for a in (flow.source, flow.target))
    fields = (0x45, 0, IP_BYTES + udp_bytes, 0, 0x4000, 64, 17)
    blank = _IP.pack(*fields, 0, source, target)
    return b"".join(
        (
            _ETH.pack(flow.next_mac, flow.own_mac, _IPV4),
            _IP.pack(*fields, checksum(blank), source, target),
            _UDP.pack(flow.source_port, flow.target_port, udp_bytes, 0),
            payload,
        )
    )


def arp_request(own_mac: bytes, own: str, wanted: str) -> bytes:
    """Who has `wanted`? (RFC 826)"""
    here, there = (ipaddress.IPv4Address(a).packed for a in (own, wanted))
    body = _ARP_BODY.pack(1, _IPV4, 6, 4, 1, own_mac, here, bytes(6), there)
    return _ETH.pack(BROADCAST, own_mac, _ARP) + body


def arp_answer(frame: bytes, wanted: str) -> bytes | None:
    """The hardware address in an answer for `wanted`; None for any other frame."""
    if len(frame) < ETH_BYTES + _ARP_BODY.size or frame[12:14] != b"\x08\x06":
        return None
    _, _, _, _, operation, mac, address, _, _ = _ARP_BODY.unpack_from(frame, ETH_BYTES)
    same = address == ipaddress.IPv4Address(wanted).packed
    return bytes(mac) if operation == 2 and same else None
