"""What a rekey did to the traffic, from the ledgers of both ends: one direction, one row a switch.

A row's key is `epoch << EPOCH_SHIFT | sequence`. Times are of one clock, or of two with the offset removed;
gaps are differences on one host's clock either way. Sans-IO: the caller reads the ledgers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

SPAN_NS: Final = 500_000_000
"""How far around a switch a gap or a loss is ascribed to it."""
EPOCH_SHIFT: Final = 96
"""Above every 64-bit sequence, yet not right above: an integer's hash is its remainder by 2^61 - 1
(`sys.hash_info.modulus`), and 2^64 leaves 8, so that the packets of 360 epochs shared 6,000 hashes. 2^96
leaves 2^35: (epoch, sequence) of any session that this lab can carry hash apart."""

ROW_BYTES: Final = 40
"""Memory of one row in an endpoint's ledger: the native data plane's; the other one's arrays take 34."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch as the receiver saw it."""

    epoch: int
    at_ns: int
    """Delivery of the first packet of the new epoch."""
    gap_ns: int
    """Largest pause between two deliveries around the switch."""
    send_gap_ns: int
    """Largest pause between two packets as they came to the sender at that time: what the source made."""
    added_ns: int
    """Largest growth of a pause on the way: delivered minus sent, between the same two packets."""
    late: int
    """Packets of an older epoch delivered after the first one of the new."""
    lost: int
    """Packets of that time that were sent and never delivered."""


def largest_gap_ns(times_ns: Sequence[int]) -> int:
    """The longest pause in sorted times; 0 for fewer than two."""
    return max((after - before for before, after in pairwise(times_ns)), default=0)


def around(times_ns: Sequence[int], at_ns: int, span_ns: int) -> slice:
    """Which of sorted times lie within `span_ns` of a moment."""
    return slice(bisect_left(times_ns, at_ns - span_ns), bisect_right(times_ns, at_ns + span_ns))


def switches(
    sent_key: Sequence[int], sent_ns: Sequence[int], received_key: Sequence[int], received_ns: Sequence[int],
    span_ns: int = SPAN_NS,
) -> list[Switch]:  # fmt: skip
    """Every switch of one direction. `sent_ns`: plaintext in at the sender; `received_ns`: handed over at the
    receiver. The first epoch is no switch."""
    got, sent_at = set(received_key), dict(zip(sent_key, sent_ns, strict=True))
    sent = sorted(zip(sent_ns, sent_key, strict=True))
    came = sorted(zip(received_ns, received_key, strict=True))
    sent_times, came_times = [row[0] for row in sent], [row[0] for row in came]
    first_sent: dict[int, int] = {}
    for at_ns, key in sent:
        first_sent.setdefault(key >> EPOCH_SHIFT, at_ns)
    found: list[Switch] = []
    newest: int | None = None
    for place, (at_ns, key) in enumerate(came):
        epoch = key >> EPOCH_SHIFT
        if newest is None or epoch <= newest:
            newest = epoch if newest is None else newest
            continue
        newest = epoch
        near = came[around(came_times, at_ns, span_ns)]
        sender = around(sent_times, first_sent.get(epoch, at_ns), span_ns)
        # Late packets come within a few round trips; an older epoch cannot be received for long.
        after = (later for _, later in came[place + 1 : bisect_right(came_times, at_ns + 20 * span_ns)])
        found.append(
            Switch(
                epoch,
                at_ns,
                largest_gap_ns([row[0] for row in near]),
                largest_gap_ns(sent_times[sender]),
                added_ns=max((b - a for a, b in pairwise(_delays(near, sent_at))), default=0),
                late=sum(1 for later in after if later >> EPOCH_SHIFT < epoch),
                lost=sum(1 for _, one in sent[sender] if one not in got),
            )
        )
    return found


def _delays(came: Sequence[tuple[int, int]], sent_at: dict[int, int]) -> list[int]:
    return [at_ns - sent_at[key] for at_ns, key in came if key in sent_at]
