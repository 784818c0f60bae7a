"""The GCS's end: challenges first, spends one MAC before it believes anything, checks before it
decapsulates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping
from typing import ClassVar

from pqspec.handshake.machine import HandshakeMachine, Rng
from pqspec.handshake.psks import PskStore
from pqspec.handshake.secrets import clear, epoch_secrets, in_clear, traffic_keys
from pqspec.handshake.transcript import (
    drone_signed_message,
    signed_message,
    transcript_1,
    transcript_2,
    transcript_3,
)
from pqspec.keyschedule import PskKeys, mac, mac_equal
from pqtunnel import wire
from pqtunnel.errors import (
    BadFinished,
    BadLength,
    BadMac,
    BadSignature,
    PolicyRefused,
    ProviderMissing,
    SessionUnknown,
    UnknownSuiteOffered,
)
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import GcsIdentity
from pqtunnel.handshake.rekey import RekeyBasis
from pqtunnel.primitives.interfaces import KemKeyPair, Primitives
from pqtunnel.suites import SUITES, Suite, by_wire
from pqtunnel.trace import Tracer


class GcsHandshake(HandshakeMachine):
    """One accepted handshake. `accepted` are the suite ids this end may speak now (None: the 72);
    `admit_key` is asked with the drone's key id once its MAC has verified and raises to refuse; `rekey_basis`
    is asked after it, with the session id a rekey names (None: no rekey is served). `drone_keys` gives a
    drone's registered public keys by SIG token and makes its signature a must (None: no drone signs).
    `key_source` is asked for a ready ephemeral key pair of a KEM, for this handshake alone (None, or its
    None: made on the spot).
    """

    _steps_by_awaited: ClassVar[dict[int, tuple[str, str]]] = {
        wire.HELLO: ("wait_hello", "send_server_hello"),
        wire.CLIENT_KEM: ("wait_client_kem", "send_finished"),
    }

    def __init__(
        self,
        *,
        identity: GcsIdentity,
        psks: PskStore,
        accepted: Collection[str] | None,
        min_level: int,
        primitives: Primitives,
        rng: Rng,
        tracer: Tracer,
        counters: MutableMapping[str, int],
        rx_index: int,
        admit_key: Callable[[bytes], None] | None = None,
        rekey_basis: Callable[[bytes], RekeyBasis | None] | None = None,
        drone_keys: Callable[[bytes], Mapping[str, bytes]] | None = None,
        key_source: Callable[[str], KemKeyPair | None] | None = None,
    ) -> None:
        super().__init__(
            suite=None,
            primitives=primitives,
            rng=rng,
            tracer=tracer,
            counters=counters,
            min_level=min_level,
            rx_index=rx_index,
        )
        self._identity = identity
        self._psks = psks
        self._accepted = accepted
        self._admit_key = admit_key
        self._rekey_basis = rekey_basis
        self._old_rekey_secret = b""
        self._drone_keys = drone_keys
        self._drone_key = b""
        self._key_source = key_source
        self._challenge_frame = b""
        self._hello: wire.Hello | None = None
        self._psk_keys: PskKeys | None = None
        self._pair: KemKeyPair | None = None
        self._th1 = b""
        self._signature = b""

    def start(self) -> list[bytes]:
        """The Challenge: one random nonce, no other work."""
        self._count("hs_started")
        self._tracer.mark("challenge", "codec")
        challenge = wire.Challenge(wire.VERSION, self._rng(wire.NONCE_BYTES), self._identity.public.key_id)
        self._identify(challenge.nonce)
        self._challenge_frame = challenge.encode()
        self._awaited = wire.HELLO
        return [self._challenge_frame]

    @property
    def send_step(self) -> str:
        """As in the base class; the Challenge goes out before anything was awaited."""
        return super().send_step or "send_challenge"

    def _handle(self, frame_type: int, body: bytes) -> list[bytes]:
        return self._on_hello(body) if frame_type == wire.HELLO else self._on_client_kem(body)

    def _on_hello(self, body: bytes) -> list[bytes]:
        tracer = self._tracer
        tracer.mark("check_hello", "kdf")
        hello = wire.parse_hello(body)
        hello_frame = wire.frame_header(wire.HELLO, len(body)) + body
        psk_keys = self._psks.lookup(hello.drone_id)
        expected = mac(psk_keys.hello, self._challenge_frame, hello_frame[: -wire.MAC_BYTES])
        if not mac_equal(expected, hello.mac):
            raise BadMac(f"Hello of drone {hello.drone_id.hex()}: unknown key id or wrong MAC")
        if self._admit_key is not None:
            self._admit_key(hello.drone_id)
        suite = self._check_offer(hello)
        self._check_drone_auth(hello, suite)
        try:
            kem, signature_scheme = (
                self._primitives.kem(suite.kem.token),
                self._primitives.sig(suite.sig.token),
            )
            self._primitives.aead(suite.aead.token)
        except ProviderMissing as error:
            raise UnknownSuiteOffered(f"{suite.id} is not available on this host: {error}") from error
        self._old_rekey_secret = self._check_purpose(hello, hello_frame, psk_keys)
        signing_key = clear(self._identity.secrets[suite.sig.token])
        tracer.mark("keygen", "crypto")
        self._pair = self._key_source(suite.kem.token) if self._key_source is not None else None
        if self._pair is not None:
            tracer.keygen = "pooled"
        else:
            self._count("hs_keygens")
            self._pair = kem.generate()
        tracer.size(len(self._pair.public))
        tracer.mark("transcript", "codec")
        signed_part = wire.server_hello_signed_part(self._rx_index, self._pair.public)
        self._th1 = transcript_1(self._challenge_frame, hello_frame, signed_part)
        message = signed_message(self._th1)
        tracer.mark("sign", "crypto")
        self._count("hs_signatures")
        self._signature = signature_scheme.sign(signing_key, message)
        tracer.size(len(self._signature))
        tracer.mark("server_hello", "codec")
        self._hello, self._psk_keys, self.suite = hello, psk_keys, suite
        self._awaited = wire.CLIENT_KEM
        return [
            wire.server_hello_header(signed_part, self._signature),
            signed_part,
            wire.prefixed(self._signature),
        ]

    def _check_offer(self, hello: wire.Hello) -> Suite:
        """The offered suite, once the authentic Hello asks for nothing policy forbids."""
        if hello.flags & ~wire.FLAG_DRONE_SIGNS:
            raise BadLength(f"Hello has flags {hello.flags:#x}; this version defines bit 0 alone")
        suite = by_wire(hello.suite_code)
        if suite is None:
            raise UnknownSuiteOffered(f"suite code {hello.suite_code.hex()} is not in the registry")
        if suite.level < self._min_level:
            raise PolicyRefused(f"{suite.id} is level {suite.level}, the floor is {self._min_level}")
        if suite.id not in (SUITES if self._accepted is None else self._accepted):
            prepared = "the 72 suites" if self._accepted is None else ", ".join(self._accepted)
            raise PolicyRefused(f"{suite.id} was offered, this end is prepared for {prepared}")
        if suite.sig.token not in self._identity.secrets:
            raise PolicyRefused(
                f"this GCS holds no {suite.sig.name} key", hint="Make a whole identity: make keys"
            )
        return suite

    def _check_drone_auth(self, hello: wire.Hello, suite: Suite) -> None:
        """Both ends must have been told the same way of authenticating the drone."""
        self._drone_signs = bool(hello.flags & wire.FLAG_DRONE_SIGNS)
        if self._drone_signs != (self._drone_keys is not None):
            told, wanted = ("signature", "psk") if self._drone_signs else ("psk", "signature")
            raise PolicyRefused(
                f"drone {hello.drone_id.hex()} authenticates by {told}, this end is prepared for {wanted}",
                hint="Prepare both ends with the same drone_auth.",
            )
        if self._drone_keys is not None:
            self._drone_key = self._drone_keys(hello.drone_id).get(suite.sig.token, b"")
            if not self._drone_key:
                raise PolicyRefused(
                    f"no {suite.sig.name} key is registered for drone {hello.drone_id.hex()}",
                    hint="Make the drone's signing keys (make keys).",
                )

    def _check_purpose(self, hello: wire.Hello, hello_frame: bytes, psk_keys: PskKeys) -> bytes:
        """The rekey secret to mix in: empty for a new session, the old session's for a rekey of it."""
        names_none = hello.old_session == bytes(wire.SESSION_ID_BYTES)
        if hello.purpose == wire.PURPOSE_NEW and names_none:
            return b""
        if hello.purpose != wire.PURPOSE_REKEY or names_none:
            raise PolicyRefused(f"purpose {hello.purpose} with this old session is not defined")
        basis = self._rekey_basis(hello.old_session) if self._rekey_basis is not None else None
        if basis is None:
            proof = mac(psk_keys.session_unknown, self._challenge_frame, hello_frame)
            raise SessionUnknown(
                f"drone {hello.drone_id.hex()} would rekey a session that is not held here",
                answer=wire.encode_session_unknown(proof),
            )
        if basis.drone_id != hello.drone_id:
            raise PolicyRefused(
                f"drone {hello.drone_id.hex()} would rekey a session of drone {basis.drone_id.hex()}",
                hint="Only the drone that made a session may replace it.",
            )
        if hello.epoch <= basis.epoch:
            raise PolicyRefused(
                f"epoch {hello.epoch} cannot replace epoch {basis.epoch}: epochs only grow",
                hint="Number each handshake of a run one higher than the last.",
            )
        self.purpose, self._tracer.purpose = wire.PURPOSE_REKEY, "rekey"
        return in_clear(basis.rekey_secret)

    def _on_client_kem(self, body: bytes) -> list[bytes]:
        tracer, suite, hello = self._tracer, self.suite, self._hello
        assert suite and hello and self._psk_keys and self._pair  # set before CLIENT_KEM is awaited
        tracer.mark("check_finished", "kdf")
        client = wire.parse_client_kem(body, suite, drone_signs=self._drone_signs)
        th2 = transcript_2(self._th1, self._signature, client.ciphertext)
        message = drone_signed_message(th2)
        if self._drone_signs:
            th2 = transcript_3(th2, client.signature)
        if not mac_equal(mac(self._psk_keys.drone_finished, th2), client.finished):
            raise BadFinished("FinishedDrone does not fit this transcript; nothing was decapsulated")
        if self._drone_signs:
            tracer.mark("verify", "crypto")
            self._count("hs_verifies")
            scheme = self._primitives.sig(suite.sig.token)
            if not scheme.verify(self._drone_key, message, client.signature):
                raise BadSignature(f"drone {hello.drone_id.hex()} did not sign this handshake")
        kem = self._primitives.kem(suite.kem.token)
        tracer.mark("decaps", "crypto")
        self._count("hs_decaps")
        kem_secret = kem.decapsulate(self._pair, client.ciphertext)
        tracer.mark("kdf", "kdf")
        secrets = epoch_secrets(suite, self._psk_keys, kem_secret, th2, self._old_rekey_secret)
        tracer.mark("finished", "codec")
        self.established = Established(
            role="gcs",
            suite=suite,
            epoch=hello.epoch,
            session_id=secrets.session_id,
            peer_key_id=hello.drone_id,
            handshake_id=self.handshake_id,
            rx_index=self._rx_index,
            tx_index=hello.rx_index,
            keys=traffic_keys(secrets, "gcs"),
            rekey_secret=secrets.rekey_secret,
            exporter=secrets.exporter,
        )
        self._awaited = None
        self._wipe()
        self._count("hs_completed")
        return [wire.encode_gcs_finished(mac(secrets.gcs_finished, th2, client.finished))]

    def _wipe(self) -> None:
        if self._pair is not None:
            self._pair.wipe()
            self._pair = None
        self._old_rekey_secret = b""
