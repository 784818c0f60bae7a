"""What the simulator says an endpoint counts, against what the tunnel's real session counts.

The same packets, datagram by datagram: the peer's (late, lost, doubled, of old epochs, damaged) and the
attacker's.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("pqtunnel", reason="the tunnel is not installed here")
from session_kit import GCS_INDEX, Drone, index_of, seal

from pqdetect.feed import FIELDS
from pqdetect.simulate import AttackSpec, GroundSpec, LinkSpec, channel, endpoint, engine, ground
from pqdetect.simulate.attacks import REFUSALS, offer
from pqdetect.simulate.channel import Squeeze
from pqdetect.simulate.ground import CONTROL, DATA, KEEPALIVE
from pqdetect.simulate.sessions import Sessions, sessions
from pqdetect.simulate.tally import Tally
from pqtunnel import packet

WIRE = {DATA: packet.DATA, KEEPALIVE: packet.KEEPALIVE, CONTROL: packet.EPOCH_ACK}


@pytest.fixture(params=["python", "native"])
def plane(request: pytest.FixtureRequest) -> str:
    if request.param == "native":
        pytest.importorskip("pq_core", reason="the native core's wheel is not installed here")
    return str(request.param)


def gaps(opened: list[tuple[int, int, int]]) -> tuple[int, int]:
    """(skipped, filled) by the rule of docs/PROTOCOL.md, one packet after another."""
    highest: dict[int, int] = {}
    skipped = filled = 0
    for _, epoch, sequence in opened:
        expected = highest.get(epoch, 0)
        skipped += max(0, sequence - expected)
        filled += sequence < expected
        highest[epoch] = max(expected, sequence + 1)
    return skipped, filled


@pytest.mark.parametrize("seed", range(4))
def test_the_peers_packets_count_as_the_real_session_counts_them(seed: int, plane: str) -> None:
    rng = np.random.default_rng(seed)
    bins, duration_s = 50 * 120, 120.0
    link = LinkSpec(
        delay_ms=30,
        jitter_ms=25,
        loss_pct=4,
        fades=60,
        fade_s=(1.0, 6.0),
        stalls=150,
        stall_s=(1.0, 8.0),
        duplicate_pct=3,
        reorder_pct=4,
    )
    spec = GroundSpec(rekey_every_s=3.0, joystick=120, pauses=60, setup_s=2.0)
    state = channel.weather(rng, link, bins)
    keys = sessions(rng, spec, state, 0.06, duration_s)
    packets = engine._with_control(
        ground.ground_packets(
            rng, spec, ground.activity(rng, spec, duration_s), 0.06, keys.setup_end_s, duration_s
        ),
        keys,
        0.06,
    )
    epoch = keys.sent_on(packets.sent_s - link.delay_ms / 1e3)
    sequence = engine._sequence(epoch)
    nothing = np.zeros(bins)
    arrivals = channel.carry(rng, link, state, Squeeze(nothing, nothing), nothing, packets.sent_s)
    assert len(arrivals.time_s) > 200
    tally = Tally(bins + 500)  # room for what comes after the end
    endpoint.take(rng, tally, packets, arrivals, keys, epoch, sequence)

    drone = Drone(plane)
    installed = 0
    for place, moment in zip(arrivals.packet.tolist(), arrivals.time_s.tolist(), strict=True):
        while installed < len(keys.begin_s) and keys.begin_s[installed] <= moment:
            drone.install(installed, float(keys.begin_s[installed]))
            installed += 1
        kind, size = WIRE[int(packets.kind[place])], int(packets.size[place])
        drone.receive(seal(int(epoch[place]), int(sequence[place]), kind, size), moment)

    def made(field: str) -> int:
        return int(tally.field(field).sum())

    assert {name: made(name) for name in REFUSALS} == {name: drone.reasons[name] for name in REFUSALS}
    kinds = [kind for kind, _, _ in drone.opened]
    assert made("rx_data") == kinds.count(packet.DATA)
    assert made("rx_keepalive") == kinds.count(packet.KEEPALIVE)
    assert made("rx_control") == kinds.count(packet.EPOCH_ACK)
    assert (made("sequence_gap"), made("rx_filled")) == gaps(drone.opened)
    assert drone.reasons["duplicate"] > 0, "copies that the way makes are no refusals"
    assert made("rx_filled") > 0 and made("sequence_gap") > 0
    assert made("rx_bytes") == int(packets.size[arrivals.packet].sum())
    if seed == 0:
        assert made("old_epoch") > 0, "stalls and rekeys together make packets of epochs that ended"


@pytest.mark.parametrize("later_s", [0.1, 1.9])
def test_a_flipped_bit_is_called_what_the_real_session_calls_it(plane: str, later_s: float) -> None:
    """A lower sequence than its own came within the last second, or before."""
    rng = np.random.default_rng(5)
    asks_tag = np.array([later_s <= endpoint.DUPLICATE_S])
    drone = Drone(plane)
    drone.install(7, 0.0)
    for sequence in range(300):
        assert drone.receive(seal(7, sequence, packet.DATA, 52), 0.1) == "open"
    seen = set()
    for _ in range(1500):
        size = int(rng.integers(24, 90))
        kind = int(rng.choice([DATA, KEEPALIVE, CONTROL]))
        bit = int(rng.integers(0, min(size * 8, 90)))
        whole = bytearray(seal(7, 300, WIRE[kind], size))
        whole[bit // 8] ^= 0x80 >> bit % 8
        place = int(endpoint.damage_class(np.array([bit]), np.array([kind]), np.array([300]), asks_tag)[0])
        assert drone.receive(bytes(whole), 0.1 + later_s) == endpoint.DAMAGE_FIELDS[place], (bit, kind)
        seen.add(place)
    assert seen == ({0, 1, 2} if asks_tag else {0, 1, 2, 3})


def craft(rng: np.random.Generator, attack: AttackSpec, epoch: int, newest: int) -> bytes:
    """One datagram of an attack, made as its kind and variant say."""
    kind, variant, size = attack.kind, attack.variant, attack.size_bytes
    if kind in ("flood", "pulsing", "ramp"):
        first = {2: b"\0", 3: b"\xfd"}.get(variant, rng.bytes(1))
        return first + rng.bytes(size - 1)
    if kind == "bad-header":
        if variant == 1:  # the right index, another epoch's bits
            return packet.header(packet.DATA, epoch + 1, index_of(epoch), newest + 9) + rng.bytes(40)
        return bytes([int(rng.choice([0, 7, 9, 15])) << 4]) + rng.bytes(size - 1)
    body = rng.bytes(max(size, 24) - 8)
    ahead = newest + int(rng.integers(1, 1 << 20))
    if kind == "forged" and variant == 3:
        third = int(rng.integers(3))
        if third == 0:
            return packet.header(9, epoch, index_of(epoch), ahead) + body
        if third == 1:
            return packet.header(packet.DATA, epoch, index_of(epoch) ^ 0x5A5A5A, ahead) + body
        return packet.header(packet.DATA, epoch, index_of(epoch), ahead) + body
    if kind == "spoof" and variant % 2:
        return packet.header(packet.DATA, epoch, index_of(epoch), newest - int(rng.integers(50))) + body
    if kind in ("forged", "spoof"):
        return packet.header(packet.DATA, epoch, index_of(epoch), ahead) + body
    assert kind == "replay"
    if variant == 3 and rng.random() < 0.5:  # the other direction's
        return packet.header(packet.DATA, epoch, GCS_INDEX, newest) + body
    return seal(epoch, newest - int(rng.integers(50)), packet.DATA, 52)


@pytest.mark.parametrize("variant", range(4))
@pytest.mark.parametrize("size", [16, 100])
@pytest.mark.parametrize("kind", ["flood", "pulsing", "ramp", "bad-header", "forged", "spoof", "replay"])
def test_an_attack_raises_what_the_real_session_raises(
    kind: str, size: int, variant: int, plane: str
) -> None:
    rng = np.random.default_rng(variant)
    attack = AttackSpec(kind, 1.0, 10.0, 60.0, size, False, on_s=1.0, off_s=1.0, variant=variant)
    keys = still(epochs=1)
    laid = offer(rng, attack, keys, 1000)
    drone = Drone(plane)
    drone.install(0, 0.0)
    for sequence in range(100):
        drone.receive(seal(0, sequence, packet.DATA, 52), 0.5)
    count = 400
    got = np.zeros(len(REFUSALS))
    for _ in range(count):
        told = drone.receive(craft(rng, attack, 0, 99), 2.0)
        got[REFUSALS.index(told)] += 1  # `open` would be no refusal at all
    expected = laid.shares[5]
    sure = (expected == 0) | (expected == 1)
    assert (got[sure] == expected[sure] * count).all(), (got, expected)
    spread = 4 * np.sqrt(expected * (1 - expected) / count)
    assert (np.abs(got / count - expected) <= spread + 1e-9).all(), (got / count, expected)


def still(epochs: int, every_s: float = 3.0) -> Sessions:
    """Epochs at fixed times, nothing else."""
    rng = np.random.default_rng(0)
    empty = np.empty(0)
    state = channel.weather(rng, LinkSpec(), 1000)
    made = sessions(rng, GroundSpec(rekey_every_s=1e9), state, 0.002, 20.0)
    begin = np.arange(epochs) * every_s
    flat = np.zeros(epochs, dtype=np.int64)
    assert len(made.begin_s) == 1 and len(empty) == 0
    return replace(made, begin_s=begin, after_restart=flat, is_blank=flat.astype(np.bool_))


def test_replayed_epochs_end_as_the_real_sessions_do(plane: str) -> None:
    keys = still(epochs=25)
    drone = Drone(plane)
    captured = [seal(0, sequence, packet.DATA, 52) for sequence in range(20)]
    moments: NDArray[np.float64] = np.arange(1.51, 74.0, 0.02)
    expected = keys.standing(np.zeros(len(moments), dtype=np.int64), moments)
    names = np.array(["replay", "replay", "old_epoch", "unknown_index"])[expected]
    installed = 0
    drone.install(0, 0.0)
    for datagram in captured:
        assert drone.receive(datagram, 0.5) == "open"
    for moment, name in zip(moments.tolist(), names.tolist(), strict=True):
        while installed + 1 < 25 and keys.begin_s[installed + 1] <= moment:
            installed += 1
            drone.install(installed, float(keys.begin_s[installed]))
        assert drone.receive(captured[installed % 20], moment) == name, moment
    assert set(names) == {"replay", "old_epoch", "unknown_index"}


def test_the_cores_bins_have_every_field() -> None:
    core = pytest.importorskip("pq_core", reason="the native core's wheel is not installed here")
    assert set(FIELDS) <= set(core.BIN_FIELDS)
