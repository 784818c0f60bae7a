"""Set against achieved: is what the probes found what was asked for? Pure functions.

A finding allows for the sampling error of its own n (3 standard errors; 4.5 in bursts) and for what a
busy host adds: 10 % of the set value, at least 2 ms of delay or jitter and 0.1 % of loss.
"""

from __future__ import annotations

import math
from typing import Final

from pqbase.documents import Json, number_of, whole_of
from pqlink.settings import DEFAULT_QUEUE_MS, Side

RELATIVE: Final = 0.10
SLACK_MS: Final = 2.0
SLACK_PCT: Final = 0.1
STANDARD_ERRORS: Final = 3.0
BURST_STANDARD_ERRORS: Final = 4.5
#: IPv4 and UDP headers; a SYN with its usual options
UDP_HEADER_BYTES: Final = 28
SYN_BYTES: Final = 60
#: beyond this round trip an attempt is hardly told from a lost one (a SYN is repeated after 1 s)
TCP_RTT_MAX_MS: Final = 850.0
#: probes never fill the link they measure
RATE_SHARE: Final = 0.3


def transmission_ms(side: Side, size_bytes: int) -> float:
    """How long a packet of that size occupies the link."""
    return size_bytes * 8 / side.rate_kbps if side.rate_kbps else 0.0


def probe_rate_hz(up: Side, down: Side, size_bytes: int, wanted_hz: float) -> float:
    """A rate of probes of that size that the slower direction carries without queueing."""
    rates = [side.rate_kbps for side in (up, down) if side.rate_kbps]
    return min([wanted_hz, *(RATE_SHARE * rate * 1000 / (8 * size_bytes) for rate in rates)])


def longest_ms(side: Side) -> float:
    """The longest time that a packet takes without being lost."""
    queue_ms = (side.queue_ms or DEFAULT_QUEUE_MS) if side.rate_kbps else 0.0
    return side.delay_ms + side.jitter_ms * side.reach + queue_ms


def tcp_resolvable(up: Side, down: Side) -> bool:
    """Can connection attempts tell delay from loss on this link?"""
    return longest_ms(up) + longest_ms(down) <= TCP_RTT_MAX_MS


def check_udp(direction: str, side: Side, figures: Json, size_bytes: int) -> list[str]:
    """What is not as set in one direction, a sentence each."""
    delay_ms = side.expected_delay_ms + transmission_ms(side, size_bytes + UDP_HEADER_BYTES)
    jitter_ms = side.expected_jitter_ms
    found = _check_loss(f"udp {direction}", side.expected_loss_pct, side.expected_burst_factor, figures)
    if whole_of(figures, "received") < 2:
        return found  # a blocked link has no delay
    n, mean_ms = whole_of(figures, "received"), number_of(figures, "delay_mean_ms")
    sd_ms = number_of(figures, "delay_sd_ms")
    found += _check_time(f"udp {direction} delay", delay_ms, mean_ms, sd_ms / math.sqrt(n))
    found += _check_time(f"udp {direction} jitter", jitter_ms, sd_ms, max(jitter_ms, 0) / math.sqrt(2 * n))
    return found


def check_tcp(up: Side, down: Side, figures: Json) -> list[str]:
    """The same for connection attempts, which see both directions at once."""
    passes = (1 - up.expected_loss_pct / 100) * (1 - down.expected_loss_pct / 100)
    factor = max(up.expected_burst_factor, down.expected_burst_factor)
    found = _check_loss("tcp round trip", 100 * (1 - passes), factor, figures)
    if whole_of(figures, "received") < 2:
        return found
    rtt_ms = sum(side.expected_delay_ms + transmission_ms(side, SYN_BYTES) for side in (up, down))
    error_ms = number_of(figures, "rtt_sd_ms") / math.sqrt(whole_of(figures, "received"))
    return found + _check_time("tcp round trip", rtt_ms, number_of(figures, "rtt_mean_ms"), error_ms)


def _check_loss(name: str, expected_pct: float, factor: float, figures: Json) -> list[str]:
    n, lost = whole_of(figures, "n"), whole_of(figures, "lost")
    if n <= 0:
        return [f"{name}: no probe was sent"]
    loss_pct = 100 * lost / n
    error_pct = math.sqrt(expected_pct * (100 - expected_pct) * factor / n)
    # counts of losses in bursts are skewed: few of them hold many
    errors = STANDARD_ERRORS if factor == 1 else BURST_STANDARD_ERRORS
    allowed = max(RELATIVE * expected_pct, SLACK_PCT) + errors * error_pct
    if abs(loss_pct - expected_pct) <= allowed:
        return []
    return [f"{name} loss: {loss_pct:.2f} % of {n}, {expected_pct:.2f} ± {allowed:.2f} % are due"]


def _check_time(name: str, expected_ms: float, measured_ms: float, error_ms: float) -> list[str]:
    allowed = max(RELATIVE * expected_ms, SLACK_MS) + STANDARD_ERRORS * error_ms
    if abs(measured_ms - expected_ms) <= allowed:
        return []
    return [f"{name}: {measured_ms:.2f} ms, {expected_ms:.2f} ± {allowed:.2f} ms are due"]
