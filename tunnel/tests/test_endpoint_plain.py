"""`plain`: the tunnel's way without its cryptography, only where both ends were told so."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint_kit import SUITE, Lab, lab

from pqtunnel import packet
from pqtunnel.rpc import RemoteError
from waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.native
#: both data planes pass the same tests, and one against the other
PLANES = ("python", "native", "mixed")


@pytest.fixture
def pair(key_folder: Path, tmp_path: Path, plane: str) -> Iterator[Lab]:
    with lab(key_folder, tmp_path, plane=plane, gcs={"PQ_PEER": "127.0.0.2"}) as made:
        yield made


def test_datagrams_pass_in_the_clear_with_eight_bytes_more(pair: Lab) -> None:
    pair.prepare(suite="plain", allow_plain=True)
    pair.open()
    for number in range(50):
        pair.drone.plain.send(b"down %d" % number)
        assert pair.gcs.plain.receive() == b"down %d" % number
        pair.gcs.plain.send(b"up %d" % number)
        assert pair.drone.plain.receive() == b"up %d" % number
    peer = pair.gcs.agent.endpoint.dataplane.peer
    pair.shut()
    drone, gcs = pair.stop()
    assert drone["tx_data"] == gcs["rx_ok"] == gcs["tx_data"] == drone["rx_ok"] == 50
    sizes = sum(len(b"down %d" % number) + packet.HEADER_BYTES for number in range(50))
    assert drone["tx_data_bytes"] == gcs["rx_ok_bytes"] == sizes
    assert drone["digest_tx"] == gcs["digest_rx"] != "0" * 16
    assert gcs["path_changed"] == drone["path_changed"] == gcs["hs_started"] == drone["hs_started"] == 0
    assert peer == pair.drone.agent.endpoint.dataplane.sealed_address


def _after_a_sealed_cell(pair: Lab) -> None:
    """The gcs has seen the drone at 127.0.0.2 and sent it something."""
    pair.prepare(cell="cell-0")
    assert pair.handshakes(1, cell="cell-0")["completed"] == 1
    pair.stop(cell="cell-0")
    assert pair.gcs.agent.endpoint.dataplane.peer == pair.drone.agent.endpoint.dataplane.sealed_address


def test_plain_goes_to_the_configured_peer_whatever_a_handshake_said(
    key_folder: Path, tmp_path: Path, plane: str
) -> None:
    with (
        lab(key_folder, tmp_path, plane=plane, gcs={"PQ_PEER": "127.0.0.9"}) as pair,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as configured,
    ):
        port = pair.drone.agent.endpoint.dataplane.sealed_address[1]
        configured.bind(("127.0.0.9", port))
        configured.settimeout(LIMIT_S)
        _after_a_sealed_cell(pair)
        pair.prepare(suite="plain", allow_plain=True)
        assert pair.gcs.agent.endpoint.dataplane.peer == ("127.0.0.9", port)
        pair.open()
        pair.gcs.plain.send(b"in the clear")
        while (heard := configured.recv(2048))[packet.HEADER_BYTES :] != b"in the clear":
            assert heard[0] >> 4 == packet.KEEPALIVE


def test_plain_without_a_configured_peer_is_refused_even_where_a_handshake_told_one(
    key_folder: Path, tmp_path: Path, plane: str
) -> None:
    with lab(key_folder, tmp_path, plane=plane) as pair:
        _after_a_sealed_cell(pair)
        with pytest.raises(RemoteError) as caught:
            pair.gcs.call("prepare", cell_id="cell-1", suite_id="plain", allow_plain=True)
        assert caught.value.code == "bad_config"


def test_plain_is_never_entered_by_one_end_alone_nor_by_accident(pair: Lab) -> None:
    wrong: list[dict[str, Any]] = [
        {"suite_id": "plain"},
        {"suite_id": SUITE, "accepted_suites": [SUITE, "plain"]},
        {"suite_id": "plain", "allow_plain": True, "accepted_suites": ["plain", SUITE]},
    ]
    for params in wrong:
        with pytest.raises(RemoteError):
            pair.drone.call("prepare", cell_id="cell-1", **params)
        assert pair.drone.call("counters")["state"] == "idle"
    pair.gcs.call("prepare", cell_id="cell-1", suite_id="plain", allow_plain=True)
    pair.gcs.call("start", cell_id="cell-1")
    pair.drone.call("prepare", cell_id="cell-1", suite_id=SUITE)
    pair.drone.call("start", cell_id="cell-1")
    result = pair.handshakes(1)  # a gcs in plain mode speaks with nobody
    assert result["completed"] == 0 and result["failures"][0]["code"] == "connection_lost"


def test_a_plain_cell_has_no_handshake_no_rekey_and_no_redial(pair: Lab) -> None:
    pair.prepare(suite="plain", allow_plain=True)
    for kind, params, code in (
        ("handshake_block", {"count": 1}, "plain_cell"),
        ("rekey", {}, "rekey_refused"),
    ):
        with pytest.raises(RemoteError) as caught:
            pair.event(kind, **params)
        assert caught.value.code == code
    pair.gcs.agent.endpoint.dataplane.close()
    assert not wait_until(lambda: pair.drone.counters()["hs_started"] > 0, 3.5)
