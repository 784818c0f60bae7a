"""What a rekey did to the traffic, from the ledgers of both ends: one direction, one row a switch.

A row's key is `epoch << EPOCH_SHIFT | sequence`. Times are of one clock, or of two with the offset removed;
gaps are differences on one host's clock either way. Sans-IO: the caller reads the ledgers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

SPAN_NS: Final = 500_000_000
"""How far around a switch a gap or a loss is ascribed to it; never beyond halfway to the next switch."""
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
    """Packets of the epochs that it ended delivered after the first one of the new."""
    lost: int
    """Packets of that time that were sent and never delivered."""


def largest_gap_ns(times_ns: Sequence[int]) -> int:
    """The longest pause in sorted times; 0 for fewer than two."""
    return max((after - before for before, after in pairwise(times_ns)), default=0)


def around(times_ns: Sequence[int], at_ns: int, span_ns: int) -> slice:
    """Which of sorted times lie within `span_ns` of a moment."""
    return slice(bisect_left(times_ns, at_ns - span_ns), bisect_right(times_ns, at_ns + span_ns))


def shares(times_ns: Sequence[int], moments_ns: Sequence[int], span_ns: int) -> list[tuple[slice, slice]]:
    """For each of the sorted moments, which of the sorted times are its own, and those whose pauses are.

    Within `span_ns`, yet halfway to a nearer moment at most, so that no packet and no pause counts twice. A
    pause over such a border belongs to the later moment: the packet before it is in the second slice.
    """
    found = []
    for place, at_ns in enumerate(moments_ns):
        near = around(times_ns, at_ns, span_ns)
        start, stop, pauses = near.start, near.stop, near.start
        if place and at_ns - moments_ns[place - 1] <= 2 * span_ns:
            start = bisect_left(times_ns, (moments_ns[place - 1] + at_ns) // 2)
            pauses = max(0, start - 1)
        if place + 1 < len(moments_ns) and moments_ns[place + 1] - at_ns <= 2 * span_ns:
            stop = bisect_left(times_ns, (at_ns + moments_ns[place + 1]) // 2)
        found.append((slice(start, stop), slice(pauses, stop)))
    return found


def switches(
    sent_key: Sequence[int],
    sent_ns: Sequence[int],
    received_key: Sequence[int],
    received_ns: Sequence[int],
    span_ns: int = SPAN_NS,
) -> list[Switch]:
    """Every switch of one direction. `sent_ns`: plaintext in at the sender; `received_ns`: handed over at the
    receiver. The first epoch is no switch."""
    got, sent_at = set(received_key), dict(zip(sent_key, sent_ns, strict=True))
    sent = sorted(zip(sent_ns, sent_key, strict=True))
    came = sorted(zip(received_ns, received_key, strict=True))
    sent_times, came_times = [row[0] for row in sent], [row[0] for row in came]
    first_sent: dict[int, int] = {}
    for at_ns, key in sent:
        first_sent.setdefault(key >> EPOCH_SHIFT, at_ns)
    steps = _steps(came)
    # of one clock each; an epoch of which the sender's ledger lacks the first packet begins where it came
    began = list(accumulate((first_sent.get(epoch, came_times[at]) for at, _, epoch in steps), max))
    near = shares(came_times, [came_times[at] for at, _, _ in steps], span_ns)
    left = shares(sent_times, began, span_ns)
    found: list[Switch] = []
    for (place, before, epoch), (_, arrivals), (own, departures) in zip(steps, near, left, strict=True):
        at_ns, rows = came_times[place], came[arrivals]
        # Late packets come within a few round trips; an older epoch cannot be received for long.
        after = (later for _, later in came[place + 1 : bisect_right(came_times, at_ns + 20 * span_ns)])
        found.append(
            Switch(
                epoch,
                at_ns,
                largest_gap_ns([row[0] for row in rows]),
                largest_gap_ns(sent_times[departures]),
                added_ns=max((b - a for a, b in pairwise(_delays(rows, sent_at))), default=0),
                late=sum(1 for later in after if before <= later >> EPOCH_SHIFT < epoch),
                lost=sum(1 for _, one in sent[own] if one not in got),
            )
        )
    return found


def _steps(came: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(place of its first packet, epoch before, new epoch) of every switch, in the order of arrival."""
    found: list[tuple[int, int, int]] = []
    newest: int | None = None
    for place, (_, key) in enumerate(came):
        epoch = key >> EPOCH_SHIFT
        if newest is not None and epoch > newest:
            found.append((place, newest, epoch))
        newest = epoch if newest is None else max(newest, epoch)
    return found


def _delays(came: Sequence[tuple[int, int]], sent_at: dict[int, int]) -> list[int]:
    return [at_ns - sent_at[key] for at_ns, key in came if key in sent_at]
