"""Two sessions against each other under loss, reordering and duplication; epochs; keepalive; limits."""

from __future__ import annotations

import itertools
import sys
import threading

import pytest
from core_kit import FALCON, MLKEM, Lab, converse
from hypothesis import given, settings
from hypothesis import strategies as st

from pqspec import session
from pqspec.session import Session
from pqtunnel import packet
from pqtunnel.errors import SequenceExhausted, SessionError, SessionNotReady
from pqtunnel.handshake.established import Established
from pqtunnel.session import new_index
from pqtunnel.suites import get

S = 1_000_000_000


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_delivers_every_arriving_datagram_once_and_unchanged(data: st.DataObject) -> None:
    lab = Lab(sig_tokens=["mldsa65"])
    drone, gcs = lab.sessions()
    payloads = data.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=30))
    sent = [drone.seal_data(payload) for payload in payloads]
    assert all(
        len(sealed) == len(payload) + 24 for (sealed, _, _), payload in zip(sent, payloads, strict=True)
    )
    # Each datagram arrives 0, 1 or 2 times, in any order.
    arrivals = data.draw(
        st.permutations([i for i in range(len(sent)) for _ in range(data.draw(st.integers(0, 2)))])
    )
    delivered = {}
    for number in arrivals:
        outcome = gcs.receive(sent[number][0], 1)
        if outcome.kind == packet.DATA:
            assert outcome.sequence not in delivered
            delivered[outcome.sequence] = outcome.payload
    assert delivered == {sent[i][2]: payloads[i] for i in set(arrivals)}
    assert lab.gcs_counters["rx_ok"] == len(set(arrivals))
    assert lab.gcs_counters["duplicate"] == len(arrivals) - len(set(arrivals))
    assert lab.gcs_counters["replay"] == 0
    assert lab.gcs_counters["auth_failed"] == lab.gcs_counters["bad_header"] == 0


@given(st.binary(max_size=200))
def test_random_datagrams_never_crash_and_are_always_counted(datagram: bytes) -> None:
    lab = _shared_lab()
    before = sum(lab[2].values())
    outcome = lab[1].receive(datagram, 1)
    assert outcome.kind == 0 and outcome.reason in ("bad_header", "unknown_index", "auth_failed", "replay")
    assert sum(lab[2].values()) == before + 1


_SHARED: list[tuple[Session, Session, dict[str, int]]] = []


def _shared_lab() -> tuple[Session, Session, dict[str, int]]:
    if not _SHARED:
        lab = Lab(sig_tokens=["mldsa65"])
        drone, gcs = lab.sessions()
        _SHARED.append((drone, gcs, lab.gcs_counters))
    return _SHARED[0]


