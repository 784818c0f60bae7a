"""What a relay or a stranger may try, and the counter in which each refusal shows."""

from __future__ import annotations

import pytest
from core_kit import FALCON, MLKEM, CountingRng, FakePrimitives, Lab, converse, deliver

from pqtunnel import errors, packet, wire


def flip(frame: bytes, position: int) -> bytes:
    changed = bytearray(frame)
    changed[position] ^= 0x01
    return bytes(changed)


def primitives_of(lab: Lab) -> FakePrimitives:
    assert isinstance(lab.primitives, FakePrimitives)
    return lab.primitives


def test_swapped_ciphertext_byte_is_refused_before_decapsulation(lab: Lab) -> None:
    def relay(sender: str, frame: bytes) -> bytes:
        return flip(frame, 4 + 4 + 500) if frame[0] & 15 == wire.CLIENT_KEM else frame

    with pytest.raises(errors.BadFinished):
        lab.handshake(tamper=relay)
    assert lab.gcs_counters["hs_bad_finished"] == 1
    assert "hs_decaps" not in lab.gcs_counters
    assert primitives_of(lab).kem(MLKEM.kem.token).decapsulated == 0


def test_replayed_hello_500_times_costs_no_keygen_and_no_signature(lab: Lab) -> None:
    recorded: list[bytes] = []

    def wiretap(sender: str, frame: bytes) -> bytes:
        if frame[0] & 15 == wire.HELLO:
            recorded.append(frame)
        return frame

    lab.handshake(tamper=wiretap)
    kem, sig = primitives_of(lab).kem(MLKEM.kem.token), primitives_of(lab).sig(MLKEM.sig.token)
    before = (kem.generated, sig.signed, lab.gcs_counters["hs_keygens"], lab.gcs_counters["hs_signatures"])
    rng = CountingRng(b"fresh challenges")
    for _ in range(500):
        gcs = lab.gcs(rng=rng)
        gcs.start()
        with pytest.raises(errors.BadMac):
            deliver(gcs, recorded[0])
    assert lab.gcs_counters["hs_bad_mac"] == 500
    assert before == (
        kem.generated,
        sig.signed,
        lab.gcs_counters["hs_keygens"],
        lab.gcs_counters["hs_signatures"],
    )


def test_relay_offering_another_suite(lab: Lab) -> None:
    position = 4 + 2  # version, purpose, then the suite's three bytes

    def relay(sender: str, frame: bytes) -> bytes:
        if frame[0] & 15 != wire.HELLO:
            return frame
        return frame[:position] + FALCON.wire_code + frame[position + 3 :]

    with pytest.raises(errors.BadMac):
        lab.handshake(tamper=relay)
    assert lab.gcs_counters["hs_bad_mac"] == 1 and "hs_keygens" not in lab.gcs_counters


def test_authentic_drone_offering_a_suite_outside_the_registry(lab: Lab) -> None:
    drone, gcs = lab.drone(), lab.gcs()
    drone._suite = type(
        "Odd", (), {"wire_code": b"\xee\xee\xee", "sig": MLKEM.sig, "level": 5, "id": "odd"}
    )()
    with pytest.raises(errors.UnknownSuiteOffered):
        converse(drone, gcs)
    assert lab.gcs_counters["hs_unknown_suite"] == 1 and "hs_keygens" not in lab.gcs_counters


def test_flags_of_another_release_are_refused(lab: Lab) -> None:
    # The MAC is right, so the drone means it: still nothing this version defines.
    original = wire.Hello.encode_unauthenticated

    def with_flags(hello: wire.Hello) -> bytes:
        frame = bytearray(original(hello))
        frame[4 + 5] = 0x80
        return bytes(frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire.Hello, "encode_unauthenticated", with_flags)
        with pytest.raises(errors.BadLength, match="flags"):
            lab.handshake()


@pytest.mark.parametrize("cut", [1, 10, 1000])
def test_truncated_and_oversized_server_hello(lab: Lab, cut: int) -> None:
    def shorter(sender: str, frame: bytes) -> bytes:
        if frame[0] & 15 != wire.SERVER_HELLO:
            return frame
        body = frame[4:-cut]
        return wire.frame_header(wire.SERVER_HELLO, len(body)) + body

    def longer(sender: str, frame: bytes) -> bytes:
        if frame[0] & 15 != wire.SERVER_HELLO:
            return frame
        body = frame[4:] + bytes(cut)
        return wire.frame_header(wire.SERVER_HELLO, len(body)) + body

    for relay in (shorter, longer):
        with pytest.raises(errors.BadLength):
            lab.handshake(tamper=relay)
    assert lab.drone_counters["hs_bad_length"] == 2 and "hs_verifies" not in lab.drone_counters


def test_huge_announcement_is_refused_at_the_header(lab: Lab) -> None:
    gcs = lab.gcs()
    gcs.start()
    with pytest.raises(errors.BadLength):
        gcs.on_header(b"\x12\xff\xff\xff")
    assert lab.gcs_counters["hs_bad_length"] == 1


