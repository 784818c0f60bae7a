"""Two ends in virtual time: whatever the network and the processes do, traffic is right and comes back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pqspec.path import Address
from pqspec.simulation import DRONE, GCS, MS, SUITE, InvariantBroken, Link, S, World
from pqspec.simulation.primitives import SeededRng, SimulatedPrimitives
from pqtunnel import packet, wire

OTHER = "cs-mlkem768-chacha20poly1305-mldsa65"
MOVED: Address = ("198.18.2.77", 5000)
STRANGER: Address = ("198.18.2.99", 6000)


def flows(world: World, seconds: float = 1.0) -> bool:
    """Does every plaintext sent from now on come out, both ways?"""
    before = {end: len(world.sent[end]) for end in world.sent}
    world.traffic(50, seconds)
    world.run(seconds + 0.5)
    fresh = {end: set(list(world.sent[end])[before[end] :]) for end in world.sent}
    return all(
        len(fresh[end]) >= int(50 * seconds) and not fresh[end] & set(world.lost(end)) for end in fresh
    )


def established(seed: int = 1, **options: object) -> World:
    world = World(seed, **options)  # type: ignore[arg-type]
    world.run(1)
    assert world.drone.session.epoch == world.gcs.session.epoch == 0
    return world


def test_the_same_seed_takes_the_same_way() -> None:
    def run(seed: int) -> tuple[object, ...]:
        world = World(seed)
        world.network.links["gcs"] = Link(20 * MS, 5 * MS, loss=0.1, duplicate=0.05, reorder=0.1)
        world.traffic(100, 5)
        world.clock.after(2 * S, world.drone.rekey)
        world.run(6)
        return world.sent, world.delivered, world.drone.data, world.gcs.data, world.drone.log

    assert run(5) == run(5)
    assert run(5) != run(6)


@pytest.mark.parametrize("delay_ms", [0, 1, 40, 300])
def test_ten_rekeys_under_traffic_lose_nothing_on_a_link_that_loses_nothing(delay_ms: int) -> None:
    world = World(2, accepted=[OTHER])
    for role in world.network.links:
        world.network.links[role] = Link(delay_ms * MS, jitter_ns=0)
    world.run(3)
    world.traffic(320, 30)
    both = [world.drone.suite, World(0, OTHER).drone.suite]
    for number in range(10):
        wanted = both[1 - number % 2]
        world.clock.after(int(2.5 * S) * (number + 1), partial(world.drone.rekey, wanted))
    world.run(33)
    assert world.drone.session.epoch == world.gcs.session.epoch == 10
    assert world.lost("drone") == world.lost("gcs") == []
    assert world.refused == {"drone": 0, "gcs": 0}
    assert len(world.sent["drone"]) == 9600
    for node in (world.drone, world.gcs):
        for name in ("auth_failed", "old_epoch", "unknown_index", "duplicate", "replay", "bad_header"):
            assert node.data[name] == 0, name


def test_three_hundred_rekeys_wrap_the_epoch_on_the_wire() -> None:
    world = established()
    nibbles = set()
    world.network.taps.append(lambda source, to, datagram: nibbles.add(datagram[0] & 0xF))
    world.traffic(40, 302)
    for number in range(300):
        world.clock.after((number + 1) * S, world.drone.rekey)
    world.run(303)
    assert world.drone.session.epoch == world.gcs.session.epoch == 300
    assert nibbles == set(range(16))
    assert world.lost("drone") == world.lost("gcs") == []
    assert world.drone.counters["rekey_coalesced"] == 0


def test_a_storm_of_rekeys_is_one_at_a_time() -> None:
    world = established()
    for role in world.network.links:
        world.network.links[role] = Link(30 * MS, 10 * MS)
    world.traffic(200, 10)
    for number in range(5_000):
        world.clock.after(number * 2 * MS, world.drone.rekey)
        world.clock.after(number * 20 * MS, world.gcs.request)
    world.run(12)
    assert world.lost("drone") == world.lost("gcs") == []
    started = world.drone.counters["hs_started"] - 1
    assert 20 < started < 110  # three round trips each
    assert started == world.drone.counters["hs_completed"] - 1
    assert world.drone.counters["rekey_coalesced"] >= 5_000 - started


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    loss=st.floats(0, 0.4),
    duplicate=st.floats(0, 0.3),
    reorder=st.floats(0, 0.3),
    delay_ms=st.integers(0, 150),
    jitter_ms=st.integers(0, 60),
    rekeys_ms=st.lists(st.integers(0, 8_000), max_size=8),
)
def test_any_network_delivers_at_most_once_and_heals(
    seed: int,
    loss: float,
    duplicate: float,
    reorder: float,
    delay_ms: int,
    jitter_ms: int,
    rekeys_ms: list[int],
) -> None:
    world = World(seed)
    for role in world.network.links:
        world.network.links[role] = Link(delay_ms * MS, jitter_ms * MS, loss, duplicate, reorder)
    world.traffic(60, 9)
    for at_ms in rekeys_ms:
        world.clock.after(at_ms * MS, world.drone.rekey)
    world.run(10)
    for role in world.network.links:
        world.network.links[role] = Link()
    world.run(20)  # at worst: a handshake into its deadline, then 8 s of back-off
    assert flows(world)


def test_a_lost_finished_gcs_leaves_the_old_epoch_alone_and_is_tried_again() -> None:
    world = established()
    world.traffic(100, 20)

    def swallow() -> None:
        world.drone.rekey()
        stream = world.streams[-1]
        stream.lose = lambda sender, frame: frame[0] & 0xF == wire.GCS_FINISHED

    world.clock.after(2 * S, swallow)
    world.run(4)
    assert (world.drone.session.epoch, world.gcs.session.epoch) == (0, 0)
    assert world.gcs.counters["hs_completed"] == 2 and world.gcs.session.live_epochs == 2
    world.run(17)
    assert world.drone.session.epoch == world.gcs.session.epoch == 1
    assert world.drone.counters["hs_timeout"] == 1
    assert world.lost("drone") == world.lost("gcs") == []


def test_a_restarted_gcs_says_session_unknown_and_gets_a_new_session() -> None:
    world = established()
    world.gcs.restart(down_ns=200 * MS)
    world.clock.after(300 * MS, world.drone.rekey)
    world.run(1.5)
    assert world.drone.counters["hs_session_unknown"] == world.gcs.counters["hs_session_unknown"] == 1
    assert world.drone.session.epoch == world.gcs.session.epoch == 1
    assert flows(world)


@pytest.mark.parametrize("end", ["drone", "gcs"])
@pytest.mark.parametrize("down_ms", [100, 6_000])
def test_a_restart_heals_without_help(end: str, down_ms: int) -> None:
    world = established()
    world.traffic(100, 12)
    node = world.drone if end == "drone" else world.gcs
    world.clock.after(2 * S, lambda: node.restart(down_ms * MS))
    world.run(25)
    assert node.session.can_send and flows(world)


def test_a_restart_in_the_middle_of_a_rekey_heals() -> None:
    for delay_ms in range(0, 200, 10):
        world = established(seed=delay_ms)
        for role in world.network.links:
            world.network.links[role] = Link(25 * MS)
        world.drone.rekey()
        world.clock.after(delay_ms * MS, lambda: world.gcs.restart(500 * MS))  # noqa: B023  run at once below
        world.run(20)
        assert flows(world), delay_ms


@pytest.mark.parametrize("end", ["drone", "gcs"])
def test_a_pause_longer_than_the_silence_limit_heals_and_delivers_what_waited(end: str) -> None:
    world = established()
    world.traffic(100, 10)
    node = world.drone if end == "drone" else world.gcs
    world.clock.after(2 * S, lambda: node.pause(4 * S))
    world.clock.after(3 * S, world.drone.rekey)
    world.run(20)
    assert flows(world)
    assert world.drone.session.live_epochs <= 3


def test_a_copy_from_another_address_moves_nothing() -> None:
    world = established()
    answers = []
    world.network.attach("drone", STRANGER, lambda datagram, source: answers.append(datagram))

    def copy(source: Address, to: Address, datagram: bytes) -> None:
        if source == DRONE:
            world.clock.after(5 * MS, lambda: world.network.inject(STRANGER, GCS, datagram))

    world.network.taps.append(copy)
    world.traffic(100, 5)
    world.run(6)
    assert world.gcs.roaming.peer == DRONE and answers == []
    assert world.gcs.data["duplicate"] >= 500 and world.gcs.data["path_new_source"] == 0
    assert world.lost("drone") == world.lost("gcs") == []


def test_a_copy_that_overtakes_the_original_is_challenged_and_cannot_answer() -> None:
    world = established()
    challenges = []
    world.network.attach("drone", STRANGER, lambda datagram, source: challenges.append(datagram))
    world.network.links["gcs"] = Link(20 * MS)

    def copy(source: Address, to: Address, datagram: bytes) -> None:
        if source == DRONE:
            world.clock.after(1, lambda: world.gcs._arrived(datagram, STRANGER))

    world.network.taps.append(copy)
    world.traffic(100, 5)
    world.run(6)
    assert world.gcs.roaming.peer == DRONE
    assert 10 < len(challenges) <= 60 and all(one[0] >> 4 == packet.PATH_CHALLENGE for one in challenges)
    assert world.lost("gcs") == []


def test_a_new_binding_is_followed_and_an_old_one_forgotten() -> None:
    world = established()
    world.traffic(100, 8)
    world.clock.after(3 * S, lambda: world.network.translate(DRONE, MOVED))
    world.run(9)
    assert world.gcs.roaming.peer == MOVED
    assert world.gcs.data["path_changed"] == 1
    assert world.lost("drone") == []
    assert len(world.lost("gcs")) <= 2  # in the round trip of the challenge
    assert flows(world)


def test_a_new_binding_heals_with_loss_and_a_long_round_trip() -> None:
    world = established()
    for role in world.network.links:
        world.network.links[role] = Link(250 * MS, loss=0.3)
    world.traffic(50, 20)
    world.clock.after(3 * S, lambda: world.network.translate(DRONE, MOVED))
    world.run(25)
    assert world.gcs.roaming.peer == MOVED


def test_a_cut_link_heals_by_redial_or_by_itself() -> None:
    world = established()
    world.traffic(100, 20)

    def cut(is_cut: bool) -> None:
        for role, link in world.network.links.items():
            world.network.links[role] = replace(link, is_cut=is_cut)

    world.clock.after(2 * S, lambda: cut(True))
    world.clock.after(9 * S, lambda: cut(False))
    world.run(25)
    assert flows(world)


def test_an_epoch_of_ten_minutes_is_renewed_by_itself() -> None:
    world = established()
    world.run(605)
    assert world.drone.session.epoch == world.gcs.session.epoch == 1
    assert world.drone.counters["hs_started"] == 2  # the drone's own trigger and the gcs's request are one


def test_the_gcs_asks_for_another_suite_and_gets_only_what_the_drone_accepts() -> None:
    world = established(accepted=[OTHER])
    world.gcs.request(World(0, OTHER).drone.suite)
    world.run(1)
    assert world.drone.suite.id == world.gcs.suite.id == OTHER
    assert world.gcs.data["tx_rekey_request"] == 1
    world.drone.accepted = {OTHER}
    world.gcs.request(World(0, SUITE).drone.suite)
    world.run(4)
    assert world.drone.suite.id == OTHER and world.gcs.data["tx_rekey_request"] > 3


def test_the_rules_themselves_can_fail() -> None:
    world = established()
    world.send("drone", b"once")
    world.run(0.1)
    for payload in (b"once", b"never sent"):
        with pytest.raises(InvariantBroken):
            world._deliver("gcs", payload)
    key = SimulatedPrimitives(SeededRng(b"x")).aead("aesgcm").new(bytes(32))
    key.seal(bytes(12), b"", b"")
    with pytest.raises(InvariantBroken):
        key.seal(bytes(12), b"other", b"")
