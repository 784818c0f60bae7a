"""Handshake frames: round trips, and refusal of every length the registry does not allow."""

from __future__ import annotations

import pytest
from core_kit import FALCON, MLKEM, stream
from hypothesis import given
from hypothesis import strategies as st

from pqtunnel import wire
from pqtunnel.errors import BadLength, BadVersion, HandshakeError, PeerAlert
from pqtunnel.suites import SUITES, Suite

TYPES = [
    wire.CHALLENGE, wire.HELLO, wire.SERVER_HELLO, wire.CLIENT_KEM, wire.GCS_FINISHED, wire.SESSION_UNKNOWN,
]  # fmt: skip
ALL_SUITES = st.sampled_from(list(SUITES.values()))


def server_hello(suite: Suite, signature_bytes: int) -> bytes:
    part = wire.server_hello_signed_part(0xABCDEF, stream(b"pk", suite.kem.public_key_bytes))
    signature = stream(b"sig", signature_bytes)
    return wire.server_hello_header(part, signature) + part + wire.prefixed(signature)


@given(ALL_SUITES)
def test_server_hello_round_trip_and_announced_length(suite: Suite) -> None:
    frame = server_hello(suite, suite.sig.signature_bytes)
    assert wire.check_header(frame[:4], wire.SERVER_HELLO, suite) == (wire.SERVER_HELLO, len(frame) - 4)
    assert len(frame) - 4 <= wire.max_frame_length(wire.SERVER_HELLO, suite) - 4
    parsed = wire.parse_server_hello(frame[4:], suite)
    assert parsed.rx_index == 0xABCDEF
    assert parsed.public_key == stream(b"pk", suite.kem.public_key_bytes)
    assert parsed.signature == stream(b"sig", suite.sig.signature_bytes)
    assert frame[4:].startswith(parsed.signed_part)


@given(st.sampled_from(TYPES), ALL_SUITES, st.integers(0, 2**24 - 1))
def test_header_admits_only_the_registrys_lengths(frame_type: int, suite: Suite, length: int) -> None:
    least, greatest = wire.body_length_bounds(frame_type, suite)
    header = wire.frame_header(frame_type, length)
    if least <= length <= greatest:
        assert wire.check_header(header, frame_type, suite) == (frame_type, length)
    else:
        with pytest.raises(BadLength):
            wire.check_header(header, frame_type, suite)


def test_only_variable_signatures_have_a_range() -> None:
    for suite in SUITES.values():
        least, greatest = wire.body_length_bounds(wire.SERVER_HELLO, suite)
        assert (least < greatest) == suite.sig.variable_length


def test_falcon_signature_shorter_is_fine_longer_is_not() -> None:
    limit = FALCON.sig.signature_bytes
    frame = server_hello(FALCON, limit - 100)
    assert wire.check_header(frame[:4], wire.SERVER_HELLO, FALCON) == (wire.SERVER_HELLO, len(frame) - 4)
    assert len(wire.parse_server_hello(frame[4:], FALCON).signature) == limit - 100
    with pytest.raises(BadLength):
        wire.check_header(server_hello(FALCON, limit + 1)[:4], wire.SERVER_HELLO, FALCON)
    with pytest.raises(BadLength):
        wire.parse_server_hello(server_hello(FALCON, limit + 1)[4:], FALCON)


@pytest.mark.parametrize("offset", [3, 4, 5, 6])
def test_inner_key_length_must_be_the_registrys(offset: int) -> None:
    body = bytearray(server_hello(MLKEM, MLKEM.sig.signature_bytes)[4:])
    body[offset] ^= 0x40
    with pytest.raises(BadLength):
        wire.parse_server_hello(bytes(body), MLKEM)


def test_inner_signature_length_must_be_what_follows() -> None:
    body = bytearray(server_hello(FALCON, 600)[4:])
    start = 3 + 4 + FALCON.kem.public_key_bytes
    body[start : start + 4] = (599).to_bytes(4, "big")
    with pytest.raises(BadLength):
        wire.parse_server_hello(bytes(body), FALCON)


def test_inner_ciphertext_length_must_be_the_registrys() -> None:
    frame = wire.encode_client_kem(stream(b"ct", MLKEM.kem.ciphertext_bytes), bytes(32))
    assert wire.parse_client_kem(frame[4:], MLKEM).ciphertext == stream(b"ct", MLKEM.kem.ciphertext_bytes)
    body = bytearray(frame[4:])
    body[3] ^= 1
    with pytest.raises(BadLength):
        wire.parse_client_kem(bytes(body), MLKEM)


