"""Two ends of the protocol in one process: doubles for the primitives, identities, and a driver."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pqspec.handshake import DroneHandshake, GcsHandshake, PskStore
from pqspec.handshake.machine import HandshakeMachine
from pqspec.session import Session
from pqtunnel import packet
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import DronePsk, GcsIdentity, GcsPublicIdentity
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom
from pqtunnel.primitives import AeadKey, KemKeyPair, Primitives
from pqtunnel.suites import ALL_AEADS, ALL_KEMS, ALL_SIGS, SIGS, Suite, get
from pqtunnel.trace import Tracer

MLKEM = get("cs-mlkem768-aesgcm-mldsa65")
FALCON = get("cs-mlkem512-chacha20poly1305-falcon512")


def stream(seed: bytes, count: int) -> bytes:
    """`count` bytes that depend on `seed` alone."""
    return hashlib.shake_256(seed).digest(count)


class CountingRng:
    """Deterministic randomness: each call continues one stream."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self.calls = 0

    def __call__(self, count: int) -> bytes:
        self.calls += 1
        return stream(self._seed + self.calls.to_bytes(4, "big"), count)


class FakeKem:
    """A KEM of the right sizes whose secret depends on key and ciphertext; counts what was asked of it."""

    def __init__(self, token: str, rng: CountingRng) -> None:
        self._kem, self._rng = ALL_KEMS[token], rng
        self.generated = self.encapsulated = self.decapsulated = 0

    def generate(self) -> KemKeyPair:
        self.generated += 1
        secret = self._rng(self._kem.secret_key_bytes)
        return KemKeyPair(stream(b"public" + secret, self._kem.public_key_bytes), bytearray(secret))

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        self.encapsulated += 1
        ciphertext = self._rng(self._kem.ciphertext_bytes)
        return ciphertext, bytearray(stream(public + ciphertext, self._kem.shared_secret_bytes))

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        self.decapsulated += 1
        public = stream(b"public" + bytes(pair.secret), self._kem.public_key_bytes)
        return bytearray(stream(public + ciphertext, self._kem.shared_secret_bytes))


class FakeSig:
    """A signature scheme of the right sizes (a MAC under the public key; a test needs no more)."""

    def __init__(self, token: str, rng: CountingRng) -> None:
        self._sig, self._rng = ALL_SIGS[token], rng
        self.signed = self.verified = 0

    def generate(self) -> tuple[bytes, bytes]:
        secret = self._rng(self._sig.secret_key_bytes)
        return stream(b"public" + secret, self._sig.public_key_bytes), secret

    def _make(self, public: bytes, message: bytes) -> bytes:
        size = self._sig.signature_bytes
        if self._sig.variable_length:
            size -= hashlib.sha256(message).digest()[0] % 64
        return stream(public + message, size)

    def sign(self, secret: bytes, message: bytes) -> bytes:
        self.signed += 1
        return self._make(stream(b"public" + secret, self._sig.public_key_bytes), message)

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        self.verified += 1
        return self._make(public, message) == signature


class FakeTag(Exception):
    """What the double raises for a wrong tag."""


