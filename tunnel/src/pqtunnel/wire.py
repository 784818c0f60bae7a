"""Wire format of the handshake: frames over TCP, fields with lengths that the registry fixes.

A frame is a 4-byte header, (version << 4 | type) and a 24-bit body length, then the body. What lengths a
body may have follows from the state of the handshake and the suite, so `check_header` refuses a frame
before one byte of its body is stored. `parse_*` then check the inner lengths against the same registry.

In scope: bytes to fields and back. Not in scope: what a field must contain (`handshake`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from pqtunnel.errors import BadLength, BadVersion, PeerAlert
from pqtunnel.suites import Suite

VERSION: Final = 1
HEADER_BYTES: Final = 4

CHALLENGE: Final = 1
HELLO: Final = 2
SERVER_HELLO: Final = 3
CLIENT_KEM: Final = 4
GCS_FINISHED: Final = 5
SESSION_UNKNOWN: Final = 6
ALERT: Final = 15

TYPE_NAMES: Final = {
    CHALLENGE: "Challenge",
    HELLO: "Hello",
    SERVER_HELLO: "ServerHello",
    CLIENT_KEM: "ClientKem",
    GCS_FINISHED: "FinishedGcs",
    SESSION_UNKNOWN: "SessionUnknown",
    ALERT: "Alert",
}

NONCE_BYTES: Final = 32
MAC_BYTES: Final = 32
"""HMAC-SHA-512 truncated to 256 bits."""
PSK_BYTES: Final = 32
SESSION_ID_BYTES: Final = 16
SECRET_BYTES: Final = 32
"""Of a rekey secret and of an exporter."""
GCS_ID_BYTES: Final = 32
DRONE_ID_BYTES: Final = 8
SUITE_CODE_BYTES: Final = 3
INDEX_BYTES: Final = 3
PURPOSE_NEW: Final = 1
PURPOSE_REKEY: Final = 2
FLAG_DRONE_SIGNS: Final = 1
"""Hello flag: the drone authenticates by a signature too, at the end of its ClientKem."""

CHALLENGE_BODY_BYTES: Final = 1 + NONCE_BYTES + GCS_ID_BYTES
_HELLO: Final = struct.Struct(
    f">BB{SUITE_CODE_BYTES}sB{DRONE_ID_BYTES}s{NONCE_BYTES}sI{INDEX_BYTES}s{SESSION_ID_BYTES}s"
)
HELLO_BODY_BYTES: Final = _HELLO.size + MAC_BYTES
GCS_FINISHED_BODY_BYTES: Final = MAC_BYTES
SESSION_UNKNOWN_BODY_BYTES: Final = MAC_BYTES
_PK_LENGTH_BYTES: Final = 4
_CT_LENGTH_BYTES: Final = 4
_SIG_LENGTH_BYTES: Final = 4


def frame_header(frame_type: int, body_length: int) -> bytes:
    """The 4 header bytes of a frame."""
    return bytes((VERSION << 4 | frame_type,)) + body_length.to_bytes(3, "big")


ALERT_FRAME: Final = frame_header(ALERT, 0)
"""The one alert there is: no reason, no body."""


def body_length_bounds(frame_type: int, suite: Suite | None, *, drone_signs: bool = False) -> tuple[int, int]:
    """(least, greatest) body length in bytes of a frame; `suite` is needed from ServerHello on, and
    `drone_signs` tells whether ClientKem ends with a signature.

    The two differ only where a signature has a variable length. Raises ValueError for an unknown type.
    """
    if frame_type == CHALLENGE:
        return CHALLENGE_BODY_BYTES, CHALLENGE_BODY_BYTES
    if frame_type == HELLO:
        return HELLO_BODY_BYTES, HELLO_BODY_BYTES
    if frame_type == GCS_FINISHED:
        return GCS_FINISHED_BODY_BYTES, GCS_FINISHED_BODY_BYTES
    if frame_type == SESSION_UNKNOWN:
        return SESSION_UNKNOWN_BODY_BYTES, SESSION_UNKNOWN_BODY_BYTES
    if suite is not None and frame_type == SERVER_HELLO:
        fixed = INDEX_BYTES + _PK_LENGTH_BYTES + suite.kem.public_key_bytes
        least, greatest = _signature_bounds(suite)
        return fixed + least, fixed + greatest
    if suite is not None and frame_type == CLIENT_KEM:
        fixed = _CT_LENGTH_BYTES + suite.kem.ciphertext_bytes + MAC_BYTES
        least, greatest = _signature_bounds(suite) if drone_signs else (0, 0)
        return fixed + least, fixed + greatest
    raise ValueError(f"no length for frame type {frame_type} at this point")


def _signature_bounds(suite: Suite) -> tuple[int, int]:
    """(least, greatest) length of LP(signature)."""
    least = 1 if suite.sig.variable_length else suite.sig.signature_bytes
    return _SIG_LENGTH_BYTES + least, _SIG_LENGTH_BYTES + suite.sig.signature_bytes


def max_frame_length(frame_type: int, suite: Suite | None) -> int:
    """Greatest length of a whole frame, header included, in bytes."""
    return HEADER_BYTES + body_length_bounds(frame_type, suite)[1]


def check_header(
    header: bytes,
    expected_type: int,
    suite: Suite | None,
    alternative: int | None = None,
    *,
    drone_signs: bool = False,
) -> tuple[int, int]:
    """(type, body length) that a frame header announces, once it is one that may come now: `expected_type`,
    or `alternative` where this point of the handshake has one. `drone_signs` as in `body_length_bounds`.

    Raises BadLength (wrong type, length outside the registry's, short header), BadVersion, PeerAlert.
    """
    if len(header) != HEADER_BYTES:
        raise BadLength(f"frame header has {len(header)} bytes, not {HEADER_BYTES}")
    version, frame_type = header[0] >> 4, header[0] & 0xF
    length = int.from_bytes(header[1:4], "big")
    if version != VERSION:
        raise BadVersion(f"the peer speaks version {version}, this end {VERSION}")
    if frame_type == ALERT and length == 0:
        raise PeerAlert(f"the peer refused the handshake while {TYPE_NAMES[expected_type]} was awaited")
    if frame_type not in (expected_type, alternative):
        found = TYPE_NAMES.get(frame_type, f"type {frame_type}")
        raise BadLength(f"{TYPE_NAMES[expected_type]} was awaited, {found} came")
    least, greatest = body_length_bounds(frame_type, suite, drone_signs=drone_signs)
    if not least <= length <= greatest:
        allowed = str(least) if least == greatest else f"{least} to {greatest}"
        raise BadLength(f"{TYPE_NAMES[frame_type]} announces {length} bytes, the registry says {allowed}")
    return frame_type, length


@dataclass(frozen=True, slots=True)
class Challenge:
    """GCS → drone, first and cheap."""

    version: int
    nonce: bytes
    gcs_id: bytes

    def encode(self) -> bytes:
        """The whole frame."""
        return (
            frame_header(CHALLENGE, CHALLENGE_BODY_BYTES) + bytes((self.version,)) + self.nonce + self.gcs_id
        )


@dataclass(frozen=True, slots=True)
class Hello:
    """Drone → GCS. `flags` holds FLAG_DRONE_SIGNS or nothing; `old_session` is all zero unless the purpose is
    rekey."""

    version: int
    purpose: int
    suite_code: bytes
    flags: int
    drone_id: bytes
    nonce: bytes
    epoch: int
    rx_index: int
    old_session: bytes
    mac: bytes

    def encode_unauthenticated(self) -> bytes:
        """The frame without its MAC: what the MAC covers after the Challenge."""
        return frame_header(HELLO, HELLO_BODY_BYTES) + _HELLO.pack(
            self.version,
            self.purpose,
            self.suite_code,
            self.flags,
            self.drone_id,
            self.nonce,
            self.epoch,
            self.rx_index.to_bytes(INDEX_BYTES, "big"),
            self.old_session,
        )


@dataclass(frozen=True, slots=True)
class ServerHello:
    """GCS → drone. `signed_part` is the body up to and including the public key."""

    signed_part: bytes
    rx_index: int
    public_key: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class ClientKem:
    """Drone → GCS: ciphertext, FinishedDrone and, where the drone signs, its signature in one frame."""

    ciphertext: bytes
    finished: bytes
    signature: bytes = b""


def parse_challenge(body: bytes) -> Challenge:
    """Raises BadLength, BadVersion."""
    if len(body) != CHALLENGE_BODY_BYTES:
        raise BadLength(f"Challenge has {len(body)} bytes, not {CHALLENGE_BODY_BYTES}")
    _check_version(body[0])
    return Challenge(body[0], body[1 : 1 + NONCE_BYTES], body[1 + NONCE_BYTES :])


def parse_hello(body: bytes) -> Hello:
    """Raises BadLength, BadVersion. The MAC is not checked here."""
    if len(body) != HELLO_BODY_BYTES:
        raise BadLength(f"Hello has {len(body)} bytes, not {HELLO_BODY_BYTES}")
    _check_version(body[0])
    version, purpose, code, flags, drone_id, nonce, epoch, index, old = _HELLO.unpack_from(body)
    return Hello(
        version,
        purpose,
        code,
        flags,
        drone_id,
        nonce,
        epoch,
        int.from_bytes(index, "big"),
        old,
        body[_HELLO.size :],
    )


def server_hello_signed_part(rx_index: int, public_key: bytes) -> bytes:
    """ServerHello's body up to the signature: index, key length, key."""
    return rx_index.to_bytes(INDEX_BYTES, "big") + _u32(len(public_key)) + public_key


def server_hello_header(signed_part: bytes, signature: bytes) -> bytes:
    """Frame header of a ServerHello; the frame is header ‖ signed part ‖ u32 length ‖ signature."""
    return frame_header(SERVER_HELLO, len(signed_part) + _SIG_LENGTH_BYTES + len(signature))


def parse_server_hello(body: bytes, suite: Suite) -> ServerHello:
    """Raises BadLength when a field's length is not the registry's (Falcon signatures: at most)."""
    least, greatest = body_length_bounds(SERVER_HELLO, suite)
    if not least <= len(body) <= greatest:
        raise BadLength(f"ServerHello has {len(body)} bytes, the registry says {least} to {greatest}")
    key_start = INDEX_BYTES + _PK_LENGTH_BYTES
    key_end = key_start + suite.kem.public_key_bytes
    signature_start = key_end + _SIG_LENGTH_BYTES
    key_length = int.from_bytes(body[INDEX_BYTES:key_start], "big")
    if key_length != suite.kem.public_key_bytes:
        raise BadLength(
            f"KEM public key of {key_length} bytes, {suite.kem.name} has {suite.kem.public_key_bytes}"
        )
    signature_length = int.from_bytes(body[key_end:signature_start], "big")
    if signature_length != len(body) - signature_start:
        raise BadLength(f"signature says {signature_length} bytes, {len(body) - signature_start} follow")
    return ServerHello(
        signed_part=body[:key_end],
        rx_index=int.from_bytes(body[:INDEX_BYTES], "big"),
        public_key=body[key_start:key_end],
        signature=body[signature_start:],
    )


def encode_client_kem(ciphertext: bytes, finished: bytes, signature: bytes = b"") -> bytes:
    """The whole frame; without a signature it ends with FinishedDrone."""
    body = prefixed(ciphertext) + finished + (prefixed(signature) if signature else b"")
    return frame_header(CLIENT_KEM, len(body)) + body


def parse_client_kem(body: bytes, suite: Suite, *, drone_signs: bool = False) -> ClientKem:
    """Raises BadLength when a field's length is not the registry's (Falcon signatures: at most)."""
    least, greatest = body_length_bounds(CLIENT_KEM, suite, drone_signs=drone_signs)
    if not least <= len(body) <= greatest:
        raise BadLength(f"ClientKem has {len(body)} bytes, the registry says {least} to {greatest}")
    length = int.from_bytes(body[:_CT_LENGTH_BYTES], "big")
    if length != suite.kem.ciphertext_bytes:
        raise BadLength(f"ciphertext of {length} bytes, {suite.kem.name} has {suite.kem.ciphertext_bytes}")
    end = _CT_LENGTH_BYTES + length
    finished = body[end : end + MAC_BYTES]
    if not drone_signs:
        return ClientKem(body[_CT_LENGTH_BYTES:end], finished)
    start = end + MAC_BYTES + _SIG_LENGTH_BYTES
    told = int.from_bytes(body[end + MAC_BYTES : start], "big")
    if told != len(body) - start:
        raise BadLength(f"signature says {told} bytes, {len(body) - start} follow")
    return ClientKem(body[_CT_LENGTH_BYTES:end], finished, body[start:])


def parse_gcs_finished(body: bytes) -> bytes:
    """The MAC. Raises BadLength."""
    if len(body) != GCS_FINISHED_BODY_BYTES:
        raise BadLength(f"FinishedGcs has {len(body)} bytes, not {GCS_FINISHED_BODY_BYTES}")
    return body


def encode_gcs_finished(finished: bytes) -> bytes:
    """The whole frame."""
    return frame_header(GCS_FINISHED, len(finished)) + finished


def parse_session_unknown(body: bytes) -> bytes:
    """The MAC. Raises BadLength."""
    if len(body) != SESSION_UNKNOWN_BODY_BYTES:
        raise BadLength(f"SessionUnknown has {len(body)} bytes, not {SESSION_UNKNOWN_BODY_BYTES}")
    return body


def encode_session_unknown(mac: bytes) -> bytes:
    """The whole frame."""
    return frame_header(SESSION_UNKNOWN, len(mac)) + mac


def prefixed(value: bytes) -> bytes:
    """LP(value): 32-bit big-endian length, then the bytes; the form fields take in frames and transcripts."""
    return _u32(len(value)) + value


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _check_version(version: int) -> None:
    if version != VERSION:
        raise BadVersion(f"the peer speaks version {version}, this end {VERSION}")
