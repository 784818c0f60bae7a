"""What an attack offers by bin, and what the endpoint calls it.

Kinds, their ways (`AttackSpec.variant`) and the counters they raise; tests hold every row against the real
session:

flood, pulsing, ramp   any bytes: under 24 bytes bad_header, else bad_header where the first nibble is no type
                       (10 of 16) and unknown_index where it is; variant 2: zeros (bad_header), 3: MAVLink
                       (0xFD)
forged                 the header of a packet to come, a tag of no key: auth_failed; variant 3: a third each
of
                       wrong type, wrong index and wrong tag
spoof                  as forged, from the peer's address; variant 1, 3: headers of packets just seen: replay
bad-header             types that do not exist, or another epoch's bits: bad_header
replay                 captured before: replay while their epoch lives, then old_epoch, then unknown_index;
                       variant 3: both directions captured, half of them carry the other end's index
port-flood             another port of the endpoint's host: the interface and the host's UDP see it alone
handshake-flood        TCP at the other end: here it shows as loss and delay, if at all
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.errors import SimulationError
from pqdetect.simulate.moments import BIN_S, Floats
from pqdetect.simulate.sessions import LATE, OLD, Sessions
from pqdetect.simulate.spec import AttackSpec

REFUSALS: Final = ("bad_header", "unknown_index", "auth_failed", "replay", "old_epoch")
SEALED_LEAST_BYTES: Final = 24
CAPTURED_BYTES: Final = 52.0
"""Mean size of what can be captured towards the vehicle: heartbeats and TIMESYNC, sealed."""
OTHER_WAY_BYTES: Final = 64.0
TYPE_SHARE: Final = 6 / 16
KINDS: Final = (
    "flood", "pulsing", "ramp", "spoof", "replay", "forged", "bad-header", "port-flood", "handshake-flood",
)  # fmt: skip


@dataclass(frozen=True)
class Offer:
    """One episode as it is sent, by bin of the flight."""

    first_bin: int
    packets: NDArray[np.int64]
    """(bins of the episode,)."""
    size_bytes: float
    shares: NDArray[np.float64]
    """(bins of the episode, len(REFUSALS)): what the endpoint calls them; rows of 0 where it sees none."""
    at_socket: bool
    """False: at the interface alone, or not here at all."""
    here: bool
    """Does any of it reach this endpoint's host?"""
    new_source: bool

    @property
    def span(self) -> slice:
        """Bins of the flight."""
        return slice(self.first_bin, self.first_bin + len(self.packets))


def offer(rng: np.random.Generator, attack: AttackSpec, keys: Sessions, bin_count: int) -> Offer:
    """Lay an episode out in bins. Raises SimulationError for a kind that is not known."""
    if attack.kind not in KINDS:
        raise SimulationError(f"no attack kind {attack.kind!r}", hint="one of " + ", ".join(KINDS))
    first = min(int(attack.start_s / BIN_S), bin_count - 1)
    last = min(bin_count, max(first + 1, int(np.ceil((attack.start_s + attack.for_s) / BIN_S))))
    since_s = (np.arange(first, last + 1) * BIN_S - attack.start_s).clip(0.0, attack.for_s)
    due = _due(attack, since_s)
    # A sender keeps its schedule: what is due in a bin is sent in it, give or take one packet.
    packets = np.diff(np.floor(due + rng.random())).astype(np.int64)
    middle: Floats = (np.arange(first, last, dtype=np.float64) + 0.5) * BIN_S
    shares = _shares(attack, keys, middle)
    here = attack.kind != "handshake-flood"
    return Offer(
        first,
        packets,
        _size(attack),
        shares,
        here and attack.kind != "port-flood",
        here,
        new_source=False,
    )


def _due(attack: AttackSpec, since_s: Floats) -> Floats:
    """Packets due by each moment of the episode."""
    if attack.kind == "ramp":
        return attack.rate_pps * since_s**2 / (2 * attack.for_s)
    if attack.kind == "pulsing" and attack.on_s > 0:
        period_s = attack.on_s + attack.off_s
        whole, rest = np.divmod(since_s, period_s)
        return attack.rate_pps * (whole * attack.on_s + np.minimum(rest, attack.on_s))
    return attack.rate_pps * since_s


def _size(attack: AttackSpec) -> float:
    if attack.kind == "replay":
        return CAPTURED_BYTES if attack.variant != 3 else (CAPTURED_BYTES + OTHER_WAY_BYTES) / 2
    if attack.kind in ("spoof", "forged"):
        return float(max(attack.size_bytes, SEALED_LEAST_BYTES))
    return float(attack.size_bytes)


def _shares(attack: AttackSpec, keys: Sessions, middle: Floats) -> NDArray[np.float64]:
    """Share of each refusal by bin."""
    rows = np.zeros((len(middle), len(REFUSALS)))
    bad, unknown, failed, replayed, old = (rows[:, place] for place in range(len(REFUSALS)))
    kind, variant = attack.kind, attack.variant
    if kind in ("flood", "pulsing", "ramp"):
        typed = 0.0 if attack.size_bytes < SEALED_LEAST_BYTES or variant >= 2 else TYPE_SHARE
        bad[:], unknown[:] = 1 - typed, typed
    elif kind == "bad-header":
        bad[:] = 1.0
    elif kind == "forged" or (kind == "spoof" and variant % 2 == 0):
        if kind == "forged" and variant == 3:
            bad[:], unknown[:], failed[:] = 1 / 3, 1 / 3, 1 / 3
        else:
            failed[:] = 1.0
    elif kind == "spoof":
        replayed[:] = 1.0
    elif kind == "replay":
        mine = 0.5 if variant == 3 else 1.0
        captured = np.broadcast_to(keys.at(np.array([attack.start_s]))[0], middle.shape)
        standing = keys.standing(captured, middle)
        replayed[:] = mine * (standing <= LATE)
        old[:] = mine * (standing == OLD)
        unknown[:] = 1.0 - replayed - old
    return rows


def divide(
    rng: np.random.Generator, packets: NDArray[np.int64], shares: NDArray[np.float64]
) -> NDArray[np.int64]:
    """(bins, len(REFUSALS)) packets of each refusal; rows add up to `packets`, rows of 0 shares stay 0."""
    found = np.zeros(shares.shape, dtype=np.int64)
    left, left_share = packets.copy(), shares.sum(axis=1)
    left[left_share <= 0] = 0
    for place in range(shares.shape[1]):
        chance = np.divide(shares[:, place], left_share, out=np.zeros(len(left)), where=left_share > 1e-12)
        found[:, place] = rng.binomial(left, chance.clip(0.0, 1.0))
        left = left - found[:, place]
        left_share = left_share - shares[:, place]
    return found
