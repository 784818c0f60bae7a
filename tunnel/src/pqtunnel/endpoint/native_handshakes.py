"""The native handshake behind the interface of `handshakes`: what `pqlink` runs.

Conversation, key schedule and primitives are Rust's (`pq_core`, over the liboqs that the self-test has
tried); this file translates. Session keys and ephemeral keys never come here: Python holds handles.
"""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Mapping
from typing import Final

import pq_core

from pqtunnel import errors, suites
from pqtunnel.endpoint.counters import add_to
from pqtunnel.endpoint.handshakes import Answer, Dial
from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.errors import ConnectionLostError
from pqtunnel.handshake import limits
from pqtunnel.handshake.established import Epoch
from pqtunnel.handshake.identity import Secret
from pqtunnel.handshake.rekey import RekeyFrom
from pqtunnel.primitives.oqs_library import library_path
from pqtunnel.trace import Tracer

REFUSALS: Final[dict[str, type[errors.HandshakeError]]] = {
    "BadVersion": errors.BadVersion,
    "BadLength": errors.BadLength,
    "BadMac": errors.BadMac,
    "UnknownSuite": errors.UnknownSuiteOffered,
    "Policy": errors.PolicyRefused,
    "UnpinnedGcs": errors.UnpinnedGcs,
    "SessionUnknown": errors.SessionUnknown,
    "BadSignature": errors.BadSignature,
    "BadFinished": errors.BadFinished,
    "PeerAlert": errors.PeerAlert,
    "TimedOut": errors.TimedOut,
    "RateLimited": errors.RateLimited,
    "HalfOpenLimit": errors.HalfOpenLimit,
    "Evicted": errors.Evicted,
    "StaleCookie": errors.StaleCookie,
    "ConnectionLost": ConnectionLostError,
    "Failed": errors.HandshakeError,
    "Ended": errors.HandshakeError,
}
"""Classes by the reason's name in `tunnel/link/src/error.rs`; `Retry` says with what to come again."""


@functools.cache
def primitives() -> pq_core.Primitives:
    """Those of the liboqs that this process has loaded. Raises ProviderMissing."""
    path = library_path()
    if path is None:
        raise errors.ProviderMissing("this system does not tell which file liboqs was loaded from")
    return pq_core.Primitives(str(path))