@given(
    purpose=st.integers(0, 255),
    flags=st.integers(0, 255),
    epoch=st.integers(0, 2**32 - 1),
    index=st.integers(0, 2**24 - 1),
    seed=st.binary(min_size=1, max_size=8),
)
def test_hello_round_trip(purpose: int, flags: int, epoch: int, index: int, seed: bytes) -> None:
    hello = wire.Hello(
        1,
        purpose,
        stream(seed + b"s", 3),
        flags,
        stream(seed + b"d", 8),
        stream(seed + b"n", 32),
        epoch,
        index,
        stream(seed + b"o", 16),
        stream(seed + b"m", 32),
    )
    frame = hello.encode_unauthenticated() + hello.mac
    assert wire.check_header(frame[:4], wire.HELLO, None) == (wire.HELLO, len(frame) - 4)
    assert len(frame) - 4 == wire.HELLO_BODY_BYTES
    assert wire.parse_hello(frame[4:]) == hello


def test_challenge_round_trip() -> None:
    challenge = wire.Challenge(1, stream(b"n", 32), stream(b"id", 32))
    assert wire.parse_challenge(challenge.encode()[4:]) == challenge


def test_another_version_is_told_apart_in_header_and_body() -> None:
    frame = bytearray(wire.Challenge(1, bytes(32), bytes(32)).encode())
    with pytest.raises(BadVersion):
        wire.check_header(bytes((0x21,)) + bytes(frame[1:4]), wire.CHALLENGE, None)
    frame[4] = 2
    with pytest.raises(BadVersion):
        wire.parse_challenge(bytes(frame[4:]))


def test_alert_is_known_in_every_state_and_carries_nothing() -> None:
    assert wire.ALERT_FRAME == b"\x1f\x00\x00\x00"
    for frame_type in TYPES:
        with pytest.raises(PeerAlert):
            wire.check_header(wire.ALERT_FRAME, frame_type, MLKEM)
    with pytest.raises(BadLength):
        wire.check_header(b"\x1f\x00\x00\x01", wire.HELLO, None)


@given(st.binary(max_size=8), st.sampled_from(TYPES), ALL_SUITES)
def test_random_headers_never_crash(header: bytes, awaited: int, suite: Suite) -> None:
    try:
        found, length = wire.check_header(header, awaited, suite)
    except HandshakeError:
        return
    least, greatest = wire.body_length_bounds(awaited, suite)
    assert found == awaited and least <= length <= greatest


@given(st.binary(max_size=400))
def test_random_bodies_never_crash(body: bytes) -> None:
    for parse in (
        wire.parse_challenge,
        wire.parse_hello,
        wire.parse_gcs_finished,
        wire.parse_session_unknown,
        lambda raw: wire.parse_server_hello(raw, FALCON),
        lambda raw: wire.parse_client_kem(raw, MLKEM),
    ):
        try:
            parse(body)
        except HandshakeError as error:
            assert error.counter in ("hs_bad_length", "hs_bad_version")


@given(st.binary(min_size=800 + 11 + 600, max_size=800 + 11 + 752))
def test_random_bodies_of_a_plausible_length_never_crash(body: bytes) -> None:
    try:
        parsed = wire.parse_server_hello(body, FALCON)
    except BadLength:
        return
    assert len(parsed.public_key) == FALCON.kem.public_key_bytes


def test_an_alternative_is_admitted_beside_the_awaited_type_and_nothing_else() -> None:
    frame = wire.encode_session_unknown(bytes(32))
    with pytest.raises(BadLength):
        wire.check_header(frame[:4], wire.SERVER_HELLO, MLKEM)
    admitted = wire.check_header(frame[:4], wire.SERVER_HELLO, MLKEM, wire.SESSION_UNKNOWN)
    assert admitted == (wire.SESSION_UNKNOWN, 32) and frame[:4] == b"\x16\x00\x00\x20"
    with pytest.raises(BadLength):
        wire.check_header(
            wire.frame_header(wire.SESSION_UNKNOWN, 31), wire.SERVER_HELLO, MLKEM, wire.SESSION_UNKNOWN
        )
    with pytest.raises(BadLength):
        wire.check_header(
            wire.frame_header(wire.GCS_FINISHED, 32), wire.SERVER_HELLO, MLKEM, wire.SESSION_UNKNOWN
        )


def test_lengths_need_a_suite_from_server_hello_on() -> None:
    with pytest.raises(ValueError, match="no length"):
        wire.body_length_bounds(wire.SERVER_HELLO, None)
    with pytest.raises(ValueError, match="no length"):
        wire.body_length_bounds(9, MLKEM)
