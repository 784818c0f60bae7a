"""Transcript vectors, made again and checked by a second implementation that knows only docs/PROTOCOL.md.

`Stranger` below shares no code with the package: frame offsets, transcript, key schedule and packets are
written out from the document, over `cryptography` and the pure-Python `ascon`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from transcript_vectors import SUITE_IDS, build, path_of

from pqtunnel.primitives import Primitives

LABELS = (
    ("drone key", "drone_key"), ("drone iv", "drone_iv"), ("gcs key", "gcs_key"), ("gcs iv", "gcs_iv"),
    ("rekey", "rekey_secret"), ("exporter", "exporter"), ("session id", "session_id"),
)  # fmt: skip


def load_vector(suite_id: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(path_of(suite_id).read_text("utf-8"))
    return vector


@pytest.mark.native
@pytest.mark.parametrize("suite_id", SUITE_IDS)
def test_vector_is_reproduced(native: Primitives, suite_id: str) -> None:
    made, stored = build(suite_id), load_vector(suite_id)
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
    if "ascon128a" in suite_id:
        ascon = pytest.importorskip("ascon")
        plaintext = ascon.decrypt(key, nonce, aad, sealed, variant="Ascon-128a")
    elif "chacha20poly1305" in suite_id:
        plaintext = ChaCha20Poly1305(key).decrypt(nonce, sealed, aad)
    else:
        plaintext = AESGCM(key).decrypt(nonce, sealed, aad)
    return datagram[0] >> 4, datagram[0] & 15, int.from_bytes(datagram[1:4], "big"), sequence, plaintext


@pytest.mark.parametrize("suite_id", SUITE_IDS)
def test_a_stranger_arrives_at_the_same_keys_and_packets(suite_id: str) -> None:
    vector = load_vector(suite_id)
    frames: dict[str, str] = vector["frames"]
    psk, th2 = bytes.fromhex(vector["psk"]), bytes.fromhex(vector["th2"])
    challenge, hello = bytes.fromhex(frames["challenge"]), bytes.fromhex(frames["hello"])
    client_kem = bytes.fromhex(frames["client_kem"])
    assert challenge[:4] == b"\x11\x00\x00\x41" and challenge[4] == 1 and hello[:4] == b"\x12\x00\x00\x65"
    assert challenge[37:] == bytes.fromhex(vector["gcs_key_id"])
    assert hello[4:6] == b"\x01\x01" and hello[9] == 0
    assert hello[10:18] == bytes.fromhex(vector["drone_key_id"])
    assert (hello[50:54], hello[54:57], hello[57:73]) == (b"\0\0\0\x07", b"\x00\xd2\x07", bytes(16))

    prk0 = hmac512(bytes(64), psk)
    assert hmac512(expand(prk0, "hello mac", b"", 64), challenge + hello[:-32])[:32] == hello[-32:]
    ciphertext, finished_drone = client_kem[8:-32], client_kem[-32:]
    assert client_kem[4:8] == len(ciphertext).to_bytes(4, "big")
    assert hmac512(expand(prk0, "drone finished", b"", 64), th2)[:32] == finished_drone

    if not frames["server_hello"].startswith("sha512:"):
        server_hello = bytes.fromhex(frames["server_hello"])
        body = server_hello[4:]
        assert server_hello[0] == 0x13 and body[:3] == b"\x60\x0c\x57"
        key_end = 7 + int.from_bytes(body[3:7], "big")
        signature = body[key_end + 4 :]
        assert int.from_bytes(body[key_end : key_end + 4], "big") == len(signature)
        th1 = hashlib.sha512(challenge + hello + body[:key_end]).digest()
        assert th1.hex() == vector["th1"]
        assert hashlib.sha512(th1 + lp(signature) + lp(ciphertext)).digest() == th2

    kem_secret = bytes.fromhex(vector["kem_secret"])
    master = hmac512(expand(prk0, "mix", b"", 64), lp(kem_secret) + lp(b"") + lp(b""))
    for label, name in LABELS:
        assert expand(master, label, th2, len(vector[name]) // 2).hex() == vector[name], name
    finished = hmac512(expand(master, "gcs finished", th2, 64), th2 + finished_drone)[:32]
    assert bytes.fromhex(frames["gcs_finished"]) == b"\x15\x00\x00\x20" + finished

    plaintext = bytes.fromhex(vector["plaintext"])
    packets = {name: bytes.fromhex(value) for name, value in vector["packets"].items()}
    drone = (bytes.fromhex(vector["drone_key"]), bytes.fromhex(vector["drone_iv"]))
    gcs = (bytes.fromhex(vector["gcs_key"]), bytes.fromhex(vector["gcs_iv"]))
    assert open_packet(suite_id, *drone, packets["drone_keepalive_sequence_0"]) == (2, 7, 0x600C57, 0, b"")
    assert open_packet(suite_id, *drone, packets["drone_data_sequence_1"]) == (1, 7, 0x600C57, 1, plaintext)
    assert open_packet(suite_id, *gcs, packets["gcs_data_sequence_0"]) == (1, 7, 0x00D207, 0, plaintext)


def test_gcs_key_id_is_the_hash_the_document_says() -> None:
    vector = load_vector(SUITE_IDS[0])
    public = bytes.fromhex(vector["gcs_signing_public_key"])
    digest = hashlib.sha512(b"pqtunnel/1 GCS identity\x00" + b"\x02" + lp(public)).digest()
    assert digest[:32].hex() == vector["gcs_key_id"]