def _pairs(keys: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    return list(keys.items())


def _held(secret: Secret) -> bytes | str:
    """For the core, which reads a file by itself."""
    return secret if isinstance(secret, bytes) else str(secret.path)


def _secrets(keys: Mapping[str, Secret]) -> list[tuple[str, bytes | str]]:
    return [(token, _held(key)) for token, key in keys.items()]


@functools.cache
def _wire_codes(suite_ids: tuple[str, ...]) -> bytes:
    return b"".join(suites.get(suite_id).wire_code for suite_id in suite_ids)


class NativeDrone:
    """`DroneHandshakes`, native."""

    def __init__(self, keys: DroneKeys) -> None:
        self._keys = keys

    def load(self) -> None:
        """As `Loads.load`."""
        _ = self.vehicle

    @functools.cached_property
    def vehicle(self) -> pq_core.Vehicle:
        keys = self._keys
        trusted = [_pairs(identity.keys) for identity in keys.trusted]
        psk = keys.psk
        return pq_core.Vehicle(primitives(), psk.key_id, _held(psk.psk), trusted, _secrets(keys.signing))

    def dial(
        self, sock: socket.socket, started_ns: int, dial: Dial, tracer: Tracer, counters: dict[str, int]
    ) -> Epoch:
        """As `DroneHandshakes.dial`."""
        if dial.early is None:  # who was asked to come again goes on with the same one
            add_to(counters, "hs_started")
        if dial.signs and dial.suite.sig.token not in self._keys.signing:
            error = errors.PolicyRefused(
                f"this drone is to sign and holds no {dial.suite.sig.name} key",
                hint="Make the drone's signing keys (make keys), or prepare with drone_auth psk.",
            )
            add_to(counters, error.counter)
            raise error
        if dial.rekey is not None:
            tracer.purpose = "rekey"
        heard = pq_core.dial(
            self.vehicle,
            sock.fileno(),
            clock=tracer.clock,
            elapsed_ns=time.monotonic_ns() - started_ns,
            base_s=limits.BASE_DEADLINE_S,
            suite=dial.suite.wire_code,
            min_level=dial.min_level,
            epoch=dial.epoch,
            rx_index=dial.rx_index,
            rekey=_from(dial.rekey),
            signs=dial.signs,
            early=dial.early,
            metered=tracer.meters_primitives,
        )
        return _settle(heard, tracer, counters)


def _from(rekey: RekeyFrom | None) -> tuple[bytes, int, pq_core.Secret] | None:
    if rekey is None:
        return None
    if not isinstance(rekey.rekey_secret, pq_core.Secret):
        raise errors.KeyMaterialError("a session of the specification is rekeyed by the specification")
    return rekey.session_id, rekey.epoch, rekey.rekey_secret


class _NativeKem:
    def __init__(self, token: str) -> None:
        self._token = token

    def generate(self) -> pq_core.KemPair:
        """A fresh pair. Raises PrimitiveFailed."""
        return primitives().kem_pair(self._token)


class NativePairs:
    """Key pairs whose secrets Python never reads, for the pool."""

    def kem(self, token: str) -> _NativeKem:
        """The maker for this KEM. Raises ProviderMissing where there is no liboqs."""
        primitives()
        return _NativeKem(token)


class NativeGcs:
    """`GcsHandshakes`, native."""

    last_word = pq_core.RETRY

    def __init__(self, keys: GcsKeys) -> None:
        self._keys = keys
        self.pairs = NativePairs()

    def load(self) -> None:
        """As `Loads.load`."""
        _ = self.station

    @functools.cached_property
    def station(self) -> pq_core.Station:
        keys = self._keys
        return pq_core.Station(
            primitives(),
            _pairs(keys.identity.public.keys),
            _secrets(keys.identity.secrets),
            [(drone.key_id, _held(drone.psk)) for drone in keys.psks],
        )

    def answer(
        self, sock: socket.socket, started_ns: int, answer: Answer, tracer: Tracer, counters: dict[str, int]
    ) -> None:
        """As `GcsHandshakes.answer`."""
        add_to(counters, "hs_started")
        drone_keys = answer.drone_keys

        def basis(session_id: bytes) -> tuple[bytes, int, object] | None:
            held = answer.rekey_basis(session_id)
            return None if held is None else (held.drone_id, held.epoch, held.rekey_secret)

        def install(established: pq_core.Established, rtt_ns: int) -> None:
            tracer.purpose = "rekey" if established.is_rekey else "new"
            answer.install(established, rtt_ns)

        heard = pq_core.answer(
            self.station,
            sock.fileno(),
            source=answer.source,
            clock=tracer.clock,
            elapsed_ns=time.monotonic_ns() - started_ns,
            base_s=limits.BASE_DEADLINE_S,
            accepted=_wire_codes(tuple(answer.accepted)),
            min_level=answer.min_level,
            rx_index=answer.rx_index,
            admit_key=answer.admit_key,
            rekey_basis=basis,
            drone_key=None if drone_keys is None else lambda drone, token: drone_keys(drone).get(token),
            ready_pair=answer.key_source,
            install=install,
            metered=tracer.meters_primitives,
        )
        if heard.is_pooled:
            tracer.keygen = "pooled"
        _settle(heard, tracer, counters)


def _settle(heard: pq_core.Conversation, tracer: Tracer, counters: dict[str, int]) -> Epoch:
    """Count and trace what was heard; the epoch, or the error it ended with."""
    for counter, count in heard.counts.items():
        add_to(counters, counter, count)
    tracer.take_in(heard)
    tracer.handshake_id = heard.handshake_id
    if heard.established is not None and heard.raised is None:
        add_to(counters, "hs_completed")
    error = _error(heard)
    if error is not None:
        if not isinstance(error, ConnectionLostError):  # the callers count that
            add_to(counters, error.counter)
        raise error
    assert heard.established is not None  # no refusal means established
    return heard.established


def _error(heard: pq_core.Conversation) -> errors.HandshakeError | None:
    raised = heard.raised
    if isinstance(raised, errors.HandshakeError):
        return raised
    if isinstance(raised, errors.TunnelError):
        error = errors.HandshakeError(str(raised), code=raised.code, hint=raised.hint)
        error.__cause__ = raised
        return error
    if raised is not None:
        raise raised
    if heard.refusal is None:
        return None
    reason, detail = heard.refusal
    if reason == "Retry":
        assert heard.to_answer is not None  # a Retry is awaited after the Challenge alone
        return errors.RetryAsked(detail, heard.to_answer)
    return REFUSALS[reason](detail)
