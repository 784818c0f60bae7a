"""Known answers of hash, MAC, key schedule and AEADs."""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
from importlib import resources
from types import ModuleType
from typing import Final

from pqtunnel import packet
from pqtunnel.errors import ProviderMissing, SelfTestFailed
from pqtunnel.handshake.established import Established, Role, TrafficKeys
from pqtunnel.primitives.interfaces import Primitives
from pqtunnel.suites import ALL, Suite

_SHA512_ABC: Final = (
    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
)
"""SHA-512("abc"), FIPS 180-4 examples."""
_HMAC_JEFE: Final = (
    "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
    "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
)
"""RFC 4231 §4.3, test case 2."""


def _require(found: str, expected: str, what: str) -> None:
    if found != expected:
        raise SelfTestFailed(f"{what}: {found[:16]}… instead of {expected[:16]}…")


def check_sha512() -> str:
    """Raises SelfTestFailed."""
    _require(hashlib.sha512(b"abc").hexdigest(), _SHA512_ABC, "SHA-512")
    return "FIPS 180-4 example"


def check_hmac() -> str:
    """Raises SelfTestFailed."""
    found = hmac.digest(b"Jefe", b"what do ya want for nothing?", "sha512").hex()
    _require(found, _HMAC_JEFE, "HMAC-SHA-512")
    return "RFC 4231 test case 2"


@functools.cache
def _read(name: str) -> list[dict[str, str]]:
    text = resources.files("pqtunnel").joinpath("vectors", name).read_text("utf-8")
    vectors: list[dict[str, str]] = json.loads(text)
    return vectors


def _core() -> ModuleType:
    try:
        import pq_core
    except ImportError as error:
        raise ProviderMissing(f"the tunnel's wheel pq_core: {error}") from error
    return pq_core


def check_key_schedule() -> str:
    """This project's own vectors (docs/PROTOCOL.md), by the tunnel's own key schedule. Raises
    SelfTestFailed, and ProviderMissing where its wheel is not installed."""
    core = _core()
    vectors = _read("keyschedule.json")
    for vector in vectors:
        secrets = core.derive_epoch(
            bytes.fromhex(vector["psk"]),
            bytes.fromhex(vector["kem_secret"]),
            bytes.fromhex(vector["th2"]),
            int(vector["key_bytes"]),
            int(vector["iv_bytes"]),
        )
        for name, value in secrets.items():
            _require(value.hex(), vector[name], f"key schedule, {name}")
    return f"{len(vectors)} vectors"


def check_aead(primitives: Primitives, token: str) -> str:
    """Seal, open, and refusal of a changed tag. Raises SelfTestFailed."""
    provider = primitives.aead(token)
    vectors = [vector for vector in _read("aead.json") if vector["aead"] == token]
    for vector in vectors:
        key = provider.new(bytes.fromhex(vector["key"]))
        nonce, aad = bytes.fromhex(vector["nonce"]), bytes.fromhex(vector["aad"])
        plaintext, sealed = bytes.fromhex(vector["plaintext"]), bytes.fromhex(vector["sealed"])
        _require(key.seal(nonce, plaintext, aad).hex(), sealed.hex(), vector["name"])
        _require(key.open(nonce, sealed, aad).hex(), plaintext.hex(), vector["name"])
        try:
            key.open(nonce, sealed[:-1] + bytes((sealed[-1] ^ 1,)), aad)
        except key.invalid_tag:
            continue
        raise SelfTestFailed(f"{vector['name']}: a changed tag was accepted")
    return ", ".join(vector["name"] for vector in vectors)


def check_core(primitives: Primitives, token: str) -> str:
    """Packets of the tunnel against the AEAD that has just given its known answers, and refusal of a changed
    tag. Raises SelfTestFailed, and ProviderMissing where the tunnel's wheel is not installed."""
    core = _core()
    suite = next(suite for suite in ALL.values() if suite.aead.token == token)
    key, iv = bytes(range(suite.aead.key_bytes)), bytes(range(100, 100 + suite.aead.nonce_bytes))
    drone, gcs = core.Session("drone"), core.Session("gcs")
    other = bytes(suite.aead.key_bytes)
    drone.install(_epoch("drone", suite, TrafficKeys(key, iv, other, iv)), 0)
    gcs.install(_epoch("gcs", suite, TrafficKeys(other, iv, key, iv)), 0)
    aead = primitives.aead(token).new(key)
    lengths = (0, 1, 17, 64, 280, 1200)
    for sequence, length in enumerate(lengths):
        plaintext = bytes(n * 7 & 0xFF for n in range(length))
        header = packet.header(packet.DATA, 7, 5, sequence)
        expected = header + aead.seal(packet.nonce(iv, sequence), plaintext, header)
        sealed, _, _ = drone.seal_data(plaintext)
        _require(sealed.hex(), expected.hex(), f"native {token}, {length} bytes")
        if gcs.receive(sealed[:-1] + bytes((sealed[-1] ^ 1,)), 0).kind != 0:
            raise SelfTestFailed(f"native {token}: a changed tag was accepted")
        _require(gcs.receive(sealed, 0).payload.hex(), plaintext.hex(), f"native {token}, opened")
    return f"{len(lengths)} packets equal those of the library above"


def _epoch(role: Role, suite: Suite, keys: TrafficKeys) -> Established:
    return Established(
        role=role,
        suite=suite,
        epoch=7,
        session_id=bytes(16),
        peer_key_id=bytes(8),
        handshake_id="00" * 8,
        rx_index=5,
        tx_index=5,
        keys=keys,
        rekey_secret=bytes(32),
        exporter=bytes(32),
    )
