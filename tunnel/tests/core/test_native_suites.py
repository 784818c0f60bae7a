"""Every KEM × SIG pair of the registry through real primitives, AEADs in turn, with packets both ways."""

from __future__ import annotations

import pytest
from core_kit import Lab

from pqtunnel import packet
from pqtunnel.primitives import Primitives
from pqtunnel.suites import AEADS, SUITES, Suite

pytestmark = pytest.mark.native

_AEADS = list(AEADS)
_PAIRS: dict[tuple[str, str], Suite] = {}
for _suite in SUITES.values():
    _pair = (_suite.kem.token, _suite.sig.token)
    if _pair not in _PAIRS and _suite.aead.token == _AEADS[len(_PAIRS) % len(_AEADS)]:
        _PAIRS[_pair] = _suite


def test_the_choice_covers_everything() -> None:
    assert len(_PAIRS) == 24
    assert {suite.aead.token for suite in _PAIRS.values()} == set(AEADS)


@pytest.fixture(scope="module")
def native_lab(native: Primitives) -> Lab:
    return Lab(primitives=native)


@pytest.mark.parametrize("suite", _PAIRS.values(), ids=lambda suite: str(suite.id))
def test_handshake_and_packets(native_lab: Lab, suite: Suite) -> None:
    drone, gcs = native_lab.sessions(suite)
    for size in (0, 12, 280, 1400):
        payload = bytes(range(256)) * 6
        assert gcs.receive(drone.seal_data(payload[:size])[0], 1).payload == payload[:size]
        assert drone.receive(gcs.seal_data(payload[:size])[0], 1).payload == payload[:size]
    assert drone.receive(gcs.seal_control(packet.KEEPALIVE), 1).kind == packet.KEEPALIVE
