"""The one exception tree of the tunnel.

Every error carries a stable `code` for machines and a `hint` (the next thing to do) for people. Handshake
errors also name the counter that recorded them, so that every refusal can be found in the counters.
"""

from __future__ import annotations

import os
import sys

from pqbase.errors import PqError


class TunnelError(PqError):
    """Base of every error this package raises on purpose."""

    code = "tunnel"
    hint = "See the endpoint's log for the step that failed."


class SuiteUnknown(TunnelError):
    """A suite id that the registry does not hold; `nearest` is the closest id it does hold."""

    code = "unknown_suite"

    def __init__(self, suite_id: str, nearest: str | None, hint: str | None = None) -> None:
        advice = f"Did you mean {nearest}?" if nearest else "List the ids with: ./pqtunnel suites"
        super().__init__(f"unknown suite {suite_id!r}", hint=hint or advice)
        self.suite_id = suite_id
        self.nearest = nearest


class ProviderMissing(TunnelError):
    """A native library that a primitive needs is not usable on this host."""

    code = "provider_missing"
    hint = "Run inside the tunnel image (make images), or name liboqs in OQS_INSTALL_PATH."


class PrimitiveFailed(TunnelError):
    """A primitive of a present library returned an error."""

    code = "primitive_failed"
    hint = "Run ./pqtunnel selftest on this host; a primitive that fails there must not be used."


class SelfTestFailed(TunnelError):
    """A known-answer test gave another answer."""

    code = "selftest_failed"
    hint = "Rebuild the images (make images); do not measure with a library that fails its vectors."


class KeyMaterialError(TunnelError):
    """A key, pin or identity is malformed, missing or does not fit its algorithm."""

    code = "bad_key_material"
    hint = "Make a fresh identity with: make keys"


def key_owner_hint() -> str:
    """What to do about keys that this process may not read: mostly a copy that lost its owner."""
    if sys.platform == "win32":
        return "run as the user that made the keys"
    owner = f"{os.getuid()}:{os.getgid()}"
    return f"sudo chown -R {owner} keys (cp -a keeps the owner), or run as the user that made them"


class SessionError(TunnelError):
    """The data plane cannot do what was asked."""

    code = "session"
    hint = "Wait for the next handshake to complete."


class SessionNotReady(SessionError):
    """No epoch may be sent on yet (the GCS waits for the drone's first authenticated packet)."""

    code = "not_ready"


class SequenceExhausted(SessionError):
    """The hard stop before the 32-bit wire sequence could repeat under one key."""

    code = "sequence_exhausted"
    hint = "Dial again: a new handshake brings fresh keys and a fresh sequence."


class HandshakeError(TunnelError):
    """A handshake was refused or failed; `counter` names the counter that recorded it.

    On the wire every refusal looks alike (one generic alert); the reason stays in the local log and counters.
    `answer` is the whole frame of the one refusal that is typed and authenticated (SessionUnknown).
    """

    code = "handshake"
    counter = "hs_failed"
    send_alert = True
    answer = b""


class ConnectionLostError(HandshakeError):
    """The TCP connection ended before the handshake did."""

    code = "connection_lost"
    hint = "the peer died, has no cell prepared, or refused: see its log (`make lab-status`)"
    counter = "hs_connection_lost"
    send_alert = False


class CellEnded(HandshakeError):
    """The cell was stopped while a handshake of it was waiting or on its way; nothing of it is installed."""

    code = "cell_ended"
    hint = "prepare the next cell; a stopped one makes no sessions"


class BadVersion(HandshakeError):
    code = "bad_version"
    hint = "Install the same release at both ends."
    counter = "hs_bad_version"


class BadLength(HandshakeError):
    """A message or field whose type or length the registry does not allow at this point."""

    code = "bad_length"
    hint = "The peer speaks another protocol, or a message was cut short on the way."
    counter = "hs_bad_length"


class BadMac(HandshakeError):
    """Unknown drone key id or wrong MAC; deliberately not told apart."""

    code = "bad_mac"
    hint = "Check that both ends hold keys of the same `make keys` run."
    counter = "hs_bad_mac"


class UnknownSuiteOffered(HandshakeError):
    code = "unknown_suite_offered"
    hint = "Compare ./pqtunnel suites at both ends."
    counter = "hs_unknown_suite"


class PolicyRefused(HandshakeError):
    """A well-formed, authentic offer that policy forbids: level floor, other suite, unpinned key,
    another drone's session, an epoch that is not newer."""

    code = "policy_refused"
    hint = "Prepare both ends with the same suite and least level."
    counter = "hs_policy"


class UnpinnedGcs(PolicyRefused):
    """Whoever answers presents a key id that is not pinned here: a stranger is not told what he is talking
    to."""

    hint = "Install the public identity of this GCS at the drone (make keys)."
    send_alert = False


class SessionUnknown(HandshakeError):
    """A rekey names a session that the GCS does not hold (it restarted, or let the epoch go).

    The same at both ends: the GCS raises it with the authenticated `answer` to send, the drone once that
    answer verified.
    """

    code = "session_unknown"
    hint = "Dial a new session at once (purpose new)."
    counter = "hs_session_unknown"

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer
        self.send_alert = bool(answer)


class BadSignature(HandshakeError):
    code = "bad_signature"
    hint = "The GCS does not hold the pinned signing key, or the ServerHello was altered on the way."
    counter = "hs_bad_signature"


class BadFinished(HandshakeError):
    code = "bad_finished"
    hint = "The transcript differs between the ends: something on the path altered a message."
    counter = "hs_bad_finished"


class PeerAlert(HandshakeError):
    """The peer refused; its reason is in its own log and counters only."""

    code = "peer_alert"
    hint = "Read the peer's counters: the hs_* counter that grew names the reason."
    counter = "hs_alert"
    send_alert = False


class TimedOut(HandshakeError):
    code = "handshake_timeout"
    hint = "Check that the peer is up and that TCP 46000 reaches it."
    counter = "hs_timeout"


class RateLimited(HandshakeError):
    code = "rate_limited"
    hint = "Wait a second before dialling again."
    counter = "hs_rate_limited"
    send_alert = False


class HalfOpenLimit(HandshakeError):
    code = "half_open_limit"
    hint = "Too many unfinished handshakes; wait for their deadline."
    counter = "hs_half_open_limit"
    send_alert = False


class Evicted(HandshakeError):
    """This connection had sent no right Hello when its place was needed for a newer one."""

    code = "evicted"
    hint = "Dial again; the GCS is busy with connections that say nothing."
    counter = "hs_evicted"
    send_alert = False


class RetryAsked(HandshakeError):
    """The GCS is under load: come again at once, with the Hello first. `challenge`: the body of the Challenge
    to answer there."""

    code = "retry_asked"
    hint = "Nothing to do where it is dialled again by itself; else dial again."
    counter = "hs_retry"
    send_alert = False

    def __init__(self, message: str, challenge: bytes) -> None:
        super().__init__(message)
        self.challenge = challenge


class StaleCookie(HandshakeError):
    """An EarlyHello answers a Challenge that is old, another source's, answered before, or not this GCS's."""

    code = "stale_cookie"
    hint = "Dial again, from the same address: a Challenge is good for 8 to 16 s, once."
    counter = "hs_stale_cookie"
