"""The native session against its specification: the same calls, the same datagrams, outcomes and counters."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from core_pair import AEADS, SUITES, Twin, established, pq_core
from hypothesis import given, settings
from hypothesis import strategies as st

from pqspec.replay import WINDOW_PACKETS
from pqtunnel import packet
from pqtunnel.errors import KeyMaterialError

pytestmark = pytest.mark.native
S = 1_000_000_000
ENDS = ("drone", "gcs")
TOKENS = sorted(SUITES)

_ends = st.sampled_from(ENDS)
_steps = st.one_of(
    st.tuples(st.just("handshake"), st.booleans(), st.integers(0, 5), st.integers(0, 5)),
    st.tuples(st.just("wrong_keys"), _ends, st.integers(0, 5), st.integers(0, 5)),
    st.tuples(st.just("seal"), _ends, st.binary(max_size=300)),
    st.tuples(st.just("burst"), _ends, st.sampled_from([1, 5, WINDOW_PACKETS - 1, WINDOW_PACKETS + 1])),
    st.tuples(st.just("control"), _ends, st.integers(-1, 17), st.binary(max_size=20)),
    st.tuples(st.just("deliver"), _ends, st.integers(0, 1 << 30)),
    st.tuples(st.just("recent"), _ends, st.integers(0, 3)),
    st.tuples(st.just("truncate"), _ends, st.integers(0, 1 << 30), st.integers(0, 60)),
    st.tuples(st.just("flip"), _ends, st.integers(0, 1 << 30), st.integers(0, 1 << 12)),
    st.tuples(
        st.just("header"),
        _ends,
        st.integers(0, 1 << 30),
        st.integers(0, 15),
        st.integers(0, 15),
        st.integers(0, (1 << 32) - 1),
    ),
    st.tuples(st.just("noise"), _ends, st.binary(max_size=80)),
    st.tuples(st.just("wait"), st.sampled_from([1, S // 2, S - 1, S, 2 * S, 3 * S, 600 * S])),
    st.tuples(st.just("ask"), _ends, st.integers(0, 5)),
    st.tuples(st.just("close"), _ends),
    st.tuples(st.just("rtt"), _ends, st.sampled_from([-S, 0, S // 2, S, 4 * S, 1000 * S])),
    st.tuples(st.just("other_mode"), _ends, st.integers(0, 5)),
)


class World:
    """Both ends, twice; a clock; and every datagram that was ever sealed."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.now_ns = 1
        self.epoch = 0
        self.twins = {"drone": Twin("drone"), "gcs": Twin("gcs")}
        self.sealed: dict[str, list[bytes]] = {"drone": [b"\x10"], "gcs": [b"\x20"]}

    def receive(self, end: str, datagram: bytes) -> None:
        self.twins[end].do("receive", datagram, self.now_ns)

    def to(self, end: str, number: int) -> bytes:
        """Some datagram that the other end sealed."""
        sent = self.sealed["gcs" if end == "drone" else "drone"]
        return sent[number % len(sent)]

    def step(self, name: str, *given: Any) -> None:
        getattr(self, name)(*given)
        for twin in self.twins.values():
            twin.compare()

    def handshake(self, heard: bool, drone_index: int, gcs_index: int) -> None:
        keys = (self.token, self.epoch)
        self.twins["gcs"].do("install", established("gcs", *keys, gcs_index, drone_index), self.now_ns)
        self.twins["drone"].do("install", established("drone", *keys, drone_index, gcs_index), self.now_ns)
        self.epoch += 1
        self.control("drone", packet.KEEPALIVE, b"")
        if heard:
            self.recent("gcs", 0)

    def wrong_keys(self, end: Any, rx_index: int, tx_index: int) -> None:
        keys = established(end, self.token, self.epoch, rx_index, tx_index, b"somebody else's")
        self.twins[end].do("install", keys, self.now_ns)
        other = "gcs" if end == "drone" else "drone"
        self.twins[other].do("install", keys, self.now_ns)  # keys of the other role are refused

    def seal(self, end: str, payload: bytes) -> None:
        result = self.twins[end].do("seal_data", payload)
        if isinstance(result[0], bytes):
            self.sealed[end].append(result[0])

    def burst(self, end: str, count: int) -> None:
        for _ in range(count):
            self.seal(end, b"burst")

    def control(self, end: str, kind: int, payload: bytes) -> None:
        result = self.twins[end].do("seal_control", kind, payload)
        if isinstance(result, bytes):
            self.sealed[end].append(result)

    def deliver(self, end: str, number: int) -> None:
        self.receive(end, self.to(end, number))

    def recent(self, end: str, back: int) -> None:
        self.receive(end, self.to(end, -1 - back))

    def truncate(self, end: str, number: int, length: int) -> None:
        self.receive(end, self.to(end, number)[:length])

    def flip(self, end: str, number: int, bit: int) -> None:
        datagram = bytearray(self.to(end, number))
        datagram[bit // 8 % len(datagram)] ^= 1 << bit % 8
        self.receive(end, bytes(datagram))

    def header(self, end: str, number: int, kind: int, index: int, sequence: int) -> None:
        datagram = self.to(end, number)
        word = packet.first_word(kind, index, index % 6)
        self.receive(end, struct.pack(">II", word, sequence) + datagram[8:])

    def noise(self, end: str, datagram: bytes) -> None:
        self.receive(end, datagram)

    def wait(self, duration_ns: int) -> None:
        self.now_ns += duration_ns

    def ask(self, end: str, index: int) -> None:
        for name in ("keepalive_due", "silent", "rekey_due"):
            self.twins[end].do(name, self.now_ns)
        self.twins[end].do("index_is_free", index)

    def rtt(self, end: str, rtt_ns: int) -> None:
        self.twins[end].do("set_rtt", rtt_ns)

    def other_mode(self, end: Any, index: int) -> None:
        """Plain keys offered to a sealed session, or sealed ones to a plain session."""
        token = "aesgcm" if self.token == "null" else "null"
        self.twins[end].do("install", established(end, token, self.epoch, index, 9), self.now_ns)

    def close(self, end: str) -> None:
        self.twins[end].do("close")


@settings(max_examples=150, deadline=None)
@given(token=st.sampled_from(TOKENS), steps=st.lists(_steps, max_size=40))
def test_any_interleaving_has_the_same_outcomes(token: str, steps: list[Any]) -> None:
    world = World(token)
    world.step("handshake", True, 1, 2)
    for step in steps:
        world.step(*step)


@pytest.mark.parametrize("token", TOKENS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_loss_reorder_and_duplicates_on_a_long_run(token: str, data: st.DataObject) -> None:
    world = World(token)
    world.step("handshake", True, 1, 2)
    count = data.draw(st.sampled_from([60, WINDOW_PACKETS + 60]))
    world.burst("drone", count)
    arrivals = data.draw(st.lists(st.integers(0, count + 1), min_size=30, max_size=80))
    for number in arrivals:
        world.deliver("gcs", number)
    counted = world.twins["gcs"].counters
    assert counted["auth_failed"] == counted["unknown_index"] == 0
    copies = counted["duplicate"] + counted["replay"]
    assert counted["rx_ok"] + copies + counted["bad_header"] + counted["rx_keepalive"] >= 30


@pytest.mark.parametrize("token", AEADS)
def test_every_length_up_to_the_largest_datagram(token: str) -> None:
    world = World(token)
    world.step("handshake", True, 1, 2)
    for length in [*range(70), 255, 256, 257, 1472, 1500, packet.MAX_PLAINTEXT_BYTES]:
        world.seal("drone", bytes(range(256)) * (length // 256) + bytes(length % 256))
        world.recent("gcs", 0)
    assert world.twins["gcs"].counters["rx_ok"] == 76
    world.seal("drone", bytes(packet.MAX_PLAINTEXT_BYTES + 1))  # the same refusal in both
    assert world.twins["drone"].counters["tx_data"] == 76


@pytest.mark.parametrize("token", AEADS)
def test_late_packets_of_the_old_epoch_and_their_end(token: str) -> None:
    world = World(token)
    world.step("handshake", True, 1, 2)
    for payload in (b"late", b"at the last moment", b"too late"):
        world.seal("drone", payload)
    world.step("handshake", True, 3, 4)
    world.step("deliver", "gcs", 2)
    world.step("wait", 2 * S)
    world.step("deliver", "gcs", 3)
    assert world.twins["gcs"].counters["rx_ok"] == 2
    world.step("wait", 1)
    world.step("deliver", "gcs", 4)
    world.step("deliver", "gcs", 4)
    assert world.twins["gcs"].counters["old_epoch"] == 2
    world.step("ask", "gcs", 2)


def test_every_boundary_in_time_is_the_same() -> None:
    for wait_ns in (S - 1, S, 3 * S - 1, 3 * S, 600 * S - 1, 600 * S, 600 * S + 1):
        world = World("aesgcm")
        world.step("handshake", True, 1, 2)
        for end in ENDS:
            world.step("ask", end, 1)  # keepalive_due counts from the asking
        world.step("wait", wait_ns)
        for end in ENDS:
            world.step("ask", end, 1)
            world.step("ask", end, 1)


@pytest.mark.parametrize("token", TOKENS)
def test_second_copies_are_told_from_replays_alike(token: str) -> None:
    for wait_ns in (0, S - 1, S, S + 999_999, S + 1_000_000, 5 * S):
        world = World(token)
        world.step("handshake", True, 1, 2)
        world.step("wait", 1_000_000 - world.now_ns % 1_000_000)
        world.seal("drone", b"twice")
        world.recent("gcs", 0)
        world.step("wait", wait_ns)
        for _ in range(3):
            world.recent("gcs", 0)
        counted = world.twins["gcs"].counters
        assert (counted["duplicate"], counted["replay"]) == ((1, 2) if wait_ns < S + 1_000_000 else (0, 3))


def test_every_type_and_every_epoch_nibble_are_judged_alike() -> None:
    world = World("chacha20poly1305")
    for epoch in range(18):
        world.step("handshake", True, epoch % 6, (epoch + 1) % 6)
        for kind in range(-1, 17):
            world.step("control", "drone", kind, b"body")
            world.step("recent", "gcs", 0)
        for nibble in range(16):
            world.step("header", "gcs", -1, packet.DATA, nibble, 1000)
    counted = world.twins["gcs"].counters
    assert min(counted[name] for name in ("rx_keepalive", "rx_epoch_ack", "bad_header", "replay")) > 0


def test_the_memory_of_ended_indices_is_as_long() -> None:
    world = World("ascon128a")
    for epoch in range(40):
        world.step("handshake", epoch % 3 > 0, 2 * epoch, 2 * epoch + 1)
        for index in range(2 * epoch + 2):
            for end in ENDS:
                world.twins[end].do("index_is_free", index)
                word = packet.first_word(packet.DATA, epoch, index)
                world.receive(end, struct.pack(">II", word, 7) + bytes(20))


def test_plain_adds_eight_bytes_and_never_joins_sealed_epochs() -> None:
    world = World("null")
    world.step("handshake", True, 1, 1)
    world.seal("drone", b"in the clear")
    assert world.sealed["drone"][-1] == bytes.fromhex("1000000100000001") + b"in the clear"
    world.step("recent", "gcs", 0)
    counted = world.twins["gcs"].counters
    assert counted["rx_ok"] == 1 and counted["rx_ok_bytes"] == 8 + 12
    assert world.twins["gcs"].native.is_plain
    for end in ENDS:
        world.step("other_mode", end, 3)
        world.step("wait", 700 * S)
        world.step("ask", end, 3)
    assert world.twins["drone"].native.epoch == 0


@pytest.mark.parametrize("rtt_ns, lives_ns", [(-S, 2 * S), (S // 2, 2 * S), (S, 3 * S), (1000 * S, 30 * S)])
def test_the_old_epoch_lives_for_three_round_trips(rtt_ns: int, lives_ns: int) -> None:
    world = World("aesgcm")
    world.step("handshake", True, 1, 2)
    for end in ENDS:
        world.step("rtt", end, rtt_ns)
    for payload in (b"in time", b"too late"):
        world.seal("drone", payload)
    world.step("handshake", True, 3, 4)
    world.step("wait", lives_ns)
    world.step("deliver", "gcs", 2)
    world.step("wait", 1)
    world.step("deliver", "gcs", 3)
    counted = world.twins["gcs"].counters
    assert (counted["rx_ok"], counted["rx_late"], counted["old_epoch"]) == (1, 1, 1)


@pytest.mark.parametrize("token", AEADS)
def test_three_hundred_epochs_lose_nothing(token: str) -> None:
    """The four epoch bits wrap eighteen times; each epoch's last packets arrive under the next one."""
    world = World(token)
    sent = 0
    for epoch in range(300):
        world.handshake(False, 3 * epoch, 3 * epoch + 1)
        order = [0, 3, 1, 2]  # the confirming keepalive, a new one, then two late ones of the epoch before
        for payload in (b"new", b"late", b"late"):
            world.seal("drone", payload)
            sent += 1
        datagrams = world.sealed["drone"]
        if epoch == 0:
            world.receive("gcs", datagrams[-4])
            world.receive("gcs", datagrams[-3])
            continue
        window = [datagrams[-4], datagrams[-6], datagrams[-5], datagrams[-3]]
        for place in order:
            world.receive("gcs", window[place])
        world.step("wait", S)
    counted = world.twins["gcs"].counters
    assert counted["rx_ok"] == sent - 2 and counted["rx_late"] == 2 * 299
    assert counted["old_epoch"] == counted["unknown_index"] == counted["bad_header"] == counted["replay"] == 0


@pytest.mark.parametrize("token", AEADS)
def test_a_key_of_the_wrong_length_is_refused(token: str) -> None:
    keys = established("drone", token, 0, 1, 2)
    object.__setattr__(keys.keys, "send_key", keys.keys.send_key[:-1])
    with pytest.raises(KeyMaterialError, match="bytes, not"):
        pq_core.Session("drone").install(keys, 0)
