"""The drone's end: dials, proves its PSK, verifies the GCS, encapsulates."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import ClassVar, NoReturn

from pqspec.handshake.machine import HandshakeMachine, Rng
from pqspec.handshake.secrets import clear, epoch_secrets, in_clear, traffic_keys
from pqspec.handshake.transcript import (
    drone_signed_message,
    signed_message,
    transcript_1,
    transcript_2,
    transcript_3,
)
from pqspec.keyschedule import EpochSecrets, PskKeys, mac, mac_equal
from pqtunnel import wire
from pqtunnel.errors import (
    BadFinished,
    BadMac,
    BadSignature,
    PolicyRefused,
    SessionUnknown,
    UnpinnedGcs,
)
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import DronePsk, GcsPublicIdentity
from pqtunnel.handshake.rekey import RekeyFrom
from pqtunnel.primitives.interfaces import Primitives, wipe
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer


class DroneHandshake(HandshakeMachine):
    """One dialled handshake. `trusted` holds the pinned GCS identities, at most two (rotation); `epoch` is
    the 32-bit number under which this session's packets are filed; `rekey` names the live session that this
    one replaces, None to begin anew; `signing_keys` (by SIG token) makes the drone authenticate by a
    signature too. Raises PolicyRefused at once below the floor; SessionUnknown when the GCS proves that it
    does not hold the session to replace."""

    _steps_by_awaited: ClassVar[dict[int, tuple[str, str]]] = {
        wire.CHALLENGE: ("wait_challenge", "send_hello"),
        wire.SERVER_HELLO: ("wait_server_hello", "send_client_kem"),
        wire.GCS_FINISHED: ("wait_finished", ""),
    }

    def __init__(
        self,
        *,
        suite: Suite,
        psk: DronePsk,
        trusted: Sequence[GcsPublicIdentity],
        min_level: int,
        epoch: int,
        primitives: Primitives,
        rng: Rng,
        tracer: Tracer,
        counters: MutableMapping[str, int],
        rx_index: int,
        psk_keys: PskKeys | None = None,
        rekey: RekeyFrom | None = None,
        signing_keys: Mapping[str, bytes] | None = None,
    ) -> None:
        super().__init__(
            suite=suite,
            primitives=primitives,
            rng=rng,
            tracer=tracer,
            counters=counters,
            min_level=min_level,
            rx_index=rx_index,
        )
        self._suite = suite
        self._psk = psk
        self._psk_keys = psk_keys or PskKeys.derive(clear(psk.psk))
        self._trusted = {identity.key_id: identity for identity in trusted[:2]}
        self._epoch = epoch
        self._rekey = rekey
        self._signing_keys = signing_keys
        self._drone_signs = signing_keys is not None
        if rekey is not None:
            self.purpose, tracer.purpose = wire.PURPOSE_REKEY, "rekey"
        self._gcs: GcsPublicIdentity | None = None
        self._challenge_frame = b""
        self._hello_frame = b""
        self._th2 = b""
        self._finished = b""
        self._tx_index = 0
        self._secrets: EpochSecrets | None = None
        self._kem_secret = bytearray()

    def start(self) -> list[bytes]:
        """Nothing to send: the GCS speaks first. Raises PolicyRefused when the suite is below the floor."""
        self._count("hs_started")
        if self._suite.level < self._min_level:
            raise self._refuse(
                PolicyRefused(
                    f"{self._suite.id} is level {self._suite.level}, the floor is {self._min_level}"
                )
            )
        if self._signing_keys is not None and self._suite.sig.token not in self._signing_keys:
            raise self._refuse(
                PolicyRefused(
                    f"this drone is to sign and holds no {self._suite.sig.name} key",
                    hint="Make the drone's signing keys (make keys), or prepare with drone_auth psk.",
                )
            )
        if self._rekey is not None and self._epoch <= self._rekey.epoch:
            raise self._refuse(
                PolicyRefused(
                    f"epoch {self._epoch} cannot replace epoch {self._rekey.epoch}: epochs only grow",
                    hint="Number each handshake of a run one higher than the last.",
                )
            )
        self._awaited = wire.CHALLENGE
        return []

    def _handle(self, frame_type: int, body: bytes) -> list[bytes]:
        if frame_type == wire.CHALLENGE:
            return self._on_challenge(body)
        if frame_type == wire.SERVER_HELLO:
            return self._on_server_hello(body)
        if frame_type == wire.SESSION_UNKNOWN:
            self._on_session_unknown(body)
        return self._on_gcs_finished(body)

    def _on_challenge(self, body: bytes) -> list[bytes]:
        self._tracer.mark("hello", "codec")
        challenge = wire.parse_challenge(body)
        self._identify(challenge.nonce)
        self._gcs = self._trusted.get(challenge.gcs_id)
        if self._gcs is None:
            raise UnpinnedGcs(
                f"the GCS presents key id {challenge.gcs_id.hex()[:16]}…, which is not pinned here"
            )
        if self._suite.sig.token not in self._gcs.keys:
            raise PolicyRefused(
                f"the pinned GCS identity holds no {self._suite.sig.name} key",
                hint="Make identities that hold a key for each signature scheme (make keys).",
            )
        self._challenge_frame = challenge.encode()
        unauthenticated = wire.Hello(
            version=wire.VERSION,
            purpose=self.purpose,
            suite_code=self._suite.wire_code,
            flags=wire.FLAG_DRONE_SIGNS if self._drone_signs else 0,
            drone_id=self._psk.key_id,
            nonce=self._rng(wire.NONCE_BYTES),
            epoch=self._epoch,
            rx_index=self._rx_index,
            old_session=bytes(wire.SESSION_ID_BYTES) if self._rekey is None else self._rekey.session_id,
            mac=b"",
        ).encode_unauthenticated()
        self._hello_frame = unauthenticated + mac(
            self._psk_keys.hello, self._challenge_frame, unauthenticated
        )
        self._awaited = wire.SERVER_HELLO
        self._alternative = wire.SESSION_UNKNOWN if self._rekey is not None else None
        return [self._hello_frame]

    def _on_session_unknown(self, body: bytes) -> NoReturn:
        self._tracer.mark("verify_finished", "kdf")
        expected = mac(self._psk_keys.session_unknown, self._challenge_frame, self._hello_frame)
        if not mac_equal(expected, wire.parse_session_unknown(body)):
            raise BadMac("SessionUnknown does not answer this Hello: forged or replayed")
        raise SessionUnknown("the GCS does not hold the session to rekey; it has restarted or let it go")

    def _on_server_hello(self, body: bytes) -> list[bytes]:
        suite, primitives, tracer = self._suite, self._primitives, self._tracer
        assert self._gcs is not None  # set before SERVER_HELLO is awaited
        self._alternative = None
        tracer.mark("transcript", "codec")
        hello = wire.parse_server_hello(body, suite)
        th1 = transcript_1(self._challenge_frame, self._hello_frame, hello.signed_part)
        message = signed_message(th1)
        signature_scheme, kem = primitives.sig(suite.sig.token), primitives.kem(suite.kem.token)
        tracer.mark("verify", "crypto")
        self._count("hs_verifies")
        if not signature_scheme.verify(self._gcs.keys[suite.sig.token], message, hello.signature):
            raise BadSignature("the ServerHello's signature does not verify under the pinned key")
        tracer.mark("encaps", "crypto")
        self._count("hs_encaps")
        ciphertext, self._kem_secret = kem.encapsulate(hello.public_key)
        tracer.size(len(ciphertext))
        signature = b""
        if self._signing_keys is None:
            tracer.mark("kdf", "kdf")
            self._th2 = transcript_2(th1, hello.signature, ciphertext)
        else:
            tracer.mark("transcript_2", "codec")
            th2 = transcript_2(th1, hello.signature, ciphertext)
            message = drone_signed_message(th2)
            tracer.mark("sign", "crypto")
            self._count("hs_signatures")
            signature = signature_scheme.sign(self._signing_keys[suite.sig.token], message)
            tracer.size(len(signature))
            tracer.mark("kdf", "kdf")
            self._th2 = transcript_3(th2, signature)
        self._finished = mac(self._psk_keys.drone_finished, self._th2)
        self._secrets = epoch_secrets(
            suite,
            self._psk_keys,
            self._kem_secret,
            self._th2,
            b"" if self._rekey is None else in_clear(self._rekey.rekey_secret),
        )
        tracer.mark("client_kem", "codec")
        self._tx_index = hello.rx_index
        self._awaited = wire.GCS_FINISHED
        return [wire.encode_client_kem(ciphertext, self._finished, signature)]

    def _on_gcs_finished(self, body: bytes) -> list[bytes]:
        self._tracer.mark("verify_finished", "kdf")
        assert self._secrets is not None and self._gcs is not None  # set before GCS_FINISHED is awaited
        expected = mac(self._secrets.gcs_finished, self._th2, self._finished)
        if not mac_equal(expected, wire.parse_gcs_finished(body)):
            raise BadFinished("FinishedGcs does not fit this transcript and secret")
        secrets = self._secrets
        self.established = Established(
            role="drone",
            suite=self._suite,
            epoch=self._epoch,
            session_id=secrets.session_id,
            peer_key_id=self._gcs.key_id,
            handshake_id=self.handshake_id,
            rx_index=self._rx_index,
            tx_index=self._tx_index,
            keys=traffic_keys(secrets, "drone"),
            rekey_secret=secrets.rekey_secret,
            exporter=secrets.exporter,
        )
        self._awaited = None
        self._wipe()
        self._count("hs_completed")
        self._tracer.finish()
        return []

    def _wipe(self) -> None:
        wipe(self._kem_secret)
        self._secrets = None
        self._rekey = None
