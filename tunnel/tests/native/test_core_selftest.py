"""The self-test tells a native core that computes something else."""

from __future__ import annotations

from typing import Any

import pytest
from core_pair import pq_core

from pqtunnel import packet
from pqtunnel.errors import SelfTestFailed
from pqtunnel.kat import symmetric
from pqtunnel.primitives import load
from pqtunnel.suites import ALL_AEADS

pytestmark = pytest.mark.native


@pytest.mark.parametrize("token", sorted(ALL_AEADS))
def test_the_core_passes(token: str) -> None:
    assert "equal" in symmetric.check_core(load(), token)


@pytest.mark.parametrize("token", sorted(ALL_AEADS))
def test_another_nonce_or_a_tag_that_is_not_checked_is_found(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Careless:
        """Opens whatever comes, like a core that does not look at the tag."""

        def __init__(self, role: str) -> None:
            self._real: Any = real(role)

        def receive(self, datagram: bytes, now_ns: int) -> Any:
            class Opened:
                kind, payload = packet.DATA, datagram[8:-16]

            return Opened

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    real = pq_core.Session
    monkeypatch.setattr(pq_core, "Session", Careless)
    with pytest.raises(SelfTestFailed, match="changed tag"):
        symmetric.check_core(load(), token)
    monkeypatch.setattr(pq_core, "Session", real)
    nonce = packet.nonce
    monkeypatch.setattr(packet, "nonce", lambda iv, sequence: nonce(iv, sequence + 1))
    with pytest.raises(SelfTestFailed, match="native"):
        symmetric.check_core(load(), token)


def test_a_key_schedule_that_derives_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "vectors" in symmetric.check_key_schedule()
    derive = pq_core.derive_epoch

    def careless(psk: bytes, kem_secret: bytes, th2: bytes, *sizes: int) -> dict[str, bytes]:
        return dict(derive(psk, kem_secret, bytes(len(th2)), *sizes))  # not bound to the transcript

    monkeypatch.setattr(pq_core, "derive_epoch", careless)
    with pytest.raises(SelfTestFailed, match="key schedule"):
        symmetric.check_key_schedule()
