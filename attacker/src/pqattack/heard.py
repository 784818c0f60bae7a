"""What was heard on air, by direction and by the first word of the sealed header. Sans-IO.

The first word holds type, epoch and receiver index (docs/PROTOCOL.md): whoever listens knows it, and it is
all that a forger needs. Copies of whole datagrams are what a replay needs.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from pqattack.bounds import DRONE_PORT, GCS_PORT
from pqattack.errors import RequestError
from pqbase.documents import Json

#: kept of each first word, and first words kept of each direction; the oldest go
KEPT: Final = 256
KEPT_WORDS: Final = 64
#: how many datagrams of the newest word, and of each older one, are told to the sender
TOLD_NEWEST: Final = 200
TOLD_OLDER: Final = 4
_LEAST_BYTES: Final = 24
_DATA: Final = 1


@dataclass(frozen=True)
class Heard:
    """One first word and copies of datagrams that began with it, oldest first."""

    word: int
    datagrams: tuple[bytes, ...]

    @property
    def index(self) -> int:
        """Receiver index."""
        return self.word & 0xFF_FFFF

    @property
    def epoch(self) -> int:
        """Epoch modulo 16."""
        return self.word >> 24 & 0xF

    @property
    def is_data(self) -> bool:
        """Data rather than control."""
        return self.word >> 28 == _DATA


class Ear:
    """Takes IPv4 packets as an interface shows them, keeps what belongs to the tunnel."""

    def __init__(self, drone: str, gcs: str) -> None:
        here, there = (ipaddress.IPv4Address(a).packed for a in (drone, gcs))
        #: source and destination address → (whom it goes to, the port it must go to)
        self._to = {there + here: ("drone", DRONE_PORT), here + there: ("gcs", GCS_PORT)}
        self._words: dict[str, OrderedDict[int, deque[bytes]]] = {
            "drone": OrderedDict(),
            "gcs": OrderedDict(),
        }
        self.count = {"drone": 0, "gcs": 0}

    def forget(self) -> None:
        """A new cell: nothing of the one before."""
        for target in self._words:
            self._words[target].clear()
            self.count[target] = 0

    def take(self, packet: bytes) -> None:
        """One IPv4 packet; what is not a sealed datagram of the tunnel is passed over."""
        if len(packet) < 28 + _LEAST_BYTES or packet[0] >> 4 != 4 or packet[9] != 17:
            return
        found = self._to.get(packet[12:20])
        if found is None:
            return
        header_bytes = (packet[0] & 15) * 4
        port, udp_bytes = struct.unpack_from("!HH", packet, header_bytes + 2)
        if port != found[1]:
            return
        for datagram in split_train(packet[header_bytes + 8 : header_bytes + udp_bytes]):
            self._keep(found[0], datagram)

    def _keep(self, target: str, datagram: bytes) -> None:
        if len(datagram) < _LEAST_BYTES:
            return
        words = self._words[target]
        word = int.from_bytes(datagram[:4], "big")
        held = words.pop(word, None) or deque(maxlen=KEPT)
        held.append(datagram)
        words[word] = held
        self.count[target] += 1
        if len(words) > KEPT_WORDS:
            words.popitem(last=False)

    def told(self, target: str) -> list[Json]:
        """What is known of datagrams to `target`, in JSON: the word heard last stands last."""
        words = list(self._words[target].items())
        rows = []
        for place, (word, held) in enumerate(words):
            many = TOLD_NEWEST if place == len(words) - 1 else TOLD_OLDER
            rows.append({"word": word, "datagrams": [d.hex() for d in list(held)[-many:]]})
        return rows


def split_train(payload: bytes) -> list[bytes]:
    """The datagrams of one captured buffer.

    With segmentation offload the kernel shows a train of equal datagrams as one buffer. Each begins with the
    same first word and the next sequence, which gives the length of a segment.
    """
    if len(payload) < 2 * _LEAST_BYTES:
        return [payload]
    following = payload[:4] + ((int.from_bytes(payload[4:8], "big") + 1) & 0xFFFF_FFFF).to_bytes(4, "big")
    length = payload.find(following, _LEAST_BYTES)
    if length < 0:
        return [payload]
    return [payload[at : at + length] for at in range(0, len(payload), length)]


def parse_told(rows: object) -> list[Heard]:
    """The other way round. Raises RequestError for what is not such an answer."""
    try:
        if not isinstance(rows, list):
            raise TypeError(f"{type(rows).__name__} is no list")
        return [
            Heard(int(row["word"]), tuple(bytes.fromhex(text) for text in row["datagrams"])) for row in rows
        ]
    except (TypeError, KeyError, ValueError) as error:
        raise RequestError(f"the tap's answer cannot be read: {error!r}") from error
