"""Suites beside the 72: hybrids in the key schedule, classical primitives, Ascon-AEAD128, `plain`."""

from __future__ import annotations

import contextlib
import json
from importlib import resources
from typing import Any

import ascon_aead128
import pytest
from core_kit import Lab, converse
from hypothesis import given, settings
from hypothesis import strategies as st

from pqspec.handshake.secrets import epoch_secrets
from pqspec.keyschedule import PskKeys, derive_epoch
from pqtunnel import errors, suites
from pqtunnel.kat import curves, oqs_kats
from pqtunnel.primitives import KemKeyPair, Primitives
from pqtunnel.primitives.classical import HybridKem, X25519Kem

HYBRID = suites.get("xs-x25519mlkem768-aesgcm-mldsa65")
CLASSICAL = suites.get("xs-x25519-chacha20poly1305-ed25519")
NEAR = [
    suite
    for suite in suites.EXTRA.values()
    if suite.kem.family in ("x25519", "hybrid", "mlkem") and suite.sig.family != "slhdsa"
]


@pytest.mark.parametrize("suite", [s for s in NEAR if not s.is_plain], ids=lambda suite: str(suite.id))
def test_both_ends_agree_when_prepared_for_it(lab: Lab, suite: suites.Suite) -> None:
    drone, gcs = lab.drone(suite), lab.gcs(accepted={suite.id})
    converse(drone, gcs)
    assert drone.established is not None and gcs.established is not None
    assert drone.established.keys.send_key == gcs.established.keys.receive_key
    assert len(drone.established.keys.send_key) == suite.aead.key_bytes


def test_a_gcs_that_names_no_suites_means_the_72(lab: Lab) -> None:
    for suite in (HYBRID, CLASSICAL):
        with pytest.raises(errors.PolicyRefused, match="the 72 suites"):
            converse(lab.drone(suite), lab.gcs())
    assert "hs_keygens" not in lab.gcs_counters


def test_plain_is_never_negotiated(lab: Lab) -> None:
    drone = lab.drone()
    says = {"wire_code": suites.PLAIN.wire_code, "sig": HYBRID.sig, "level": 5, "id": "plain"}
    drone._suite = type("Plain", (), says)()
    with pytest.raises(errors.UnknownSuiteOffered):
        converse(drone, lab.gcs(accepted={"plain"}))


@given(secret=st.binary(min_size=64, max_size=64), th2=st.binary(min_size=64, max_size=64))
def test_hybrid_secrets_enter_their_own_slots(secret: bytes, th2: bytes) -> None:
    keys, given_secret = PskKeys.derive(bytes(32)), bytearray(secret)
    made = epoch_secrets(HYBRID, keys, given_secret, th2, b"")
    expected = derive_epoch(keys, secret[32:], th2, 32, 12, x25519_secret=secret[:32])
    assert (made.drone.key, made.gcs.iv, made.session_id) == (
        expected.drone.key,
        expected.gcs.iv,
        expected.session_id,
    )
    assert not any(given_secret)


def test_classical_secret_is_the_kem_secret() -> None:
    keys, th2 = PskKeys.derive(bytes(32)), bytes(64)
    made = epoch_secrets(CLASSICAL, keys, bytearray(b"k" * 32), th2, b"old")
    expected = derive_epoch(keys, b"k" * 32, th2, 32, 12, old_rekey_secret=b"old")
    assert made.session_id == expected.session_id


class FixedKem:
    """A KEM whose secret tells which half of the inputs it saw."""

    def generate(self) -> KemKeyPair:
        return KemKeyPair(b"P" * 1184, bytearray(b"S" * 2400))

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        assert public == b"P" * 1184
        return b"C" * 1088, bytearray(b"K" * 32)

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        assert (pair.public, bytes(pair.secret), ciphertext) == (b"P" * 1184, b"S" * 2400, b"C" * 1088)
        return bytearray(b"K" * 32)


def test_hybrid_puts_x25519_first_everywhere_and_checks_lengths() -> None:
    hybrid = HybridKem(HYBRID.kem, X25519Kem(), FixedKem())
    pair = hybrid.generate()
    assert pair.public[32:] == b"P" * 1184 and pair.secret[32:] == b"S" * 2400
    ciphertext, secret = hybrid.encapsulate(pair.public)
    assert ciphertext[32:] == b"C" * 1088 and secret[32:] == b"K" * 32
    assert hybrid.decapsulate(pair, ciphertext) == secret
    for cut in (slice(1, None), slice(None, -1)):
        with pytest.raises(errors.PrimitiveFailed):
            hybrid.encapsulate(pair.public[cut])
        with pytest.raises(errors.PrimitiveFailed):
            hybrid.decapsulate(pair, ciphertext[cut])
    pair.wipe()
    assert not any(pair.secret)


class Remembering:
    """X25519, with everything secret that it handed out."""

    def __init__(self) -> None:
        self.inner = X25519Kem()
        self.lent: list[bytearray] = []

    def generate(self) -> KemKeyPair:
        pair = self.inner.generate()
        self.lent.append(pair.secret)
        return pair

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        ciphertext, secret = self.inner.encapsulate(public)
        self.lent.append(secret)
        return ciphertext, secret

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        self.lent.append(self.inner.decapsulate(pair, ciphertext))
        return self.lent[-1]


class FailingKem(FixedKem):
    def generate(self) -> KemKeyPair:
        raise errors.PrimitiveFailed("no entropy")

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        raise errors.PrimitiveFailed("no entropy")

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        raise errors.PrimitiveFailed("no entropy")


