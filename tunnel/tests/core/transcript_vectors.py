"""Transcript vectors: whole handshakes and first packets under captured randomness, by family and variant.

Run as a program, this writes tests/vectors/transcript-*.json; the tests make each again and compare. liboqs
draws from an AES-256-CTR DRBG (SP 800-90A) seeded with `liboqs_drbg_seed`, in the order: signing key pair
of the GCS, of the drone where it signs, ephemeral KEM key pair, the GCS's signature, encapsulation, the
drone's signature. X25519 and Ed25519 private keys are in the vector.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core_kit import deliver, stream
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from pqspec.handshake import DroneHandshake, GcsHandshake, PskStore
from pqspec.handshake.transcript import transcript_2
from pqspec.session import Session
from pqtunnel import packet
from pqtunnel.errors import SessionUnknown
from pqtunnel.handshake.identity import DronePsk, GcsIdentity, GcsPublicIdentity
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom
from pqtunnel.kat.drbg import CtrDrbg, replaced_randomness
from pqtunnel.primitives import AeadProvider, KemKeyPair, KemProvider, SigProvider, load
from pqtunnel.primitives.classical import HybridKem, X25519Kem
from pqtunnel.primitives.oqs_library import load_oqs
from pqtunnel.suites import EXTRA_KEMS, Suite, get
from pqtunnel.trace import Tracer

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
SUITE_IDS = (
    "cs-mlkem768-aesgcm-mldsa65",
    "cs-hqc128-ascon128a-mldsa44",
    "cs-classicmceliece348864-chacha20poly1305-falcon512",
    "cs-mlkem512-aesgcm-sphincs128s",
    "xs-x25519-chacha20poly1305-ed25519",
    "xs-x25519mlkem768-asconaead128-mldsa65",
)
REKEY, SIGNED = "rekey", "drone-signature"


@dataclass(frozen=True)
class Case:
    """One vector: a suite, and what is special about the handshake ("" for nothing)."""

    suite_id: str
    variant: str = ""

    @property
    def path(self) -> Path:
        """Where the vector lies."""
        return VECTORS / f"transcript-{self.variant + '-' if self.variant else ''}{self.suite_id}.json"


CASES = (
    *(Case(suite_id) for suite_id in SUITE_IDS),
    Case(SUITE_IDS[0], REKEY),
    Case("cs-mlkem512-chacha20poly1305-falcon512", SIGNED),
)
OLD_SESSION = RekeyFrom(stream(b"old session of the vectors", 16), 6, stream(b"old rekey secret", 32))
_INLINE_BYTES = 16_384
"""Longer fields are given by their SHA-512 alone."""


def _field(value: bytes) -> str:
    return value.hex() if len(value) <= _INLINE_BYTES else "sha512:" + hashlib.sha512(value).hexdigest()


X25519_GCS, X25519_DRONE = stream(b"x25519 gcs", 32), stream(b"x25519 drone", 32)
ED25519_GCS = stream(b"ed25519 gcs", 32)


class CapturedX25519(X25519Kem):
    """X25519 with both ends' ephemeral private keys given."""

    def generate(self) -> KemKeyPair:
        private = X25519PrivateKey.from_private_bytes(X25519_GCS)
        return KemKeyPair(private.public_key().public_bytes_raw(), bytearray(X25519_GCS))

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        private = X25519PrivateKey.from_private_bytes(X25519_DRONE)
        return private.public_key().public_bytes_raw(), self._exchange(private, public)


class CapturedPrimitives:
    """This host's primitives; what does not draw from liboqs draws from given keys."""

    def __init__(self) -> None:
        self._host = load()

    def kem(self, token: str) -> KemProvider:
        if token == "x25519":
            return CapturedX25519()
        if token in EXTRA_KEMS:
            inner = self._host.kem(token.removeprefix("x25519"))
            return HybridKem(EXTRA_KEMS[token], CapturedX25519(), inner)
        return self._host.kem(token)

    def sig(self, token: str) -> SigProvider:
        return self._host.sig(token)

    def aead(self, token: str) -> AeadProvider:
        return self._host.aead(token)

    def signing_pair(self, suite: Suite) -> tuple[bytes, bytes]:
        if suite.sig.token == "ed25519":
            private = Ed25519PrivateKey.from_private_bytes(ED25519_GCS)
            return private.public_key().public_bytes_raw(), ED25519_GCS
        return self.sig(suite.sig.token).generate()


