"""How long TCP takes to carry a handshake over a radio: one draw, round by round. Seconds.

Modelled: opening (three packets, each lost one costs the first second of RFC 6298), a window of ten segments
(RFC 6928) that doubles a round, selective repeat one round trip later, the loss probe and the timer for a
lost last packet (RFC 8985, RFC 6298 with Linux's 200 ms), and the transmitter's rate. A round lasts as long
as its packets take the transmitter, or a round trip, whichever is longer. The window does not shrink at a
loss: so it is with BBR, which the kernel of the measured machine has; with CUBIC a large key over a fast,
lossy and far radio takes several times as long. Not modelled: a full queue, BBR's pauses to measure the round
trip, what the kernel remembers of earlier connections. It is far faster than `pqlab.sim.air`, which
follows every packet; a test holds the two together.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from pqevidence.advise.radio import HEAD_BYTES, Radio
from pqevidence.advise.wire import Message, packets
from pqevidence.tcp import FIRST_TIMEOUT_NS, INITIAL_WINDOW, LEAST_TIMEOUT_NS
from pqlink.achieved import SYN_BYTES

_FIRST_S: Final = FIRST_TIMEOUT_NS / 1e9
_LEAST_S: Final = LEAST_TIMEOUT_NS / 1e9


def handshake_seconds(frames: Sequence[Message], radio: Radio, rng: random.Random) -> float:
    """From the first SYN until the last frame is at the drone, without either end's own work."""
    windows = {"drone": INITIAL_WINDOW, "gcs": INITIAL_WINDOW}
    total_s = _open(radio, rng)
    for frame in frames:
        taken_s, windows[frame.sender] = _carry(frame.size_bytes, windows[frame.sender], radio, rng)
        total_s += taken_s
    return total_s


def _lost(radio: Radio, rng: random.Random) -> bool:
    return radio.loss_pct > 0.0 and rng.random() * 100.0 < radio.loss_pct


def _open(radio: Radio, rng: random.Random) -> float:
    """SYN, its answer, and the ACK that lets the ground speak; each repeated after 1, 2, 4 … s."""
    one_way_s = radio.delay_ms / 1e3
    total_s = 3 * one_way_s + radio.seconds(2 * SYN_BYTES + HEAD_BYTES)
    wait_s = _FIRST_S
    while _lost(radio, rng) or _lost(radio, rng):
        total_s += wait_s
        wait_s *= 2
    wait_s = _FIRST_S
    while _lost(radio, rng):
        total_s += wait_s
        wait_s *= 2
    return total_s


def _carry(size_bytes: int, window: float, radio: Radio, rng: random.Random) -> tuple[float, float]:
    """One message: seconds until its last byte is there, and the window then, segments."""
    one_way_s = radio.delay_ms / 1e3
    left = packets(size_bytes, radio)
    each_s = radio.seconds(size_bytes / left + HEAD_BYTES)
    round_trip_s = 2 * one_way_s + each_s
    timer_s = round_trip_s + max(_LEAST_S, round_trip_s)
    total_s, again = 0.0, 0  # again: of those left, sent before and lost
    while True:
        sent = min(int(window), left)
        fates = [_lost(radio, rng) for _ in range(sent)] if radio.loss_pct else []
        lost, sending_s = sum(fates), sent * each_s
        left -= sent - lost
        again = max(0, again - sent) + lost
        if not left:
            return total_s + sending_s + one_way_s, window
        if left > again or not lost:
            total_s += max(sending_s, round_trip_s)
        elif fates[-1]:  # nothing later tells of it: a probe, or the timer where that is sooner
            probe_s = 2 * round_trip_s + (_LEAST_S if sent == 1 else 0.0)
            total_s += sending_s + min(probe_s, timer_s)
            timer_s *= 2
        else:
            total_s += sending_s + round_trip_s
        window += sent - lost
