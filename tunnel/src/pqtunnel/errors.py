"""The one exception tree of the tunnel.

Every error carries a stable `code` for machines and a `hint` (the next thing to do) for people. Handshake
errors also name the counter that recorded them, so that every refusal can be found in the counters.
"""

from __future__ import annotations

import os
import sys


class TunnelError(Exception):
    """Base of every error this package raises on purpose."""

    default_code = "tunnel"
    default_hint = "See the endpoint's log for the step that failed."

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.hint = hint or self.default_hint


class SuiteUnknown(TunnelError):
    """A suite id that the registry does not hold; `nearest` is the closest id it does hold."""

    default_code = "unknown_suite"

    def __init__(self, suite_id: str, nearest: str | None, hint: str | None = None) -> None:
        advice = f"Did you mean {nearest}?" if nearest else "List the ids with: ./pqtunnel suites"
        super().__init__(f"unknown suite {suite_id!r}", hint=hint or advice)
        self.suite_id = suite_id
        self.nearest = nearest


class ProviderMissing(TunnelError):
    """A native library that a primitive needs is not usable on this host."""

    default_code = "provider_missing"
    default_hint = "Run inside the tunnel image (make images), or name liboqs in OQS_INSTALL_PATH."


class PrimitiveFailed(TunnelError):
    """A primitive of a present library returned an error."""

    default_code = "primitive_failed"
    default_hint = "Run ./pqtunnel selftest on this host; a primitive that fails there must not be used."


class SelfTestFailed(TunnelError):
    """A known-answer test gave another answer."""

    default_code = "selftest_failed"
    default_hint = "Rebuild the images (make images); do not measure with a library that fails its vectors."


class KeyMaterialError(TunnelError):
    """A key, pin or identity is malformed, missing or does not fit its algorithm."""

    default_code = "bad_key_material"
    default_hint = "Make a fresh identity with: make keys"


def key_owner_hint() -> str:
    """What to do about keys that this process may not read: mostly a copy that lost its owner."""
    if sys.platform == "win32":
        return "run as the user that made the keys"
    owner = f"{os.getuid()}:{os.getgid()}"
    return f"sudo chown -R {owner} keys (cp -a keeps the owner), or run as the user that made them"


class SessionError(TunnelError):
    """The data plane cannot do what was asked."""

    default_code = "session"
    default_hint = "Wait for the next handshake to complete."


class SessionNotReady(SessionError):
    """No epoch may be sent on yet (the GCS waits for the drone's first authenticated packet)."""

    default_code = "not_ready"


class SequenceExhausted(SessionError):
    """The hard stop before the 32-bit wire sequence could repeat under one key."""

    default_code = "sequence_exhausted"
    default_hint = "Dial again: a new handshake brings fresh keys and a fresh sequence."


class HandshakeError(TunnelError):
    """A handshake was refused or failed; `counter` names the counter that recorded it.

    On the wire every refusal looks alike (one generic alert); the reason stays in the local log and counters.
    `answer` is the whole frame of the one refusal that is typed and authenticated (SessionUnknown).
    """

    default_code = "handshake"
    counter = "hs_failed"
    send_alert = True
    answer = b""


class CellEnded(HandshakeError):
    """The cell was stopped while a handshake of it was waiting or on its way; nothing of it is installed."""

    default_code = "cell_ended"
    default_hint = "prepare the next cell; a stopped one makes no sessions"


class BadVersion(HandshakeError):
    default_code = "bad_version"
    default_hint = "Install the same release at both ends."
    counter = "hs_bad_version"


class BadLength(HandshakeError):
    """A message or field whose type or length the registry does not allow at this point."""

    default_code = "bad_length"
    default_hint = "The peer speaks another protocol, or a message was cut short on the way."
    counter = "hs_bad_length"


class BadMac(HandshakeError):
    """Unknown drone key id or wrong MAC; deliberately not told apart."""

    default_code = "bad_mac"
    default_hint = "Check that both ends hold keys of the same `make keys` run."
    counter = "hs_bad_mac"


class UnknownSuiteOffered(HandshakeError):
    default_code = "unknown_suite_offered"
    default_hint = "Compare ./pqtunnel suites at both ends."
    counter = "hs_unknown_suite"


class PolicyRefused(HandshakeError):
    """A well-formed, authentic offer that policy forbids: level floor, other suite, unpinned key,
    another drone's session, an epoch that is not newer."""

    default_code = "policy_refused"
    default_hint = "Prepare both ends with the same suite and least level."
    counter = "hs_policy"


class UnpinnedGcs(PolicyRefused):
    """Whoever answers presents a key id that is not pinned here: a stranger is not told what he is talking
    to."""

    default_hint = "Install the public identity of this GCS at the drone (make keys)."
    send_alert = False


class SessionUnknown(HandshakeError):
    """A rekey names a session that the GCS does not hold (it restarted, or let the epoch go).

    The same at both ends: the GCS raises it with the authenticated `answer` to send, the drone once that
    answer verified.
    """

    default_code = "session_unknown"
    default_hint = "Dial a new session at once (purpose new)."
    counter = "hs_session_unknown"

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer
        self.send_alert = bool(answer)


class BadSignature(HandshakeError):
    default_code = "bad_signature"
    default_hint = "The GCS does not hold the pinned signing key, or the ServerHello was altered on the way."
    counter = "hs_bad_signature"


class BadFinished(HandshakeError):
    default_code = "bad_finished"
    default_hint = "The transcript differs between the ends: something on the path altered a message."
    counter = "hs_bad_finished"


class PeerAlert(HandshakeError):
    """The peer refused; its reason is in its own log and counters only."""

    default_code = "peer_alert"
    default_hint = "Read the peer's counters: the hs_* counter that grew names the reason."
    counter = "hs_alert"
    send_alert = False


class TimedOut(HandshakeError):
    default_code = "handshake_timeout"
    default_hint = "Check that the peer is up and that TCP 46000 reaches it."
    counter = "hs_timeout"


class RateLimited(HandshakeError):
    default_code = "rate_limited"
    default_hint = "Wait a second before dialling again."
    counter = "hs_rate_limited"
    send_alert = False


class HalfOpenLimit(HandshakeError):
    default_code = "half_open_limit"
    default_hint = "Too many unfinished handshakes; wait for their deadline."
    counter = "hs_half_open_limit"
    send_alert = False


class Evicted(HandshakeError):
    """This connection had sent no right Hello when its place was needed for a newer one."""

    default_code = "evicted"
    default_hint = "Dial again; the GCS is busy with connections that say nothing."
    counter = "hs_evicted"
    send_alert = False
