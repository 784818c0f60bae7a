"""One flight from its description: packets, link, attack, strays, endpoint, host counters, truth.

Vectorised over the whole flight; the peer's packets are followed one by one, bulk (the vehicle's own packets,
floods) by bin of 20 ms. Deterministic by the description's seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.features.window import FRAME_OVERHEAD_BYTES
from pqdetect.feed import DELTAS, WINDOW_BINS, WINDOW_NS
from pqdetect.recording import Episode, LinkTruth, Recording, Truth
from pqdetect.simulate import attacks, channel, endpoint, ground, strays
from pqdetect.simulate.moments import BIN_S, Floats, bins_of
from pqdetect.simulate.sessions import Sessions, sessions
from pqdetect.simulate.spec import AttackSpec, Spec
from pqdetect.simulate.tally import Tally

EPOCH_K: Final = 2_940_000_000
"""Windows of simulated flights are numbered from about here: realtime of 2025/26, so that numbers are as
large as real ones."""
QUEUE_PACKETS: Final = 400
"""Datagrams that the socket's receive buffer holds."""
_DELTA = {name: place for place, name in enumerate(DELTAS)}


@dataclass
class _Flood:
    """All episodes of a flight by bin, before anything is dropped."""

    offers: list[attacks.Offer]
    shared_packets: Floats
    shared_bytes: Floats


def simulate(spec: Spec) -> Recording:
    """The recording of one flight. Raises SimulationError."""
    rng = np.random.default_rng([spec.seed, 2])
    windows = max(1, round(spec.duration_s * 1e9 / WINDOW_NS))
    bin_count = windows * WINDOW_BINS
    duration_s = bin_count * BIN_S
    first_k = EPOCH_K + spec.seed % 10_000_000
    rtt_s = 2 * spec.link.delay_ms / 1e3 + 0.002

    state = channel.weather(rng, spec.link, bin_count)
    keys = sessions(rng, spec.ground, state, rtt_s, duration_s)
    events = ground.activity(rng, spec.ground, duration_s)
    packets = _with_control(
        ground.ground_packets(rng, spec.ground, events, rtt_s, keys.setup_end_s, duration_s), keys, rtt_s
    )
    flood = _flood(rng, spec, keys, bin_count)
    state = _handshake_flood(rng, spec, state)
    peer_bytes = np.zeros(bin_count)
    sent_bin = bins_of(packets.sent_s, bin_count)
    np.add.at(peer_bytes, sent_bin[sent_bin >= 0], packets.size[sent_bin >= 0] + channel.HEADERS_BYTES)
    tight = channel.squeeze(spec.link, peer_bytes, flood.shared_packets, flood.shared_bytes)

    tally = Tally(bin_count)
    up = _up(keys, bin_count)
    delivered, host_drop = _deliver(rng, spec, flood, state, tight)
    epoch = keys.sent_on(packets.sent_s - spec.link.delay_ms / 1e3)
    arrivals = channel.carry(rng, spec.link, state, tight, host_drop, packets.sent_s)
    endpoint.take(rng, tally, packets, arrivals, keys, epoch, _sequence(epoch))
    beside = strays.add_strays(rng, tally, spec.strays, state, keys).other_ports
    for one, (count, full) in zip(flood.offers, delivered, strict=True):
        if not one.at_socket:
            beside[one.span] += count
            continue
        split = attacks.divide(rng, count, one.shares)
        for place, name in enumerate(attacks.REFUSALS):
            whole = np.zeros(bin_count, dtype=np.int64)
            whole[one.span] = split[:, place]
            tally.refused(name, whole, one.size_bytes)
        tally.field("queue_full")[one.span] += full
    tx_packets, tx_bytes = ground.vehicle_bins(rng, spec.ground, events, keys.setup_end_s, bin_count)
    tally.field("tx_data")[:] = tx_packets
    tally.field("tx_bytes")[:] = tx_bytes

    counts = tally.windows(WINDOW_BINS)
    came: NDArray[np.bool_] = up.reshape(windows, WINDOW_BINS).min(axis=1)
    counts[~came] = 0
    deltas = _deltas(rng, spec, tally, beside, keys, windows)
    deltas[~came] = np.nan
    episodes = tuple(
        _episode(attack, one, first_k, count)
        for attack, one, (count, _) in zip(spec.attacks, flood.offers, delivered, strict=True)
    )
    truth = Truth(
        spec.scenario_id,
        spec.kind if spec.attacks else spec.theme,
        spec.profile,
        spec.seed,
        "simulator",
        first_k * WINDOW_NS,
        (first_k + windows) * WINDOW_NS,
        episodes,
        _loss(rng, packets, arrivals, state, tx_packets, windows),
    )
    return Recording(truth, first_k, counts, deltas, came)


