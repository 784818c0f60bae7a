"""What a handshake puts on the air: messages, packets, bytes. Known exactly from the registry.

The AEAD changes no byte of a handshake, so suites of one KEM and signature are one `Pair` here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from pqevidence.advise.radio import HEAD_BYTES, Radio
from pqlink.achieved import SYN_BYTES
from pqtunnel import suites as registry
from pqtunnel.suites import Suite
from pqtunnel.wire import (
    CHALLENGE,
    CLIENT_KEM,
    GCS_FINISHED,
    HELLO,
    SERVER_HELLO,
    max_frame_length,
)

#: tokens of KEM and signature
Pair = tuple[str, str]
Sender = Literal["drone", "gcs"]
_ORDER: Final[tuple[tuple[Sender, int], ...]] = (
    ("gcs", CHALLENGE), ("drone", HELLO), ("gcs", SERVER_HELLO), ("drone", CLIENT_KEM), ("gcs", GCS_FINISHED)
)  # fmt: skip
#: SYN, SYN-ACK; the ACKs and the two ends' FINs
_OPENING: Final = 2
_CLOSING: Final = 4


@dataclass(frozen=True)
class Message:
    """One frame: who sends it, and its bytes above TCP (a Falcon signature at its longest)."""

    sender: Sender
    size_bytes: int


def pair_of(suite: Suite) -> Pair:
    """What decides a suite's handshake."""
    return suite.kem.token, suite.sig.token


def suite_of(pair: Pair) -> Suite:
    """A suite of that pair, whichever AEAD. Raises LookupError for tokens of no suite."""
    for suite in registry.ALL.values():
        if not suite.is_plain and pair_of(suite) == pair:
            return suite
    raise LookupError(f"no suite is made of {pair}")


def messages(suite: Suite) -> tuple[Message, ...]:
    """The five frames in order."""
    return tuple(Message(sender, max_frame_length(kind, suite)) for sender, kind in _ORDER)


def packets(size_bytes: int, radio: Radio) -> int:
    """Full and last packets of one message."""
    return math.ceil(size_bytes / radio.segment_bytes)


def air_bytes(suite: Suite, radio: Radio) -> int:
    """Bytes of IP packets of both ways without repetitions: frames, heads, an acknowledgement for every
    second packet, opening and closing."""
    total = _OPENING * SYN_BYTES + _CLOSING * HEAD_BYTES
    for message in messages(suite):
        count = packets(message.size_bytes, radio)
        total += message.size_bytes + HEAD_BYTES * (count + math.ceil(count / 2))
    return total


def least_seconds(suite: Suite, radio: Radio) -> float:
    """No handshake is faster, whatever TCP and processors do: four round trips and the frames' own bits."""
    bits_s = sum(
        radio.seconds(m.size_bytes + HEAD_BYTES * packets(m.size_bytes, radio)) for m in messages(suite)
    )
    return 8 * radio.delay_ms / 1e3 + bits_s
