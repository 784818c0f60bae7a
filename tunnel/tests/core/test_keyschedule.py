"""Key schedule against an independent HKDF, against its stored vectors, and separation of its outputs."""

from __future__ import annotations

import contextlib
import json
from importlib import resources

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from hypothesis import given
from hypothesis import strategies as st

from pqspec import keyschedule
from pqspec.keyschedule import PskKeys, derive_epoch, expand, extract, mac, mac_equal

BYTES32 = st.binary(min_size=32, max_size=32)


@given(salt=st.binary(max_size=80), key=st.binary(min_size=1, max_size=80), context=st.binary(max_size=80))
def test_extract_then_expand_is_hkdf(salt: bytes, key: bytes, context: bytes) -> None:
    label = "some label"
    full = b"pqtunnel/1 " + label.encode()
    info = (48).to_bytes(2, "big") + bytes((len(full),)) + full + context
    expected = HKDF(hashes.SHA512(), 48, salt, info).derive(key)
    assert expand(extract(salt, key), label, context, 48) == expected


def test_expand_refuses_more_than_a_block() -> None:
    for length in (0, 65):
        with pytest.raises(ValueError, match="1 to 64"):
            expand(bytes(64), "x", b"", length)


def test_stored_vectors_by_an_independent_route() -> None:
    def hkdf_expand(prk: bytes, label: str, context: bytes, length: int) -> bytes:
        full = b"pqtunnel/1 " + label.encode()
        info = length.to_bytes(2, "big") + bytes((len(full),)) + full + context
        return HKDFExpand(hashes.SHA512(), length, info).derive(prk)

    text = resources.files("pqtunnel").joinpath("vectors", "keyschedule.json").read_text("utf-8")
    vectors = json.loads(text)
    assert len(vectors) == 2
    for vector in vectors:
        prk0 = extract(bytes(64), bytes.fromhex(vector["psk"]))
        assert hkdf_expand(prk0, "hello mac", b"", 64).hex() == vector["hello_key"]
        assert hkdf_expand(prk0, "drone finished", b"", 64).hex() == vector["drone_finished_key"]
        salt, kem = hkdf_expand(prk0, "mix", b"", 64), bytes.fromhex(vector["kem_secret"])
        master = extract(salt, len(kem).to_bytes(4, "big") + kem + bytes(8))
        th2 = bytes.fromhex(vector["th2"])
        for label, name, length in (
            ("gcs finished", "gcs_finished", 64),
            ("drone key", "drone_key", int(vector["key_bytes"])),
            ("drone iv", "drone_iv", int(vector["iv_bytes"])),
            ("gcs key", "gcs_key", int(vector["key_bytes"])),
            ("gcs iv", "gcs_iv", int(vector["iv_bytes"])),
            ("rekey", "rekey_secret", 32),
            ("exporter", "exporter", 32),
            ("session id", "session_id", 16),
        ):
            assert hkdf_expand(master, label, th2, length).hex() == vector[name], name


@given(psk=BYTES32, kem=BYTES32, th2=st.binary(min_size=64, max_size=64), bit=st.integers(0, 255))
def test_every_input_changes_every_output(psk: bytes, kem: bytes, th2: bytes, bit: int) -> None:
    def outputs(psk: bytes, kem: bytes, th2: bytes) -> list[bytes]:
        s = derive_epoch(PskKeys.derive(psk), kem, th2, 32, 12)
        return [
            s.gcs_finished,
            s.drone.key,
            s.drone.iv,
            s.gcs.key,
            s.gcs.iv,
            s.rekey_secret,
            s.exporter,
            s.session_id,
        ]

    def flip(value: bytes) -> bytes:
        changed = bytearray(value)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    base = outputs(psk, kem, th2)
    assert len({value[:12] for value in base}) == len(base)
    for other in (outputs(flip(psk), kem, th2), outputs(psk, flip(kem), th2), outputs(psk, kem, flip(th2))):
        assert all(left != right for left, right in zip(base, other, strict=True))


def test_rekey_and_hybrid_inputs_cannot_stand_for_each_other() -> None:
    keys, th2 = PskKeys.derive(bytes(32)), bytes(64)
    plain = derive_epoch(keys, b"k" * 32, th2, 32, 12)
    hybrid = derive_epoch(keys, b"k" * 32, th2, 32, 12, x25519_secret=b"x" * 32)
    rekey = derive_epoch(keys, b"k" * 32, th2, 32, 12, old_rekey_secret=b"x" * 32)
    assert len({plain.session_id, hybrid.session_id, rekey.session_id}) == 3


@pytest.mark.parametrize("fails", [False, True])
def test_the_joined_secrets_are_overwritten(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    keys, seen = PskKeys.derive(bytes(32)), []

    def spied(salt: bytes, input_key: bytes | bytearray) -> bytes:
        seen.append((input_key, bytes(input_key)))
        if fails:
            raise ValueError("no digest")
        return extract(salt, input_key)

    monkeypatch.setattr(keyschedule, "extract", spied)
    secrets = {"x25519_secret": bytearray(b"x" * 32), "old_rekey_secret": b"o" * 32}
    with pytest.raises(ValueError, match="no digest") if fails else contextlib.nullcontext():
        derive_epoch(keys, bytearray(b"k" * 64), bytes(64), 32, 12, **secrets)  # type: ignore[arg-type]
    [(mixed, was)] = seen
    assert was == b"\0\0\0\x40" + b"k" * 64 + b"\0\0\0\x20" + b"x" * 32 + b"\0\0\0\x20" + b"o" * 32
    assert isinstance(mixed, bytearray) and mixed == bytes(len(was))


def test_psk_of_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        PskKeys.derive(bytes(31))


def test_mac_is_truncated_hmac() -> None:
    assert len(mac(b"k", b"a", b"b")) == 32
    assert mac(b"k", b"a", b"b") == mac(b"k", b"ab")
    assert mac_equal(b"a" * 32, b"a" * 32) and not mac_equal(b"a" * 32, b"b" * 32)


def test_secrets_do_not_print() -> None:
    secrets = derive_epoch(PskKeys.derive(bytes(32)), bytes(32), bytes(64), 32, 12)
    assert secrets.drone.key.hex() not in repr(secrets) and str(secrets.drone.key) not in repr(secrets)
