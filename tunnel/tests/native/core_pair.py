"""One end of the protocol twice: the Python session that specifies, and the native one that must do the
same."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from pqspec.session import Session
from pqtunnel.errors import TunnelError
from pqtunnel.handshake.established import Established, Role, TrafficKeys
from pqtunnel.primitives import load
from pqtunnel.suites import ALL_AEADS, get

pq_core = pytest.importorskip("pq_core", reason="the native core's wheel is not installed here")

AEADS = sorted(ALL_AEADS)
SUITES = {token: replace(get("cs-mlkem768-aesgcm-mldsa65"), aead=ALL_AEADS[token]) for token in AEADS}
SUITES["null"] = get("plain")


def established(
    role: Role, token: str, epoch: int, rx_index: int, tx_index: int, secret: bytes = b""
) -> Established:
    """Keys that depend on AEAD, epoch and `secret` alone, from the point of view of `role`."""
    suite = SUITES[token]

    def material(name: str, size: int) -> bytes:
        return hashlib.shake_256(f"{token} {epoch} {name} ".encode() + secret).digest(size)

    def direction(sender: str) -> tuple[bytes, bytes]:
        sizes = suite.aead.key_bytes, suite.aead.nonce_bytes
        return material(f"{sender} key", sizes[0]), material(f"{sender} iv", sizes[1])

    mine, theirs = ("drone", "gcs") if role == "drone" else ("gcs", "drone")
    return Established(
        role=role,
        suite=suite,
        epoch=epoch,
        session_id=bytes(16),
        peer_key_id=bytes(8),
        handshake_id="00" * 8,
        rx_index=rx_index,
        tx_index=tx_index,
        keys=TrafficKeys(*direction(mine), *direction(theirs)),
        rekey_secret=bytes(32),
        exporter=bytes(32),
    )


def outcome(call: Any, *arguments: Any) -> Any:
    """What a call returned, or the error it raised, in a form that both sessions share."""
    try:
        result = call(*arguments)
    except TunnelError as error:
        return type(error).__name__, str(error), error.code, error.hint
    if hasattr(result, "reason"):
        return (
            result.kind,
            result.payload,
            result.epoch,
            result.sequence,
            result.reason,
            result.newest,
            result.first,
        )
    return result


class Twin:
    """Every call goes to both sessions; any difference, also of what can be read afterwards, is a failure."""

    def __init__(self, role: Role) -> None:
        self.counters: dict[str, int] = {}
        self.python = Session(role, self.counters, load())
        self.native = pq_core.Session(role)

    def do(self, name: str, *arguments: Any) -> Any:
        expected = outcome(getattr(self.python, name), *arguments)
        got = outcome(getattr(self.native, name), *arguments)
        assert got == expected, name
        self.compare()
        return expected

    def compare(self) -> None:
        assert dict(self.native.session_counters()) == self.counters
        for name in ("role", "can_send", "epoch", "failed_tags", "is_plain"):
            assert getattr(self.native, name) == getattr(self.python, name), name