@pytest.mark.parametrize("name", ["generate", "encapsulate", "decapsulate"])
def test_a_kem_that_fails_leaves_no_half_of_x25519(name: str) -> None:
    whole = HybridKem(HYBRID.kem, X25519Kem(), FixedKem())
    pair = whole.generate()
    ciphertext, _ = whole.encapsulate(pair.public)
    given: dict[str, tuple[Any, ...]] = {"encapsulate": (pair.public,), "decapsulate": (pair, ciphertext)}
    for inner in (FixedKem(), FailingKem()):
        classical = Remembering()
        hybrid = HybridKem(HYBRID.kem, classical, inner)
        with pytest.raises(errors.PrimitiveFailed) if type(inner) is FailingKem else contextlib.nullcontext():
            getattr(hybrid, name)(*given.get(name, ()))
        assert [bytes(secret) for secret in classical.lent] == [bytes(32)]


def test_x25519_of_small_order_is_refused() -> None:
    kem = X25519Kem()
    for point in (bytes(32), b"\x01" + bytes(31)):
        with pytest.raises(errors.PrimitiveFailed, match="small order"):
            kem.encapsulate(point)
        with pytest.raises(errors.PrimitiveFailed, match="small order"):
            kem.decapsulate(kem.generate(), point)
    with pytest.raises(errors.PrimitiveFailed):
        kem.encapsulate(bytes(31))


def test_a_drone_that_sends_a_point_of_small_order_ends_the_handshake(lab: Lab) -> None:
    class Small:
        def __init__(self) -> None:
            self.inner = X25519Kem()

        def generate(self) -> KemKeyPair:
            return self.inner.generate()

        def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
            return bytes(32), bytearray(32)

        def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
            return self.inner.decapsulate(pair, ciphertext)

    lab.primitives.kems["x25519"] = Small()  # type: ignore[attr-defined]
    with pytest.raises(errors.HandshakeError, match="small order"):
        converse(lab.drone(CLASSICAL), lab.gcs(accepted={CLASSICAL.id}))
    assert lab.gcs_counters["hs_failed"] == 1 and "hs_completed" not in lab.gcs_counters


@pytest.mark.native
def test_ed25519_signs_verifies_and_refuses(native: Primitives) -> None:
    provider = native.sig("ed25519")
    public, secret = provider.generate()
    signature = provider.sign(secret, b"message")
    assert provider.verify(public, b"message", signature)
    assert not provider.verify(public, b"massage", signature)
    assert not provider.verify(public, b"message", signature[:-1])
    assert not provider.verify(public[:-1], b"message", signature)
    assert not provider.verify(b"\xff" * 32, b"message", signature)
    with pytest.raises(errors.PrimitiveFailed):
        provider.sign(secret[:-1], b"message")


@pytest.mark.native
def test_known_answers_reject_mutants(native: Primitives) -> None:
    class Mutant:
        def kem(self, token: str) -> object:
            return native.kem("x25519mlkem512" if token == "x25519" else token)

        def sig(self, token: str) -> object:
            return native.sig("mldsa44")

    with pytest.raises(errors.PrimitiveFailed):
        curves.check_x25519(Mutant())  # type: ignore[arg-type]
    with pytest.raises((errors.SelfTestFailed, errors.PrimitiveFailed)):
        curves.check_ed25519(Mutant(), suites.EXTRA_SIGS["ed25519"])  # type: ignore[arg-type]
    with pytest.raises(errors.SelfTestFailed, match="no known answer"):
        oqs_kats._compare("sig", "slhdsa128s", b"")


def test_spec_ascon_aead128_gives_the_published_answers() -> None:
    text = resources.files("pqtunnel").joinpath("vectors", "aead.json").read_text("utf-8")
    vectors = [vector for vector in json.loads(text) if vector["aead"] == "asconaead128"]
    assert len(vectors) == 4
    for vector in vectors:
        key, nonce, aad, plaintext, sealed = (
            bytes.fromhex(vector[name]) for name in ("key", "nonce", "aad", "plaintext", "sealed")
        )
        assert ascon_aead128.seal(key, nonce, aad, plaintext) == sealed
        assert ascon_aead128.open_(key, nonce, aad, sealed) == plaintext


@pytest.mark.native
@settings(max_examples=60, deadline=None)
@given(
    key=st.binary(min_size=16, max_size=16),
    nonce=st.binary(min_size=16, max_size=16),
    aad=st.binary(max_size=40),
    plaintext=st.binary(max_size=70),
    flip=st.integers(0, 2**16),
)
def test_library_and_specification_agree(
    native: Primitives, key: bytes, nonce: bytes, aad: bytes, plaintext: bytes, flip: int
) -> None:
    library = native.aead("asconaead128").new(key)
    sealed = library.seal(nonce, plaintext, aad)
    assert sealed == ascon_aead128.seal(key, nonce, aad, plaintext)
    assert library.open(nonce, sealed, aad) == plaintext
    changed = bytearray(sealed)
    changed[flip // 8 % len(sealed)] ^= 1 << flip % 8
    assert ascon_aead128.open_(key, nonce, aad, bytes(changed)) is None
    with pytest.raises(library.invalid_tag):
        library.open(nonce, bytes(changed), aad)
    other = native.aead("ascon128a").new(key)
    with pytest.raises(other.invalid_tag):
        other.open(nonce, sealed, aad)
