"""Handshake frames: headers and the bodies of every type, against every shape of suite."""

from __future__ import annotations

from collections.abc import Callable

from reader import Reader

from pqtunnel import wire
from pqtunnel.errors import HandshakeError
from pqtunnel.suites import Suite, get
from targets import Target, either, scene

# One of each shape: fixed and variable signatures, small and large keys.
SUITES = [
    get("cs-mlkem512-chacha20poly1305-falcon512"),
    get("cs-mlkem768-aesgcm-mldsa65"),
    get("cs-hqc128-ascon128a-mldsa44"),
    get("cs-mlkem512-aesgcm-sphincs128s"),
]
TYPES = sorted(wire.TYPE_NAMES)
MOST_BYTES = 2 << 20
"""No frame of the registry is longer; a header that gets past the check must not announce more."""


def headers(data: bytes) -> None:
    """check_header: (expected type, suite, alternative) and 0 to 5 header bytes."""
    reader = Reader(data)
    expected = TYPES[reader.u8() % (len(TYPES) - 1)]  # an Alert is never awaited
    choice = reader.u8() % (len(SUITES) + 1)
    # From ServerHello on the machines know the suite; before it they cannot.
    needs = expected in (wire.SERVER_HELLO, wire.CLIENT_KEM)
    suite = SUITES[choice - 1] if choice else SUITES[0] if needs else None
    flags = reader.u8()
    alternative = wire.SESSION_UNKNOWN if flags & 1 and expected == wire.SERVER_HELLO else None
    signs = bool(flags & 2)
    header = reader.take(5)
    try:
        frame_type, length = wire.check_header(header, expected, suite, alternative, drone_signs=signs)
    except HandshakeError:
        return
    least, greatest = wire.body_length_bounds(frame_type, suite, drone_signs=signs)
    assert frame_type in (expected, alternative), "a type that was not awaited"
    assert least <= length <= greatest <= MOST_BYTES, "a length outside the registry's"
    assert wire.frame_header(frame_type, length) == header, "another header means the same"


def _challenge(body: bytes, suite: Suite) -> bytes:
    return wire.parse_challenge(body).encode()[wire.HEADER_BYTES :]


def _hello(body: bytes, suite: Suite) -> bytes:
    hello = wire.parse_hello(body)
    return hello.encode_unauthenticated()[wire.HEADER_BYTES :] + hello.mac


def _server_hello(body: bytes, suite: Suite) -> bytes:
    hello = wire.parse_server_hello(body, suite)
    part = wire.server_hello_signed_part(hello.rx_index, hello.public_key)
    assert part == hello.signed_part, "the signed part is not what its fields encode to"
    assert len(hello.public_key) == suite.kem.public_key_bytes
    return part + wire.prefixed(hello.signature)


def _client_kem(body: bytes, suite: Suite) -> bytes:
    signs = len(body) > wire.body_length_bounds(wire.CLIENT_KEM, suite)[1]
    client = wire.parse_client_kem(body, suite, drone_signs=signs)
    assert len(client.ciphertext) == suite.kem.ciphertext_bytes and signs == bool(client.signature)
    return wire.encode_client_kem(client.ciphertext, client.finished, client.signature)[wire.HEADER_BYTES :]


def _gcs_finished(body: bytes, suite: Suite) -> bytes:
    return wire.encode_gcs_finished(wire.parse_gcs_finished(body))[wire.HEADER_BYTES :]


def _session_unknown(body: bytes, suite: Suite) -> bytes:
    return wire.encode_session_unknown(wire.parse_session_unknown(body))[wire.HEADER_BYTES :]


PARSERS: dict[str, tuple[int, Callable[[bytes, Suite], bytes]]] = {
    "parse_challenge": (wire.CHALLENGE, _challenge),
    "parse_hello": (wire.HELLO, _hello),
    "parse_server_hello": (wire.SERVER_HELLO, _server_hello),
    "parse_client_kem": (wire.CLIENT_KEM, _client_kem),
    "parse_gcs_finished": (wire.GCS_FINISHED, _gcs_finished),
    "parse_session_unknown": (wire.SESSION_UNKNOWN, _session_unknown),
}
"""Every parser of `wire`; a test compares this with the module."""


def bodies(data: bytes) -> None:
    """Each parser: what it takes encodes to the same bytes, what it refuses it refuses by name."""
    reader = Reader(data)
    name = sorted(PARSERS)[reader.u8() % len(PARSERS)]
    frame_type, again = PARSERS[name]
    suite = SUITES[reader.u8() % len(SUITES)]
    # Mostly the right length or nearly, by zeros at the end: what matters of a long body is its front.
    how = reader.u8()
    signs = bool(how & 16)
    most = wire.body_length_bounds(frame_type, suite, drone_signs=signs)[1]
    short = reader.u16() % 1024 if how & 1 else 0
    front = reader.rest()
    if how & 2 and frame_type == wire.SERVER_HELLO:  # lengths that agree, so that the rest is reached
        key = suite.kem.public_key_bytes
        front = front[:3].ljust(3, b"\0") + key.to_bytes(4, "big") + front[3 : 3 + key].ljust(key, b"\0")
        front += (most - short - len(front) - 4).to_bytes(4, "big", signed=True)
    if how & 2 and frame_type == wire.CLIENT_KEM:
        front = suite.kem.ciphertext_bytes.to_bytes(4, "big") + front
        if signs:
            plain = wire.body_length_bounds(wire.CLIENT_KEM, suite)[1]
            front = front.ljust(plain, b"\0")[:plain]
            front += (most - short - plain - 4).to_bytes(4, "big", signed=True)
    body = front if how & 4 else front.ljust(most - short, b"\0")[: most - short + (how >> 3 & 1)]
    try:
        encoded = again(body, suite)
    except HandshakeError:
        return
    assert encoded == body, f"{name}: parse then encode gives other bytes"


_HEADER_SEEDS = {
    f"seed-{wire.TYPE_NAMES[kind].lower()}": bytes((TYPES.index(kind), 2, 1))
    + wire.frame_header(kind, wire.body_length_bounds(kind, SUITES[1])[1])
    for kind in TYPES[:-1]
} | {"seed-alert": bytes((2, 2, 0)) + wire.ALERT_FRAME, "seed-giant": bytes((1, 0, 0)) + b"\x12\xff\xff\xff"}


def _header_seeds() -> dict[str, bytes]:
    return dict(_HEADER_SEEDS)


def _body_seeds() -> dict[str, bytes]:
    names = sorted(PARSERS)
    plain = {f"seed-{name}": bytes((names.index(name), 1, 2, 0, 0, 1)) for name in names}
    return plain | {"seed-drone-signs": bytes((names.index("parse_client_kem"), 1, 2 | 16, 0, 0, 1))}


TARGETS = {
    "wire": Target(
        "handshake frames: headers and the bodies of every type",
        either(headers, bodies),
        lambda: scene(0, _header_seeds()) | scene(1, _body_seeds()),
        ("tunnel/src/pqtunnel/wire.py",),
        words=[b"\0\0\x04\xa0", b"\0\0\x04\x40", b"\0\0\x0c\xed"],
    ),
}
