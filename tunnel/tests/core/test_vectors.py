"""Transcript vectors, made again and checked by a second implementation that knows only docs/PROTOCOL.md.

The reader below shares no code with the package: frame offsets, transcript, key schedule and packets are
written out from the document, over `cryptography`, the pure-Python `ascon`, and an Ascon-AEAD128 written from
SP 800-232.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import ascon_aead128
import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from transcript_vectors import CASES, Case, build

from pqtunnel.primitives import Primitives

LABELS = (
    ("drone key", "drone_key"), ("drone iv", "drone_iv"), ("gcs key", "gcs_key"), ("gcs iv", "gcs_iv"),
    ("rekey", "rekey_secret"), ("exporter", "exporter"), ("session id", "session_id"),
)  # fmt: skip
BYTES = {
    "drone_key_id", "psk", "gcs_signing_public_key", "gcs_key_id", "th1", "th2", "th3", "kem_secret",
    "x25519_secret", "x25519_private_gcs", "x25519_private_drone", "old_session_id", "old_rekey_secret",
    *(name for _, name in LABELS),
}  # fmt: skip
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.path.stem))


def load_vector(case: Case) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(case.path.read_text("utf-8"))
    return vector


def test_the_cases_cover_every_family_and_variant() -> None:
    ids = " ".join(case.suite_id for case in CASES)
    for part in ("mlkem", "hqc", "mceliece", "mldsa", "falcon", "sphincs", "xs-x25519-", "x25519mlkem"):
        assert part in ids, part
    assert {case.variant for case in CASES} == {"", "rekey", "drone-signature"}


@pytest.mark.native
@EVERY_CASE
def test_vector_is_reproduced(native: Primitives, case: Case) -> None:
    made, stored = build(case), load_vector(case)
    if made["liboqs_version"] != stored["liboqs_version"]:
        pytest.skip(f"vector is of liboqs {stored['liboqs_version']}, this is {made['liboqs_version']}")
    assert made == stored


def hmac512(key: bytes, data: bytes) -> bytes:
    mac = hmac.HMAC(key, hashes.SHA512())
    mac.update(data)
    return mac.finalize()


def expand(prk: bytes, label: str, context: bytes, length: int) -> bytes:
    full = b"pqtunnel/1 " + label.encode()
    info = length.to_bytes(2, "big") + bytes([len(full)]) + full + context
    return HKDFExpand(hashes.SHA512(), length, info).derive(prk)


def lp(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def open_packet(
    suite_id: str, key: bytes, iv: bytes, datagram: bytes
) -> tuple[int, int, int, int, bytes | None]:
    """(type, epoch nibble, index, sequence, plaintext)."""
    sequence = int.from_bytes(datagram[4:8], "big")
    nonce = (int.from_bytes(iv, "big") ^ sequence).to_bytes(len(iv), "big")
    aad, sealed = datagram[:8], datagram[8:]
    plaintext: bytes | None
    if "asconaead128" in suite_id:
        plaintext = ascon_aead128.open_(key, nonce, aad, sealed)
    elif "ascon128a" in suite_id:
        ascon = pytest.importorskip("ascon")
        plaintext = ascon.decrypt(key, nonce, aad, sealed, variant="Ascon-128a")
    elif "chacha20poly1305" in suite_id:
        plaintext = ChaCha20Poly1305(key).decrypt(nonce, sealed, aad)
    else:
        plaintext = AESGCM(key).decrypt(nonce, sealed, aad)
    return datagram[0] >> 4, datagram[0] & 15, int.from_bytes(datagram[1:4], "big"), sequence, plaintext


@EVERY_CASE
def test_a_stranger_arrives_at_the_same_keys_and_packets(case: Case) -> None:
    vector, suite_id = load_vector(case), case.suite_id
    value = {name: bytes.fromhex(text) for name, text in vector.items() if name in BYTES}
    frames: dict[str, str] = vector["frames"]
    rekeys, signs = "old_session_id" in vector, "th3" in vector
    challenge, hello, client_kem = (bytes.fromhex(frames[n]) for n in ("challenge", "hello", "client_kem"))
    assert challenge[:4] == b"\x11\x00\x00\x41" and challenge[4] == 1 and hello[:4] == b"\x12\x00\x00\x65"
    assert challenge[37:] == value["gcs_key_id"]
    assert (hello[4], hello[5], hello[9]) == (1, 2 if rekeys else 1, 1 if signs else 0)
    assert hello[10:18] == value["drone_key_id"]
    assert (hello[50:54], hello[54:57]) == (b"\0\0\0\x07", b"\x00\xd2\x07")
    assert hello[57:73] == value.get("old_session_id", bytes(16))
    assert not rekeys or vector["old_epoch"] < 7

    prk0 = hmac512(bytes(64), value["psk"])
    assert hmac512(expand(prk0, "hello mac", b"", 64), challenge + hello[:-32])[:32] == hello[-32:]
    if rekeys:
        proof = hmac512(expand(prk0, "session unknown", b"", 64), challenge + hello)[:32]
        assert bytes.fromhex(frames["session_unknown"]) == b"\x16\x00\x00\x20" + proof
    length = int.from_bytes(client_kem[4:8], "big")
    ciphertext, finished_drone = client_kem[8 : 8 + length], client_kem[8 + length : 40 + length]
    rest = client_kem[40 + length :]
    assert int.from_bytes(client_kem[1:4], "big") == len(client_kem) - 4
    th = value["th2"]
    if signs:
        drone_signature = rest[4:]
        assert rest[:4] == len(drone_signature).to_bytes(4, "big")
        th = hashlib.sha512(th + lp(drone_signature)).digest()
        assert th == value["th3"]
    else:
        assert rest == b""
    assert hmac512(expand(prk0, "drone finished", b"", 64), th)[:32] == finished_drone

    public_key = signature = b""
    if not frames["server_hello"].startswith("sha512:"):
        server_hello = bytes.fromhex(frames["server_hello"])
        body = server_hello[4:]
        assert server_hello[0] == 0x13 and body[:3] == b"\x60\x0c\x57"
        key_end = 7 + int.from_bytes(body[3:7], "big")
        public_key, signature = body[7:key_end], body[key_end + 4 :]
        assert int.from_bytes(body[key_end : key_end + 4], "big") == len(signature)
        th1 = hashlib.sha512(challenge + hello + body[:key_end]).digest()
        assert th1 == value["th1"]
        assert hashlib.sha512(th1 + lp(signature) + lp(ciphertext)).digest() == value["th2"]
        if "-ed25519" in suite_id:
            message = b"pqtunnel/1 ServerHello signature\x00" + th1
            Ed25519PublicKey.from_public_bytes(value["gcs_signing_public_key"]).verify(signature, message)
    if "x25519_private_gcs" in value:
        mine = X25519PrivateKey.from_private_bytes(value["x25519_private_gcs"])
        assert public_key[:32] == mine.public_key().public_bytes_raw()
        shared = mine.exchange(X25519PublicKey.from_public_bytes(ciphertext[:32]))
        assert shared == value["x25519_secret" if "x25519_secret" in value else "kem_secret"]

    secrets = (value["kem_secret"], value.get("x25519_secret", b""), value.get("old_rekey_secret", b""))
    master = hmac512(expand(prk0, "mix", b"", 64), b"".join(lp(secret) for secret in secrets))
    for label, name in LABELS:
        assert expand(master, label, th, len(value[name])) == value[name], name
    finished = hmac512(expand(master, "gcs finished", th, 64), th + finished_drone)[:32]
    assert bytes.fromhex(frames["gcs_finished"]) == b"\x15\x00\x00\x20" + finished

    plaintext = bytes.fromhex(vector["plaintext"])
    packets = {name: bytes.fromhex(value) for name, value in vector["packets"].items()}
    drone = (bytes.fromhex(vector["drone_key"]), bytes.fromhex(vector["drone_iv"]))
    gcs = (bytes.fromhex(vector["gcs_key"]), bytes.fromhex(vector["gcs_iv"]))
    assert open_packet(suite_id, *drone, packets["drone_keepalive_sequence_0"]) == (2, 7, 0x600C57, 0, b"")
    assert open_packet(suite_id, *drone, packets["drone_data_sequence_1"]) == (1, 7, 0x600C57, 1, plaintext)
    assert open_packet(suite_id, *gcs, packets["gcs_data_sequence_0"]) == (1, 7, 0x00D207, 0, plaintext)


def test_gcs_key_id_is_the_hash_the_document_says() -> None:
    vector = load_vector(CASES[0])
    public = bytes.fromhex(vector["gcs_signing_public_key"])
    digest = hashlib.sha512(b"pqtunnel/1 GCS identity\x00" + b"\x02" + lp(public)).digest()
    assert digest[:32].hex() == vector["gcs_key_id"]
