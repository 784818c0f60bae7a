"""What the endpoint's counters say of the peer's packets: accepted, filled, replayed, damaged, of an old
epoch.

The rules are those of tunnel/core (`session.rs`, `replay.rs`); a test pushes the same packets through the
real session and compares.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.simulate.channel import Arrivals
from pqdetect.simulate.ground import CONTROL, DATA, KEEPALIVE, Packets
from pqdetect.simulate.moments import Floats
from pqdetect.simulate.sessions import LATE, OLD, UNKNOWN, Sessions
from pqdetect.simulate.tally import Tally

HEADER_BITS: Final = 64
DUPLICATE_S: Final = 1.0
_EPOCH_SPAN: Final = 1 << 40


def take(
    rng: np.random.Generator,
    tally: Tally,
    packets: Packets,
    arrivals: Arrivals,
    keys: Sessions,
    epoch: NDArray[np.int64],
    sequence: NDArray[np.int64],
) -> None:
    """Count the arrivals of the peer's packets. `epoch` and `sequence` are by packet sent."""
    up = np.ones(len(arrivals.time_s), dtype=np.bool_)
    for begin, end in zip(keys.down.start, keys.down.end, strict=True):
        up &= (arrivals.time_s < begin) | (arrivals.time_s >= end)
    packet, moment = arrivals.packet[up], arrivals.time_s[up]
    damaged = arrivals.corrupt[up]
    tally.datagrams(moment, packets.size[packet])
    standing = keys.standing(epoch[packet], moment)
    hurt = packet[damaged]
    bit = (rng.random(len(hurt)) * packets.size[hurt] * 8).astype(np.int64)
    # What another sequence than its own would be: of a packet that came more than a second ago, or not.
    claimed = np.maximum(0, hurt - (1 << np.clip(63 - bit, 0, 31)))
    stands = arrivals.lost[claimed] | (moment[damaged] - packets.sent_s[claimed] <= DUPLICATE_S)
    called = damage_class(bit, packets.kind[hurt], sequence[hurt], stands)
    for place, field in enumerate(DAMAGE_FIELDS):
        tally.mark(field, moment[damaged][called == place])
    sound = ~damaged
    tally.mark("old_epoch", moment[sound & (standing == OLD)])
    tally.mark("unknown_index", moment[sound & (standing == UNKNOWN)])
    opens = sound & (standing <= LATE)
    _open(tally, packets.kind, packet[opens], moment[opens], epoch, sequence)


def damage_class(
    bit: NDArray[np.int64],
    kind: NDArray[np.int64],
    sequence: NDArray[np.int64],
    asks_tag: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """What a packet of `kind` code and `sequence` is called with this one bit flipped: place in
    DAMAGE_FIELDS.

    Type (bits 0 to 3): refused unless the flip makes another defined type, whose tag then fails, as the
    header is authenticated. Epoch (4 to 7): refused. Index (8 to 31): nobody's. Sequence (32 to 63): a lower
    number was seen already, a higher one fails its tag, and so does a lower one that never came or came
    within the last second (`asks_tag`). Body and tag: fails its tag.
    """
    wire_type = np.choose(kind, [1, 2, 3])
    flipped = wire_type ^ (8 >> np.minimum(bit, 3))
    defined = (flipped >= 1) & (flipped <= 6)
    lower = (sequence >> np.clip(63 - bit, 0, 31)) & 1
    return np.select(
        [
            (bit < 4) & ~defined,
            bit < 4,
            bit < 8,
            bit < 32,
            (bit < HEADER_BITS) & (lower == 1) & ~asks_tag,
        ],
        [0, 2, 0, 1, 3],
        2,
    )


DAMAGE_FIELDS: Final = ("bad_header", "unknown_index", "auth_failed", "replay")


def _open(
    tally: Tally,
    kind: NDArray[np.int64],
    packet: NDArray[np.int64],
    moment: Floats,
    epoch: NDArray[np.int64],
    sequence: NDArray[np.int64],
) -> None:
    """Packets whose tag fits: seen before or not, in order or not."""
    # The second copy of a packet was seen before: `unique` keeps the place of each first one. Within a second
    # it is the way's doing, which no detector counts.
    _, firsts, which = np.unique(packet, return_index=True, return_inverse=True)
    fresh = np.zeros(len(packet), dtype=np.bool_)
    fresh[firsts] = True
    tally.mark("replay", moment[~fresh & (moment - moment[firsts][which] > DUPLICATE_S)])
    packet, moment = packet[fresh], moment[fresh]
    for code, field in ((DATA, "rx_data"), (KEEPALIVE, "rx_keepalive"), (CONTROL, "rx_control")):
        tally.mark(field, moment[kind[packet] == code])
    # By epoch, then as they came: the running highest starts anew with each epoch.
    order = np.lexsort((moment, epoch[packet]))
    packet, moment = packet[order], moment[order]
    value = epoch[packet] * _EPOCH_SPAN + sequence[packet] + 1
    highest = np.concatenate([[0], np.maximum.accumulate(value)[:-1]]) if len(value) else value
    same = highest // _EPOCH_SPAN == epoch[packet]
    expected = np.where(same, highest % _EPOCH_SPAN, 0)
    skipped = np.maximum(0, sequence[packet] - expected)
    tally.mark("sequence_gap", moment, skipped)
    tally.mark("rx_filled", moment[sequence[packet] < expected])
