"""Two agents on loopback: a drone that signs, and handshakes with ephemeral keys from the gcs's pool."""

from __future__ import annotations

import json
from typing import Any

import pytest
from endpoint_kit import Lab

from pqtunnel.rpc import RemoteError
from waiting import wait_until

pytestmark = pytest.mark.native


def spans_of(side: Any, cell: str = "cell-1") -> list[dict[str, Any]]:
    lines = side.call("fetch", cell_id=cell, stream="spans", since=0)["lines"]
    return [json.loads(line) if isinstance(line, str) else line for line in lines]


def test_a_drone_that_signs_is_verified_and_traffic_flows(lab_pair: Lab) -> None:
    lab_pair.flowing(2, drone_auth="signature")
    lab_pair.drone.plain.send(b"\xfdsigned")
    assert lab_pair.gcs.plain.receive() == b"\xfdsigned"
    lab_pair.shut()
    drone, gcs = lab_pair.stop()
    assert drone["hs_signatures"] == gcs["hs_verifies"] == 2


def test_ends_told_differently_complete_nothing(lab_pair: Lab) -> None:
    for side, auth in ((lab_pair.gcs, "signature"), (lab_pair.drone, "psk")):
        side.call("prepare", cell_id="cell-1", suite_id="cs-mlkem768-aesgcm-mldsa65", drone_auth=auth)
        side.call("start", cell_id="cell-1")
    result = lab_pair.handshakes(1)
    assert result["completed"] == 0 and result["failures"][0]["code"] == "peer_alert"
    assert lab_pair.gcs.counters()["hs_policy"] >= 1


def test_another_word_for_drone_auth_is_refused(lab_pair: Lab) -> None:
    with pytest.raises(RemoteError, match="psk or signature"):
        lab_pair.drone.call("prepare", cell_id="c", suite_id="cs-mlkem768-aesgcm-mldsa65", drone_auth="tls")


def test_pooled_handshakes_are_labelled_and_use_no_fresh_keygen(lab_pair: Lab) -> None:
    lab_pair.prepare()
    assert lab_pair.gcs.call("event", cell_id="cell-1", kind="key_pool", target=4)["ready"] == 4
    result = lab_pair.drone.call(
        "event", cell_id="cell-1", kind="handshake_block", count=3, min_count=1, max_s=10, pooled=True
    )
    assert result["completed"] == 3
    assert wait_until(lambda: lab_pair.gcs.counters()["hs_completed"] == 3)
    assert lab_pair.gcs.counters()["hs_keygens"] == 0
    gcs_rows = spans_of(lab_pair.gcs)
    assert {row["keygen"] for row in gcs_rows} == {"pooled"} == {row["mode"] for row in gcs_rows}
    assert {row["mode"] for row in spans_of(lab_pair.drone)} == {"pooled"}
    assert lab_pair.gcs.call("event", cell_id="cell-1", kind="key_pool", target=0)["ready"] == 0
    assert lab_pair.handshakes(1)["completed"] == 1
    _, gcs = lab_pair.stop()
    assert gcs["hs_keygens"] == 1 and gcs["hs_completed"] == 4


def test_the_pool_ends_with_the_cell_and_belongs_to_the_gcs(lab_pair: Lab) -> None:
    lab_pair.prepare()
    with pytest.raises(RemoteError, match="only the gcs"):
        lab_pair.drone.call("event", cell_id="cell-1", kind="key_pool", target=1)
    lab_pair.gcs.call("event", cell_id="cell-1", kind="key_pool", target=2)
    lab_pair.stop()
    keeper = lab_pair.gcs.agent.endpoint._pool
    assert keeper is not None and keeper.take("mlkem768") is None


@pytest.mark.parametrize(
    "suite", ["xs-x25519mlkem768-asconaead128-mldsa65", "xs-x25519-chacha20poly1305-ed25519"]
)
def test_suites_beside_the_72_carry_traffic(lab_pair: Lab, suite: str) -> None:
    lab_pair.flowing(2, suite=suite)
    lab_pair.drone.plain.send(b"\xfdbeside")
    assert lab_pair.gcs.plain.receive() == b"\xfdbeside"
    lab_pair.shut()
    _, gcs = lab_pair.stop()
    assert gcs["rx_ok"] == 1 and gcs["auth_failed"] == 0


def test_a_suite_switch_to_one_beside_the_72_by_rekey(lab_pair: Lab) -> None:
    first, second = "cs-mlkem768-aesgcm-mldsa65", "xs-x25519mlkem768-asconaead128-mldsa65"
    lab_pair.prepare(first, accepted_suites=[first, second], drone_auth="signature")
    lab_pair.handshakes(1)
    result = lab_pair.drone.call("event", cell_id="cell-1", kind="rekey", suite_id=second)
    assert (result["result"], result["suite_id"]) == ("completed", second)
