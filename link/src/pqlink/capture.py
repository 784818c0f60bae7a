"""What was sent at one end and what arrived at the other, as a trace of that direction.

A packet is told again by its sequence number (CSV) or its UDP payload (pcap). The fate of a packet holds from
its sending to that of the next one: a fade lasts a time, however many packets another session sends in it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import struct
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pqlink.errors import TraceError
from pqlink.trace import MOST_ROWS, ms_text, trace_text

#: who it was, when a capture saw it (ns)
Sighting = tuple[Hashable, int]
_HEADER = ["seq", "t_ms"]
_TIME = re.compile(r"-?\d{1,15}(\.\d{1,6})?")
_WHOLE = re.compile(r"\d{1,18}")
_MS_NS = 1_000_000
#: first four bytes of a pcap file → byte order, nanoseconds a unit of its fractions
_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1),
}  # fmt: skip
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_ETHERNET, _RAW, _LINUX_SLL, _IPV4, _LINUX_SLL2 = 1, 101, 113, 228, 276
#: link type → bytes before the network header, place of its EtherType; None: there is none
_LINKS: dict[int, tuple[int, int | None]] = {
    _ETHERNET: (14, 12), _LINUX_SLL: (16, 14), _LINUX_SLL2: (20, 0), _RAW: (0, None), _IPV4: (0, None),
}  # fmt: skip
_ETHERTYPE_IPV4, _ETHERTYPE_VLAN, _UDP = 0x0800, 0x8100, 17


@dataclass(frozen=True)
class Clocks:
    """What is known of the two ends' clocks. one: they are the same clock, so delays are as they are found.
    least_delay_ms: they are not, and the least delay is given. Neither: delays stay unknown."""

    one: bool = False
    least_delay_ms: Decimal | None = None


@dataclass(frozen=True)
class CaptureTrace:
    """A trace and what it rests on: its packets, lost ones among them; sent before the first or after
    the last that arrived, where nobody knows whether the other capture ran; arrived twice; arrived unsent."""

    text: str
    packets: int
    lost: int
    outside: int
    doubles: int
    strangers: int


def read_capture(content: bytes, port: int | None = None) -> list[Sighting]:
    """Sightings of a pcap or a CSV with `seq,t_ms`, in file order. port: UDP port of either end, pcap alone.

    Raises TraceError.
    """
    if content[:4] == _PCAPNG:
        raise TraceError("a pcapng file is not read", hint="make a pcap of it: editcap -F pcap IN OUT")
    if content[:4] in _PCAP:
        return list(_numbered(_read_pcap(content, port)))
    return _read_csv(content)


def from_captures(
    sent: Sequence[Sighting],
    received: Sequence[Sighting],
    clocks: Clocks,
    *,
    rate_bit_s: int | None,
    meta: dict[str, str],
) -> CaptureTrace:
    """One direction's trace. rate_bit_s: what the user knows of it; a capture cannot tell.

    Raises TraceError where fewer than two packets arrived, or where a packet arrived before it was sent.
    """
    arrivals: dict[Hashable, int] = {}
    doubles = 0
    for key, t_ns in received:
        if key in arrivals:
            doubles += 1
        else:
            arrivals[key] = t_ns
    ordered = sorted(sent, key=lambda sighting: sighting[1])
    if len({key for key, _ in ordered}) != len(ordered):
        raise TraceError(
            "a sequence number was sent twice", hint="cut the capture where the numbers begin anew"
        )
    strangers = len(arrivals.keys() - {key for key, _ in ordered})
    known = [place for place, (key, _) in enumerate(ordered) if key in arrivals]
    if len(known) < 2:
        raise TraceError(
            f"{len(known)} of {len(ordered)} packets sent are in the other capture",
            hint="are they of the same session, and the first one of the sender?",
        )
    # the last that arrived is where the trace ends: how long its fate held is not known
    inside = ordered[known[0] : known[-1]]
    delays = _delays(inside, arrivals, clocks)
    rows: list[list[str]] = []
    lost, before_ns = 0, -1
    zero_ns, end_ns = ordered[known[0]][1], ordered[known[-1]][1]
    for key, t_ns in inside:
        at_ns = max(t_ns - zero_ns, before_ns + 1)
        before_ns = at_ns
        arrived = key in arrivals
        lost += not arrived
        values = [] if rate_bit_s is None else [str(rate_bit_s)]
        if delays is not None:
            values.append(ms_text(delays[key]) if arrived else "")
        values.append("0" if arrived else "100")
        if not rows or rows[-1][1:] != values:
            rows.append([ms_text(at_ns), *values])
    if len(rows) > MOST_ROWS:
        raise TraceError(
            f"the trace would have {len(rows)} rows, {MOST_ROWS} are the most", hint="cut both captures"
        )
    names = [] if rate_bit_s is None else ["rate_bit_s"]
    names += ["loss_pct"] if delays is None else ["delay_ms", "loss_pct"]
    text = trace_text(meta, names, rows, ms_text(max(end_ns - zero_ns, before_ns + 1)))
    return CaptureTrace(text, len(inside), lost, len(ordered) - len(inside) - 1, doubles, strangers)


def _delays(
    inside: Sequence[Sighting], arrivals: dict[Hashable, int], clocks: Clocks
) -> dict[Hashable, int] | None:
    """Delay by packet, ns; None where the clocks do not allow to know it."""
    raw = {key: arrivals[key] - t_ns for key, t_ns in inside if key in arrivals}
    if clocks.one:
        if (least := min(raw.values())) < 0:
            raise TraceError(
                f"a packet arrived {-least / _MS_NS:g} ms before it was sent: the clocks are not one",
                hint="give --least-delay-ms instead of --one-clock",
            )
        return raw
    if clocks.least_delay_ms is None:
        return None
    shift_ns = int(clocks.least_delay_ms * _MS_NS) - min(raw.values())
    return {key: value + shift_ns for key, value in raw.items()}


# ---------------------------------------------------------------------- files


def _read_csv(content: bytes) -> list[Sighting]:
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8"))))
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"neither pcap nor CSV: {error}") from error
    if not rows or rows[0] != _HEADER:
        raise TraceError(f"the first line of a CSV is {','.join(_HEADER)}", hint="docs/LINK.md, Traces")
    found: list[Sighting] = []
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2 or not _WHOLE.fullmatch(row[0]) or not _TIME.fullmatch(row[1]):
            raise TraceError(f"line {number}: {','.join(row)!r:.60} is no `seq,t_ms`")
        found.append((int(row[0]), int(Decimal(row[1]) * _MS_NS)))
    return found


def _numbered(payloads: Iterator[tuple[bytes, int]]) -> Iterator[Sighting]:
    """Equal payloads are told apart by how many came before: the second sent is the second to arrive."""
    seen: dict[bytes, int] = {}
    for payload, t_ns in payloads:
        digest = hashlib.sha256(payload).digest()
        seen[digest] = seen.get(digest, -1) + 1
        yield (digest, seen[digest]), t_ns


def _read_pcap(content: bytes, port: int | None) -> Iterator[tuple[bytes, int]]:
    """(UDP payload, ns since 1970) of each whole datagram of `port` (of any, for None)."""
    order, unit_ns = _PCAP[content[:4]]
    if len(content) < 24:
        raise TraceError("the pcap ends within its head", hint="copy it again")
    (link,) = struct.unpack_from(order + "I", content, 20)
    link &= 0xFFFF  # the upper half is about checksums
    if link not in _LINKS:
        raise TraceError(
            f"pcap of link type {link}", hint="Ethernet, raw IP and Linux cooked captures are read"
        )
    offset = 24
    while offset < len(content):
        if offset + 16 > len(content):
            raise TraceError(f"the pcap ends within a packet's head at byte {offset}", hint="copy it again")
        seconds, fraction, kept, length = struct.unpack_from(order + "IIII", content, offset)
        frame = content[offset + 16 : offset + 16 + kept]
        offset += 16 + kept
        if offset > len(content):
            raise TraceError("the pcap ends within a packet", hint="copy it again")
        if kept < length:
            raise TraceError("the capture cut its packets", hint="capture whole packets: tcpdump -s 0")
        payload = _udp_payload(frame, link, port)
        if payload is not None:
            yield payload, seconds * 1_000_000_000 + fraction * unit_ns


def _udp_payload(frame: bytes, link: int, port: int | None) -> bytes | None:
    """None for what is no whole IPv4 UDP datagram of the port."""
    skip, type_at = _LINKS[link]
    if type_at is not None:
        ethertype = int.from_bytes(frame[type_at : type_at + 2], "big")
        if ethertype == _ETHERTYPE_VLAN and link == _ETHERNET:
            skip, ethertype = 18, int.from_bytes(frame[16:18], "big")
        if ethertype != _ETHERTYPE_IPV4:
            return None
    packet = frame[skip:]
    if len(packet) < 28 or packet[0] >> 4 != 4 or packet[9] != _UDP:
        return None
    if int.from_bytes(packet[6:8], "big") & 0x3FFF:  # a fragment
        return None
    udp = packet[4 * (packet[0] & 15) : int.from_bytes(packet[2:4], "big")]
    if len(udp) < 8:
        return None
    source, target = struct.unpack_from(">HH", udp)
    return udp[8:] if port is None or port in (source, target) else None