def test_wrong_version(lab: Lab) -> None:
    gcs = lab.gcs()
    gcs.start()
    with pytest.raises(errors.BadVersion):
        gcs.on_header(b"\x22" + wire.frame_header(wire.HELLO, wire.HELLO_BODY_BYTES)[1:])
    assert lab.gcs_counters["hs_bad_version"] == 1


def test_challenge_of_one_connection_is_worthless_on_another(lab: Lab) -> None:
    drone, first = lab.drone(), lab.gcs(rng=CountingRng(b"first"))
    drone.start()
    hello = b"".join(deliver(drone, b"".join(first.start())))
    second = lab.gcs(rng=CountingRng(b"second"))
    second.start()
    with pytest.raises(errors.BadMac):
        deliver(second, hello)


def test_swapped_kem_key_breaks_the_signature(lab: Lab) -> None:
    def relay(sender: str, frame: bytes) -> bytes:
        return flip(frame, 4 + 3 + 4 + 7) if frame[0] & 15 == wire.SERVER_HELLO else frame

    with pytest.raises(errors.BadSignature):
        lab.handshake(tamper=relay)
    assert lab.drone_counters["hs_bad_signature"] == 1 and "hs_encaps" not in lab.drone_counters


def test_forged_gcs_finished(lab: Lab) -> None:
    def relay(sender: str, frame: bytes) -> bytes:
        return flip(frame, 30) if frame[0] & 15 == wire.GCS_FINISHED else frame

    with pytest.raises(errors.BadFinished):
        lab.handshake(tamper=relay)
    assert lab.drone_counters["hs_bad_finished"] == 1 and "hs_completed" not in lab.drone_counters


def test_forged_packet_with_a_huge_sequence_moves_nothing(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    datagrams = [drone.seal_data(b"payload %d" % number)[0] for number in range(20)]
    for datagram in datagrams[:10]:
        assert gcs.receive(datagram, 1).kind == packet.DATA
    for claimed in (0x7FFF_FFFF, 0xFFFF_FFFF, 0x1000_0000, 11 + 4096):
        forged = datagrams[0][:4] + claimed.to_bytes(4, "big") + datagrams[0][8:]
        assert gcs.receive(forged, 2).reason == "auth_failed"
    assert lab.gcs_counters["auth_failed"] == 4
    for datagram in datagrams[10:]:
        assert gcs.receive(datagram, 3).kind == packet.DATA
    assert lab.gcs_counters["rx_ok"] == 20 and lab.gcs_counters["replay"] == 0


def test_replayed_packets_are_counted_and_not_delivered(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    datagram, _, _ = drone.seal_data(b"once")
    assert gcs.receive(datagram, 1).payload == b"once"
    for number in range(50):
        outcome = gcs.receive(datagram, 2)
        reason = "replay" if number else "duplicate"
        assert (outcome.kind, outcome.reason, outcome.payload) == (0, reason, b"")
    assert lab.gcs_counters["replay"] == 49 and lab.gcs_counters["rx_ok"] == 1


@pytest.mark.parametrize(("after_ns", "reason"), [(1_000_000_000, "duplicate"), (1_001_000_000, "replay")])
def test_a_second_copy_is_a_replay_from_a_second_on(lab: Lab, after_ns: int, reason: str) -> None:
    drone, gcs = lab.sessions()
    datagram, _, _ = drone.seal_data(b"once")
    assert gcs.receive(datagram, 0).payload == b"once"
    assert gcs.receive(datagram, after_ns).reason == reason


def test_second_copies_buy_no_forger_a_friendly_counter(lab: Lab) -> None:
    """Under the header of a packet just seen: refused by the tag as any other forgery, and each one anew."""
    drone, gcs = lab.sessions()
    datagram, _, _ = drone.seal_data(b"once")
    gcs.receive(datagram, 1)
    for number in range(20):
        forged = datagram[:8] + bytes(len(datagram) - 9) + bytes((number,))
        assert gcs.receive(forged, 2).reason == "auth_failed"
    assert lab.gcs_counters["duplicate"] == 0
    assert gcs.receive(datagram, 3).reason == "duplicate"


def test_reflected_packets_do_not_open(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    datagram, _, _ = drone.seal_data(b"to the gcs")
    assert drone.receive(datagram, 1).reason == "unknown_index"
    turned = packet.header(packet.DATA, 0, 0xD0D0D0, 1) + datagram[8:]
    assert drone.receive(turned, 1).reason == "auth_failed"
    assert gcs.receive(datagram, 1).kind == packet.DATA


def test_type_and_epoch_nibbles_are_authenticated(lab: Lab) -> None:
    drone, gcs = lab.sessions()
    datagram, _, _ = drone.seal_data(b"data")
    as_keepalive = bytes((packet.KEEPALIVE << 4 | datagram[0] & 15,)) + datagram[1:]
    assert gcs.receive(as_keepalive, 1).reason == "auth_failed"
    other_epoch = bytes((datagram[0] ^ 1,)) + datagram[1:]
    assert gcs.receive(other_epoch, 1).reason == "bad_header"
    for packet_type in (0, 7, 15):
        unknown = bytes((packet_type << 4,)) + datagram[1:]
        assert gcs.receive(unknown, 1).reason == "bad_header"
    assert gcs.receive(datagram, 1).payload == b"data"