def build(case: Case) -> dict[str, Any]:
    """One vector; needs the native primitives."""
    suite, primitives = get(case.suite_id), CapturedPrimitives()
    name = f"transcript vector {case.variant + ' ' if case.variant else ''}{suite.id}"
    seed = stream(name.encode(), 48)
    psk = DronePsk(b"vehicle1", stream(b"psk of the vectors", 32))
    rekeys, signs = case.variant == REKEY, case.variant == SIGNED
    with replaced_randomness(load_oqs().native(), CtrDrbg(seed)):
        public, secret = primitives.signing_pair(suite)
        drone_pair = primitives.signing_pair(suite) if signs else (b"", b"")
        identity = GcsIdentity(GcsPublicIdentity({suite.sig.token: public}), {suite.sig.token: secret})

        def make_gcs(held: RekeyBasis | None) -> GcsHandshake:
            return GcsHandshake(
                identity=identity,
                psks=PskStore([psk]),
                accepted={suite.id},
                min_level=1,
                primitives=primitives,
                rng=lambda count: stream(b"gcs nonce", count),
                tracer=Tracer(),
                counters={},
                rx_index=0x600C57,
                rekey_basis=lambda session_id: held,
                drone_keys=(lambda drone_id: {suite.sig.token: drone_pair[0]}) if signs else None,
            )

        basis = RekeyBasis(psk.key_id, OLD_SESSION.epoch, OLD_SESSION.rekey_secret)
        gcs, forgetful = make_gcs(basis if rekeys else None), make_gcs(None)
        drone = DroneHandshake(
            suite=suite,
            psk=psk,
            trusted=[identity.public],
            min_level=1,
            epoch=7,
            primitives=primitives,
            rng=lambda count: stream(b"drone nonce", count),
            tracer=Tracer(),
            counters={},
            rx_index=0x00D207,
            rekey=OLD_SESSION if rekeys else None,
            signing_keys={suite.sig.token: drone_pair[1]} if signs else None,
        )
        drone.start()
        frames = {"challenge": b"".join(gcs.start())}
        frames["hello"] = b"".join(deliver(drone, frames["challenge"]))
        if rekeys:
            forgetful.start()
            try:
                deliver(forgetful, frames["hello"])
            except SessionUnknown as error:
                frames["session_unknown"] = error.answer
        frames["server_hello"] = b"".join(deliver(gcs, frames["hello"]))
        frames["client_kem"] = b"".join(deliver(drone, frames["server_hello"]))
        pair = gcs._pair
        assert pair is not None
        ciphertext = frames["client_kem"][8 : 8 + suite.kem.ciphertext_bytes]
        shared = bytes(primitives.kem(suite.kem.token).decapsulate(pair, ciphertext))
        frames["gcs_finished"] = b"".join(deliver(gcs, frames["client_kem"]))
        deliver(drone, frames["gcs_finished"])
    assert drone.established is not None and gcs.established is not None
    split = suite.kem.x25519_bytes
    special = {
        "x25519_secret": shared[:split].hex() if split else "",
        "x25519_private_gcs": X25519_GCS.hex() if suite.kem.token in EXTRA_KEMS else "",
        "x25519_private_drone": X25519_DRONE.hex() if suite.kem.token in EXTRA_KEMS else "",
        "ed25519_private_gcs": ED25519_GCS.hex() if suite.sig.token == "ed25519" else "",
        "old_session_id": OLD_SESSION.session_id.hex() if rekeys else "",
        "old_epoch": OLD_SESSION.epoch if rekeys else "",
        "old_rekey_secret": OLD_SESSION.rekey_secret.hex() if rekeys else "",
        "drone_signing_public_key": drone_pair[0].hex(),
        "th3": drone._th2.hex() if signs else "",
    }
    air, ground = Session("drone", {}, primitives), Session("gcs", {}, primitives)
    ground.install(gcs.established, 0)
    air.install(drone.established, 0)
    keepalive = air.seal_control(packet.KEEPALIVE)
    ground.receive(keepalive, 0)
    heartbeat = bytes.fromhex("fd0900000001010000000000000002030300034e1d")
    return {
        "suite_id": suite.id,
        "liboqs_version": load_oqs().oqs_version(),
        "liboqs_drbg_seed": seed.hex(),
        "drone_key_id": psk.key_id.hex(),
        "psk": psk.psk.hex(),
        "gcs_signing_public_key": _field(public),
        "gcs_key_id": identity.public.key_id.hex(),
        "frames": {name: _field(frame) for name, frame in frames.items()},
        "th1": gcs._th1.hex(),
        "th2": _th2(gcs, ciphertext).hex(),
        "kem_secret": shared[split:].hex(),
        **{name: value for name, value in special.items() if value != ""},
        "drone_key": drone.established.keys.send_key.hex(),
        "drone_iv": drone.established.keys.send_iv.hex(),
        "gcs_key": gcs.established.keys.send_key.hex(),
        "gcs_iv": gcs.established.keys.send_iv.hex(),
        "session_id": drone.established.session_id.hex(),
        "rekey_secret": drone.established.rekey_secret.hex(),
        "exporter": drone.established.exporter.hex(),
        "plaintext": heartbeat.hex(),
        "packets": {
            "drone_keepalive_sequence_0": keepalive.hex(),
            "drone_data_sequence_1": air.seal_data(heartbeat)[0].hex(),
            "gcs_data_sequence_0": ground.seal_data(heartbeat)[0].hex(),
        },
    }


def _th2(gcs: GcsHandshake, ciphertext: bytes) -> bytes:
    return transcript_2(gcs._th1, gcs._signature, ciphertext)


def main() -> int:
    VECTORS.mkdir(exist_ok=True)
    for case in CASES:
        case.path.write_text(json.dumps(build(case), indent=2) + os.linesep, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
