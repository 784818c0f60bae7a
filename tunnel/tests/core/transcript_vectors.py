"""Transcript vectors: whole handshakes and first packets under captured randomness, one suite a KEM family.

Run as a program, this writes tests/vectors/transcript-*.json; the tests make each again and compare. liboqs
draws from an AES-256-CTR DRBG (SP 800-90A) seeded with `liboqs_drbg_seed`, in the order: signing key pair
of the GCS, ephemeral KEM key pair, signature, encapsulation.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from core_kit import deliver, stream

from pqtunnel import packet
from pqtunnel.handshake import DroneHandshake, DronePsk, GcsHandshake, GcsIdentity, PskStore
from pqtunnel.handshake.identity import GcsPublicIdentity
from pqtunnel.kat.drbg import CtrDrbg, replaced_randomness
from pqtunnel.primitives import load
from pqtunnel.primitives.oqs_library import load_oqs
from pqtunnel.session import Session
from pqtunnel.suites import get
from pqtunnel.trace import Tracer

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
SUITE_IDS = (
    "cs-mlkem768-aesgcm-mldsa65",
    "cs-hqc128-ascon128a-mldsa44",
    "cs-classicmceliece348864-chacha20poly1305-falcon512",
)
_INLINE_BYTES = 16_384
"""Longer fields are given by their SHA-512 alone."""


def _field(value: bytes) -> str:
    return value.hex() if len(value) <= _INLINE_BYTES else "sha512:" + hashlib.sha512(value).hexdigest()


def build(suite_id: str) -> dict[str, Any]:
    """One vector; needs the native primitives."""
    suite, primitives = get(suite_id), load()
    seed = stream(b"transcript vector " + suite_id.encode(), 48)
    psk = DronePsk(b"vehicle1", stream(b"psk of the vectors", 32))
    with replaced_randomness(load_oqs().native(), CtrDrbg(seed)):
        public, secret = primitives.sig(suite.sig.token).generate()
        identity = GcsIdentity(GcsPublicIdentity({suite.sig.token: public}), {suite.sig.token: secret})
        drone = DroneHandshake(
            suite=suite, psk=psk, trusted=[identity.public], min_level=1, epoch=7, primitives=primitives,
            rng=lambda count: stream(b"drone nonce", count), tracer=Tracer(), counters={}, rx_index=0x00D207,
        )  # fmt: skip
        gcs = GcsHandshake(
            identity=identity, psks=PskStore([psk]), accepted=None, min_level=1, primitives=primitives,
            rng=lambda count: stream(b"gcs nonce", count), tracer=Tracer(), counters={}, rx_index=0x600C57,
        )  # fmt: skip
        drone.start()
        frames = {"challenge": b"".join(gcs.start())}
        frames["hello"] = b"".join(deliver(drone, frames["challenge"]))
        frames["server_hello"] = b"".join(deliver(gcs, frames["hello"]))
        frames["client_kem"] = b"".join(deliver(drone, frames["server_hello"]))
        pair = gcs._pair
        assert pair is not None
        kem_secret = bytes(primitives.kem(suite.kem.token).decapsulate(pair, frames["client_kem"][8:-32]))
        frames["gcs_finished"] = b"".join(deliver(gcs, frames["client_kem"]))
        deliver(drone, frames["gcs_finished"])
    assert drone.established is not None and gcs.established is not None
    air, ground = Session("drone", {}, primitives), Session("gcs", {}, primitives)
    ground.install(gcs.established, 0)
    air.install(drone.established, 0)
    keepalive = air.seal_control(packet.KEEPALIVE)
    ground.receive(keepalive, 0)
    heartbeat = bytes.fromhex("fd0900000001010000000000000002030300034e1d")
    return {
        "suite_id": suite_id,
        "liboqs_version": load_oqs().oqs_version(),
        "liboqs_drbg_seed": seed.hex(),
        "drone_key_id": psk.key_id.hex(),
        "psk": psk.psk.hex(),
        "gcs_signing_public_key": _field(public),
        "gcs_key_id": identity.public.key_id.hex(),
        "frames": {name: _field(frame) for name, frame in frames.items()},
        "th1": gcs._th1.hex(),
        "th2": drone._th2.hex(),
        "kem_secret": kem_secret.hex(),
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


def path_of(suite_id: str) -> Path:
    """Where a suite's vector lies."""
    return VECTORS / f"transcript-{suite_id}.json"


def main() -> int:
    VECTORS.mkdir(exist_ok=True)
    for suite_id in SUITE_IDS:
        path_of(suite_id).write_text(json.dumps(build(suite_id), indent=2) + os.linesep, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