class FakeAead:
    """XOR with a keyed stream and a truncated HMAC: slow, insecure, and behaves like an AEAD."""

    def __init__(self, token: str) -> None:
        self._aead = ALL_AEADS[token]

    def new(self, key: bytes) -> AeadKey:
        assert len(key) == self._aead.key_bytes

        def tag(nonce: bytes, body: bytes, aad: bytes) -> bytes:
            assert len(nonce) == self._aead.nonce_bytes
            return hmac.digest(key, nonce + len(aad).to_bytes(2, "big") + aad + body, "sha256")[:16]

        def mask(nonce: bytes, body: bytes) -> bytes:
            return bytes(a ^ b for a, b in zip(body, stream(key + nonce, len(body)), strict=True))

        def seal(nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
            body = mask(nonce, plaintext)
            return body + tag(nonce, body, aad)

        def open_(nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
            body = sealed[:-16]
            if tag(nonce, body, aad) != sealed[-16:]:
                raise FakeTag
            return mask(nonce, body)

        return AeadKey(seal, open_, FakeTag)


class FakePrimitives:
    """Doubles by token, made once, so that tests can read their counts."""

    def __init__(self, seed: bytes = b"primitives") -> None:
        self._rng = CountingRng(seed)
        self.kems: dict[str, FakeKem] = {}
        self.sigs: dict[str, FakeSig] = {}

    def kem(self, token: str) -> FakeKem:
        return self.kems.setdefault(token, FakeKem(token, self._rng))

    def sig(self, token: str) -> FakeSig:
        return self.sigs.setdefault(token, FakeSig(token, self._rng))

    def aead(self, token: str) -> FakeAead:
        return FakeAead(token)


def make_identity(primitives: Primitives, tokens: list[str] | None = None) -> GcsIdentity:
    """A GCS identity with a key pair for each scheme."""
    pairs = {token: primitives.sig(token).generate() for token in tokens or [*SIGS, "ed25519"]}
    public = GcsPublicIdentity({token: pair[0] for token, pair in pairs.items()})
    return GcsIdentity(public, {token: pair[1] for token, pair in pairs.items()})


Tamper = Callable[[str, bytes], bytes]
"""(sender, frame) → frame as the relay passes it on."""


def pass_on(sender: str, frame: bytes) -> bytes:
    """A relay that changes nothing."""
    return frame


@dataclass
class Lab:
    """Identities and counters of two ends, and the machines between them."""

    primitives: Primitives = field(default_factory=FakePrimitives)
    identity: GcsIdentity = field(init=False)
    psk: DronePsk = field(init=False)
    psks: PskStore = field(init=False)
    drone_counters: dict[str, int] = field(default_factory=dict)
    gcs_counters: dict[str, int] = field(default_factory=dict)
    sig_tokens: list[str] | None = None

    def __post_init__(self) -> None:
        self.identity = make_identity(self.primitives, self.sig_tokens)
        self.psk = DronePsk(b"drone-01", bytes(range(32)))
        self.psks = PskStore([self.psk, DronePsk(b"drone-02", bytes(reversed(range(32))))])

    def drone(
        self, suite: Suite = MLKEM, kind: type[DroneHandshake] = DroneHandshake, **changes: object
    ) -> Any:
        arguments: dict[str, object] = {
            "suite": suite,
            "psk": self.psk,
            "trusted": [self.identity.public],
            "min_level": 1,
            "epoch": 0,
            "primitives": self.primitives,
            "rng": CountingRng(b"drone"),
            "tracer": Tracer(host="drone"),
            "counters": self.drone_counters,
            "rx_index": 0xD0D0D0,
        }
        return kind(**(arguments | changes))  # type: ignore[arg-type]

    def gcs(self, kind: type[GcsHandshake] = GcsHandshake, **changes: object) -> Any:
        arguments: dict[str, object] = {
            "identity": self.identity,
            "psks": self.psks,
            "accepted": None,
            "min_level": 1,
            "primitives": self.primitives,
            "rng": CountingRng(b"gcs"),
            "tracer": Tracer(host="gcs"),
            "counters": self.gcs_counters,
            "rx_index": 0x6C6C6C,
        }
        return kind(**(arguments | changes))  # type: ignore[arg-type]

    def handshake(self, suite: Suite = MLKEM, tamper: Tamper = pass_on) -> tuple[Established, Established]:
        """Both ends' results. Raises what the refusing end raises."""
        drone, gcs = self.drone(suite), self.gcs()
        converse(drone, gcs, tamper)
        assert drone.established is not None and gcs.established is not None
        return drone.established, gcs.established

    def sessions(self, suite: Suite = MLKEM, epoch: int = 0) -> tuple[Session, Session]:
        """Two sessions, installed, the drone's first keepalive delivered."""
        drone_machine, gcs_machine = self.drone(suite, epoch=epoch), self.gcs()
        converse(drone_machine, gcs_machine)
        assert drone_machine.established is not None and gcs_machine.established is not None
        drone = Session("drone", self.drone_counters, self.primitives)
        gcs = Session("gcs", self.gcs_counters, self.primitives)
        gcs.install(gcs_machine.established, 0)
        drone.install(drone_machine.established, 0)
        assert gcs.receive(drone.seal_control(packet.KEEPALIVE), 0).kind == packet.KEEPALIVE
        return drone, gcs


def deliver(machine: HandshakeMachine, frame: bytes) -> list[bytes]:
    """One frame into a machine, as the socket shell would: header, then exactly the body."""
    length = machine.on_header(frame[:4])
    return machine.on_body(frame[4 : 4 + length])


def basis_of(*sessions: Established) -> Callable[[bytes], RekeyBasis | None]:
    """The lookup of a GCS that holds these sessions."""
    held = {s.session_id: RekeyBasis(s.peer_key_id, s.epoch, s.rekey_secret) for s in sessions}
    return held.get


def from_session(session: Established) -> RekeyFrom:
    """What a drone that holds this session rekeys from."""
    return RekeyFrom(session.session_id, session.epoch, session.rekey_secret)


def converse(drone: DroneHandshake, gcs: GcsHandshake, tamper: Tamper = pass_on) -> None:
    """Run both machines against each other until both are done. Raises what one of them raises."""
    assert drone.start() == []
    frame, sender = b"".join(gcs.start()), "gcs"
    while frame:
        receiver: HandshakeMachine = drone if sender == "gcs" else gcs
        answer = deliver(receiver, tamper(sender, frame))
        frame, sender = b"".join(answer), "drone" if sender == "gcs" else "gcs"
    assert drone.done and gcs.done