@given(position=st.integers(0, 200), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_datagram_is_dropped(position: int, bit: int) -> None:
    drone, gcs, _ = _shared_lab()
    datagram = bytearray(drone.seal_data(b"x" * 40)[0])
    datagram[position % len(datagram)] ^= 1 << bit
    assert gcs.receive(bytes(datagram), 1).kind == 0


def test_gcs_sends_only_after_the_first_authenticated_packet(lab: Lab) -> None:
    drone_end, gcs_end = lab.handshake()
    gcs = Session("gcs", lab.gcs_counters, lab.primitives)
    drone = Session("drone", lab.drone_counters, lab.primitives)
    gcs.install(gcs_end, 0)
    drone.install(drone_end, 0)
    assert drone.can_send and not gcs.can_send
    with pytest.raises(SessionNotReady):
        gcs.seal_data(b"too early")
    with pytest.raises(SessionNotReady):
        gcs.seal_control(packet.KEEPALIVE)
    forged = packet.header(packet.KEEPALIVE, 0, gcs_end.rx_index, 0) + bytes(16)
    gcs.receive(forged, 1)
    assert not gcs.can_send
    gcs.receive(drone.seal_control(packet.KEEPALIVE), 1)
    assert gcs.can_send
    assert drone.receive(gcs.seal_data(b"now")[0], 2).payload == b"now"


def test_control_packets_are_told_apart_and_counted(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    assert lab.gcs_counters["rx_keepalive"] == 1 and lab.drone_counters["tx_keepalive"] == 1
    outcome = gcs.receive(drone.seal_control(packet.PATH_CHALLENGE, b"12345678"), 1)
    assert (outcome.kind, outcome.payload) == (packet.PATH_CHALLENGE, b"12345678")
    for kind, name in packet.TYPE_NAMES.items():
        if kind in packet.CONTROL_BYTES:
            gcs.receive(drone.seal_control(kind, bytes(packet.CONTROL_BYTES[kind])), 1)
            name = name.replace("-", "_")
            seen = 2 if kind == packet.PATH_CHALLENGE else 1
            assert lab.drone_counters[f"tx_{name}"] == lab.gcs_counters[f"rx_{name}"] == seen
    assert lab.gcs_counters["rx_ok"] == lab.gcs_counters["rx_late"] == 0
    for packet_type in (packet.DATA, 0, 7):
        with pytest.raises(SessionError):
            drone.seal_control(packet_type)


def two_handshakes(lab: Lab) -> list[tuple[Established, Established]]:
    ends = []
    for number in range(3):
        drone, gcs = lab.drone(epoch=number, rx_index=100 + number), lab.gcs(rx_index=200 + number)
        converse(drone, gcs)
        assert drone.established is not None and gcs.established is not None
        ends.append((drone.established, gcs.established))
    return ends


def test_late_packets_of_the_previous_epoch_are_delivered_for_two_seconds(lab: Lab) -> None:
    (d0, g0), (d1, g1), _ = two_handshakes(lab)
    counters: dict[str, int] = {}
    drone, gcs = Session("drone", {}, lab.primitives), Session("gcs", counters, lab.primitives)
    gcs.install(g0, 0)
    drone.install(d0, 0)
    assert gcs.receive(drone.seal_data(b"first")[0], 1).epoch == 0
    late = [drone.seal_data(b"late %d" % number)[0] for number in range(2)]
    gcs.install(g1, S)
    # The GCS still sends on the old epoch, which the drone has not left yet.
    assert drone.receive(gcs.seal_data(b"old keys")[0], S).payload == b"old keys"
    drone.install(d1, S)
    outcome = drone.receive(gcs.seal_data(b"old keys, new epoch there")[0], S + 1)
    assert outcome.payload and not outcome.newest and not outcome.first
    first = gcs.receive(drone.seal_control(packet.KEEPALIVE), S + 2)
    assert first.epoch == 1 and first.first and first.newest
    first = drone.receive(gcs.seal_data(b"new keys")[0], S + 3)
    assert first.epoch == 1 and first.first and first.newest
    outcome = gcs.receive(late[0], 2 * S)
    assert outcome.payload == b"late 0" and not outcome.newest
    assert counters["rx_late"] == 1 and counters["rx_ok"] == 2
    assert gcs.receive(late[1], 4 * S).reason == "old_epoch"
    assert gcs.receive(late[1], 4 * S).reason == "old_epoch"
    assert counters["old_epoch"] == 2


def test_the_old_epoch_receives_for_three_round_trips(lab: Lab) -> None:
    (d0, g0), (d1, g1), _ = two_handshakes(lab)
    drone, gcs = Session("drone", {}, lab.primitives), Session("gcs", {}, lab.primitives)
    for session_, ends in ((gcs, (g0, g1)), (drone, (d0, d1))):
        session_.set_rtt(S)
        session_.install(ends[0], 0)
    gcs.receive(drone.seal_data(b"")[0], 0)
    late = [drone.seal_data(b"late")[0] for _ in range(2)]
    gcs.install(g1, 0)
    drone.install(d1, 0)
    gcs.receive(drone.seal_data(b"")[0], 0)
    assert gcs.receive(late[0], 3 * S).payload == b"late"
    assert gcs.receive(late[1], 3 * S + 1).reason == "old_epoch"


def test_newest_is_a_new_highest_sequence_only(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    one, two = (drone.seal_data(b"x")[0] for _ in range(2))
    assert gcs.receive(two, 1).newest
    outcome = gcs.receive(one, 1)
    assert outcome.kind == packet.DATA and not outcome.newest and not outcome.first


def test_unused_next_epoch_is_replaced_and_at_most_three_live(lab: Lab) -> None:
    (d0, g0), (_, g1), (d2, g2) = two_handshakes(lab)
    drone, gcs = Session("drone", {}, lab.primitives), Session("gcs", {}, lab.primitives)
    gcs.install(g0, 0)
    drone.install(d0, 0)
    gcs.receive(drone.seal_data(b"")[0], 0)
    gcs.install(g1, 1)
    gcs.install(g2, 2)
    assert len(gcs._by_index) == 2 and not gcs.index_is_free(g1.rx_index)
    drone.install(d2, 3)
    assert gcs.receive(drone.seal_data(b"on epoch 2")[0], 4).epoch == 2


def test_install_checks_role_and_index(lab: Lab) -> None:
    drone_end, gcs_end = lab.handshake()
    drone = Session("drone", {}, lab.primitives)
    with pytest.raises(SessionError, match="cannot serve"):
        drone.install(gcs_end, 0)
    drone.install(drone_end, 0)
    with pytest.raises(SessionError, match="taken"):
        drone.install(drone_end, 0)


def test_new_index_avoids_living_ones(lab: Lab) -> None:
    drone, _ = lab.sessions()
    draws = iter([b"\xd0\xd0\xd0", b"\x01\x02\x03"])
    assert new_index(lambda count: next(draws), drone) == 0x010203


def test_close_forgets_every_key(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    datagram, _, _ = drone.seal_data(b"x")
    gcs.close()
    assert not gcs.can_send and gcs.epoch is None
    assert gcs.receive(datagram, 1).reason == "old_epoch"


def test_keepalive_after_a_second_of_sending_nothing(lab: Lab) -> None:
    drone, _ = lab.sessions()
    assert not drone.keepalive_due(0)
    assert not drone.keepalive_due(S - 1)
    assert drone.keepalive_due(S)
    drone.seal_control(packet.KEEPALIVE)
    assert not drone.keepalive_due(S + 1)
    drone.seal_data(b"x")
    assert not drone.keepalive_due(2 * S)
    assert drone.keepalive_due(3 * S)
    assert not Session("gcs", {}, lab.primitives).keepalive_due(10 * S)


def test_silence_is_broken_by_authentic_packets_only(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    assert not drone.silent(3 * S - 1)
    drone.receive(packet.header(packet.DATA, 0, 0xD0D0D0, 9) + bytes(40), 2 * S)
    assert drone.silent(3 * S)
    drone.receive(gcs.seal_control(packet.KEEPALIVE), 3 * S)
    assert not drone.silent(5 * S)
    assert not Session("drone", {}, lab.primitives).silent(100 * S)


def test_sequence_stops_hard_and_rekey_falls_due_before(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    assert not drone.rekey_due(S) and drone.rekey_due(600 * S)
    entry, gcs_entry = drone._current, gcs._current
    assert entry is not None and gcs_entry is not None
    entry.take_sequence = itertools.count(session.REKEY_PACKETS).__next__
    gcs_entry.window.next_sequence = session.REKEY_PACKETS
    assert gcs.receive(drone.seal_data(b"x")[0], 1).sequence == session.REKEY_PACKETS
    assert drone.rekey_due(S)
    entry.take_sequence = itertools.count(session.HARD_STOP_PACKETS - 1).__next__
    gcs_entry.window.next_sequence = session.HARD_STOP_PACKETS - 5
    datagram, _, sequence = drone.seal_data(b"last")
    assert gcs.receive(datagram, 1).sequence == sequence == 2**32 - 2
    for seal in (lambda: drone.seal_data(b"one more"), lambda: drone.seal_control(packet.KEEPALIVE)):
        with pytest.raises(SequenceExhausted):
            seal()


def test_failed_tags_are_counted_per_key_and_limited(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FAILED_TAG_LIMIT", 3)
    drone, gcs = lab.sessions()
    for sequence in range(10, 13):
        gcs.receive(packet.header(packet.DATA, 0, 0x6C6C6C, sequence) + bytes(20), 1)
    assert gcs.failed_tags == 3
    assert gcs.receive(drone.seal_data(b"authentic, key worn out")[0], 1).reason == "auth_failed"


def test_oversize_plaintext_is_refused_not_cut(lab: Lab) -> None:
    drone, gcs = lab.sessions(FALCON)
    with pytest.raises(SessionError) as caught:
        drone.seal_data(bytes(packet.MAX_PLAINTEXT_BYTES + 1))
    assert caught.value.code == "oversize"
    datagram, _, _ = drone.seal_data(b"")
    assert len(datagram) == packet.OVERHEAD_BYTES == 24
    assert gcs.receive(datagram, 1).payload == b""


def test_no_two_threads_ever_share_a_sequence(lab: Lab) -> None:
    drone, _ = lab.sessions()
    taken: list[list[int]] = [[] for _ in range(4)]

    def seal(own: list[int]) -> None:
        own.extend(drone.seal_data(b"")[2] for _ in range(1500))

    threads = [threading.Thread(target=seal, args=(own,)) for own in taken]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    everything = [sequence for own in taken for sequence in own]
    assert sorted(everything) == list(range(1, 6001))  # 0 was the keepalive


@pytest.mark.native
@pytest.mark.parametrize("aead", ["aesgcm", "chacha20poly1305", "ascon128a"])
def test_native_aeads_carry_packets(native: object, aead: str) -> None:
    lab = Lab(primitives=native, sig_tokens=["mldsa65"])  # type: ignore[arg-type]
    drone, gcs = lab.sessions(get(f"cs-mlkem768-{aead}-mldsa65"))
    for size in (0, 1, 64, 1400):
        payload = bytes(range(256)) * 6
        datagram, epoch, sequence = drone.seal_data(payload[:size])
        outcome = gcs.receive(datagram, 1)
        assert (outcome.payload, outcome.epoch, outcome.sequence) == (payload[:size], epoch, sequence)
        assert payload[:size] not in datagram or size < 2
        broken = datagram[:-1] + bytes((datagram[-1] ^ 1,))
        assert gcs.receive(broken, 1).reason == "auth_failed", "a second copy is one only where it opens"
        assert [gcs.receive(datagram, 1).reason for _ in range(2)] == ["duplicate", "replay"]
    fresh, _, _ = drone.seal_data(b"fresh")
    assert gcs.receive(fresh[:-1] + bytes((fresh[-1] ^ 1,)), 1).reason == "auth_failed"
    assert gcs.receive(fresh, 1).payload == b"fresh"
    assert MLKEM.aead.tag_bytes == packet.TAG_BYTES