def _with_control(packets: ground.Packets, keys: Sessions, rtt_s: float) -> ground.Packets:
    """The peer's epoch-ack: one soon after each epoch begins."""
    acks = keys.begin_s[~keys.is_blank] + rtt_s / 2 + 0.0005
    sent = np.concatenate([packets.sent_s, acks])
    size = np.concatenate([packets.size, np.full(len(acks), ground.SEALED_BYTES, dtype=np.int64)])
    kind = np.concatenate([packets.kind, np.full(len(acks), ground.CONTROL, dtype=np.int64)])
    order = np.argsort(sent, kind="stable")
    return ground.Packets(sent[order], size[order], kind[order])


def _sequence(epoch: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of each packet within its epoch; `epoch` does not fall."""
    place = np.arange(len(epoch), dtype=np.int64)
    begins = np.concatenate([[True], epoch[1:] != epoch[:-1]]) if len(epoch) else np.zeros(0, dtype=np.bool_)
    return place - np.maximum.accumulate(np.where(begins, place, 0))


def _up(keys: Sessions, bin_count: int) -> NDArray[np.bool_]:
    up = np.ones(bin_count, dtype=np.bool_)
    for begin, end in zip(keys.down.start, keys.down.end, strict=True):
        up[int(begin / BIN_S) : int(end / BIN_S) + 1] = False
    return up


def _flood(rng: np.random.Generator, spec: Spec, keys: Sessions, bin_count: int) -> _Flood:
    flood = _Flood([], np.zeros(bin_count), np.zeros(bin_count))
    for attack in spec.attacks:
        one = attacks.offer(rng, attack, keys, bin_count)
        flood.offers.append(one)
        if attack.through_link and one.here:
            flood.shared_packets[one.span] += one.packets
            flood.shared_bytes[one.span] += one.packets * (one.size_bytes + channel.HEADERS_BYTES)
    return flood


def _handshake_flood(rng: np.random.Generator, spec: Spec, state: channel.Weather) -> channel.Weather:
    """A flood of handshakes keeps the other end and the way to it busy: some of its packets are lost."""
    loss_in, loss_out = state.loss_in, state.loss_out
    for attack in spec.attacks:
        if attack.kind != "handshake-flood":
            continue
        pressure = attack.rate_pps / (attack.rate_pps + rng.uniform(500, 5000))
        span = slice(int(attack.start_s / BIN_S), int((attack.start_s + attack.for_s) / BIN_S) + 1)
        loss_in, loss_out = loss_in.copy(), loss_out.copy()
        loss_in[span] = 1 - (1 - loss_in[span]) * (1 - 0.7 * pressure * rng.random())
        loss_out[span] = 1 - (1 - loss_out[span]) * (1 - 0.7 * pressure)
    return channel.Weather(loss_in, loss_out, state.fade, state.fades, state.bursts, state.stalls)


def _deliver(
    rng: np.random.Generator, spec: Spec, flood: _Flood, state: channel.Weather, tight: channel.Squeeze
) -> tuple[list[tuple[NDArray[np.int64], NDArray[np.int64]]], Floats]:
    """For each episode (delivered, dropped by the full socket queue) by bin, and the share that this queue
    takes of everything."""
    at_host: list[NDArray[np.int64]] = []
    total = np.zeros(len(state.loss_in))
    for attack, one in zip(spec.attacks, flood.offers, strict=True):
        come = one.packets if one.here else np.zeros_like(one.packets)
        if attack.through_link:
            passes = (1 - state.loss_in[one.span]) * (1 - tight.link_drop[one.span])
            come = rng.binomial(come, passes.clip(0.0, 1.0))
        at_host.append(come)
        if one.at_socket:
            total[one.span] += come
    room = spec.host_pps * BIN_S
    host_drop = np.where(
        total > room + QUEUE_PACKETS, 1 - (room + QUEUE_PACKETS) / np.maximum(total, 1.0), 0.0
    )
    found = []
    for one, come in zip(flood.offers, at_host, strict=True):
        full = rng.binomial(come, host_drop[one.span]) if one.at_socket else np.zeros_like(come)
        found.append((come - full, full))
    return found, host_drop


def _episode(attack: AttackSpec, one: attacks.Offer, first_k: int, delivered: NDArray[np.int64]) -> Episode:
    reached = one.here and bool(delivered.sum() > 0)
    on, off = attack.start_s, attack.start_s + attack.for_s
    if reached:
        # Truth runs from the first datagram that came to the last, not from when the sender began.
        came = np.flatnonzero(delivered) + one.first_bin
        on, off = max(on, came[0] * BIN_S), min(max(off, on), (came[-1] + 1) * BIN_S)
    base = first_k * WINDOW_NS
    return Episode(
        attack.kind,
        base + int(on * 1e9),
        base + int(off * 1e9),
        attack.rate_pps,
        reached,
        int(one.packets.sum()),
    )


def _loss(
    rng: np.random.Generator,
    packets: ground.Packets,
    arrivals: channel.Arrivals,
    state: channel.Weather,
    tx_packets: NDArray[np.int64],
    windows: int,
) -> LinkTruth:
    window = np.minimum((packets.sent_s / (BIN_S * WINDOW_BINS)).astype(np.int64), windows - 1)
    sent = np.bincount(window, minlength=windows).astype(np.float64)
    received = np.bincount(window[~arrivals.lost], minlength=windows).astype(np.float64)
    out = tx_packets.reshape(windows, WINDOW_BINS)
    passes = 1 - state.loss_out.reshape(windows, WINDOW_BINS)
    arrived = rng.binomial(out, passes.clip(0.0, 1.0)).sum(axis=1)
    return LinkTruth(sent, received, out.sum(axis=1).astype(np.float64), arrived.astype(np.float64))


def _deltas(
    rng: np.random.Generator,
    spec: Spec,
    tally: Tally,
    beside: NDArray[np.int64],
    keys: Sessions,
    windows: int,
) -> Floats:
    """What the host's counters moved by: the tunnel's datagrams and everything else on the interface."""
    found = np.full((windows, len(DELTAS)), np.nan)
    if not spec.ground.interface_known:
        return found

    def by_window(values: NDArray[np.int64]) -> Floats:
        summed: Floats = values.reshape(windows, WINDOW_BINS).sum(axis=1).astype(np.float64)
        return summed

    datagrams, full = by_window(tally.field("rx_datagrams")), by_window(tally.field("queue_full"))
    other = by_window(beside)
    handshakes = np.zeros(windows)
    np.add.at(
        handshakes,
        np.minimum(keys.begin_s[~keys.is_blank] / (BIN_S * WINDOW_BINS), windows - 1).astype(np.int64),
        1,
    )
    hs_packets = handshakes * (6 + spec.ground.handshake_bytes / rng.uniform(1448, 16_000))
    noise = rng.poisson(0.02, windows) + rng.poisson(spec.ground.shared_nic_pps * 0.6, windows)
    noise_bytes = noise * (120.0 if spec.ground.shared_nic_pps == 0 else 420.0)
    packets = datagrams + full + other + np.rint(hs_packets) + noise
    # The counters are read a moment after the window's end: what comes meanwhile is counted a window too
    # early.
    slip = rng.poisson(packets / (BIN_S * WINDOW_BINS) * rng.exponential(0.002, windows)).astype(np.float64)
    moved = slip - np.concatenate([[0.0], slip[:-1]])
    size = np.divide(
        by_window(tally.field("rx_bytes")) + FRAME_OVERHEAD_BYTES * datagrams,
        datagrams,
        out=np.zeros(windows),
        where=datagrams > 0,
    )
    found[:, _DELTA["if_rx_packets"]] = np.maximum(0.0, packets + moved)
    found[:, _DELTA["if_rx_bytes"]] = np.maximum(
        0.0,
        np.rint((datagrams + full + moved) * size + other * 100 + noise_bytes)
        + np.rint(handshakes * spec.ground.handshake_bytes * 1.05 + hs_packets * 66),
    )
    found[:, _DELTA["if_rx_dropped"]] = 0.0
    tx = by_window(tally.field("tx_data"))
    # Bursts of equal sizes leave as one segmented packet.
    found[:, _DELTA["if_tx_packets"]] = np.rint(tx * rng.uniform(0.5, 1.0)) + np.rint(hs_packets)
    found[:, _DELTA["if_tx_bytes"]] = by_window(tally.field("tx_bytes")) + FRAME_OVERHEAD_BYTES * tx
    found[:, _DELTA["udp_in_errors"]] = full
    found[:, _DELTA["udp_rcvbuf_errors"]] = full
    found[:, _DELTA["udp_no_ports"]] = other + rng.poisson(0.0005, windows)
    return found
