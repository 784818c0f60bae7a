"""A handshake ends in the cell that it was begun in or not at all, at either end."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from endpoint_kit import SUITE, Lab, spans_of

from pqtunnel.errors import HandshakeError
from waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.native
#: both data planes pass the same tests
PLANES = ("python", "native")


def test_a_block_whose_controller_died_does_not_dial_into_the_next_cell(lab_pair: Lab) -> None:
    lab_pair.prepare()
    left: list[dict[str, Any]] = []

    def abandoned() -> None:
        with lab_pair.drone.client() as rpc:
            block = {"cell_id": "cell-1", "kind": "handshake_block", "count": 5_000, "max_s": LIMIT_S}
            left.append(rpc.call("event", block, timeout_s=2 * LIMIT_S))

    thread = threading.Thread(target=abandoned)
    thread.start()
    assert wait_until(lambda: lab_pair.gcs.counters()["hs_completed"] >= 3)
    lab_pair.stop()
    lab_pair.prepare(cell="cell-2")
    assert lab_pair.handshakes(3, cell="cell-2")["completed"] == 3
    thread.join(LIMIT_S)
    assert not thread.is_alive() and left[0]["completed"] >= 3, "the block ended with its cell"
    time.sleep(0.2)
    for side in (lab_pair.drone, lab_pair.gcs):
        assert side.counters()["hs_completed"] == 3
        assert len(spans_of(side, "cell-2")) == 3


def _held(lab_pair: Lab, within: str) -> tuple[threading.Event, threading.Event]:
    """Hold the gcs's next handshake before it installs its keys, or within: (it is there, let it go on)."""
    gcs = lab_pair.gcs.agent.endpoint
    entered, go_on = threading.Event(), threading.Event()

    def hold(real: Any) -> Any:
        def held(*given: Any) -> None:
            if threading.current_thread().name.startswith("gcs-handshake") and not entered.is_set():
                entered.set()
                assert go_on.wait(LIMIT_S)
            real(*given)

        return held

    if within == "before":
        assert gcs._acceptor is not None
        hooks = gcs._acceptor._hooks
        object.__setattr__(hooks, "install", hold(hooks.install))
    else:
        real, held = gcs.dataplane.with_session, hold(gcs.dataplane.with_session)
        gcs.dataplane.with_session = lambda action: (  # type: ignore[method-assign]
            held if action.__name__ == "install" else real
        )(action)
    return entered, go_on


def _dial(lab_pair: Lab) -> tuple[threading.Thread, list[str]]:
    outcome: list[str] = []
    drone = lab_pair.drone.agent.endpoint

    def dial() -> None:
        assert drone._dialling is not None
        try:
            drone._dialling.dial(drone.work, SUITE, rekey=False)
            outcome.append("completed")
        except HandshakeError as error:
            outcome.append(error.code)

    thread = threading.Thread(target=dial)
    thread.start()
    return thread, outcome


@pytest.mark.parametrize("meanwhile", ["stop", "stop and prepare", "no cell in the data plane"])
def test_a_handshake_that_outlives_its_cell_ends_with_it(lab_pair: Lab, meanwhile: str) -> None:
    lab_pair.prepare()
    gcs = lab_pair.gcs.agent.endpoint
    first, peer = gcs.work, gcs.dataplane.peer
    entered, go_on = _held(lab_pair, "before")
    thread, outcome = _dial(lab_pair)
    assert entered.wait(LIMIT_S)
    if meanwhile.startswith("stop"):
        lab_pair.gcs.call("stop", cell_id="cell-1")
    else:
        gcs.dataplane.attach(None)
    if meanwhile == "stop and prepare":
        lab_pair.gcs.call("prepare", cell_id="cell-2", suite_id=SUITE)
        lab_pair.gcs.call("start", cell_id="cell-2")
    go_on.set()
    thread.join(LIMIT_S)
    assert outcome == ["peer_alert"]  # and no FinishedGcs
    assert wait_until(lambda: first.counters.snapshot()["hs_failed"] == 1)
    counted = first.counters.snapshot()
    assert counted["hs_started"] == counted["hs_decaps"] == 1 and counted["hs_completed"] == 0
    rows = map(json.loads, first.journal.events.lines(0, 100))
    assert [row["code"] for row in rows if row["event"] == "handshake_failed"] == ["cell_ended"]
    assert first.journal.span_lines(0, 100) == [] and first.book.newest is None
    assert gcs.dataplane.peer == peer
    if meanwhile == "stop and prepare":
        second = gcs.work
        assert second is not first and second.counters.snapshot()["hs_started"] == 0
        assert second.journal.span_lines(0, 100) == [] and second.book.newest is None
        lab_pair.drone.call("stop", cell_id="cell-1")
        lab_pair.drone.call("prepare", cell_id="cell-2", suite_id=SUITE)
        lab_pair.drone.call("start", cell_id="cell-2")
        assert lab_pair.handshakes(1, cell="cell-2")["completed"] == 1
        assert [row["index"] for row in spans_of(lab_pair.gcs, "cell-2").popitem()[1]][:1] == [0]


def test_a_cell_does_not_change_while_keys_go_in(lab_pair: Lab) -> None:
    lab_pair.prepare()
    gcs = lab_pair.gcs.agent.endpoint
    first = gcs.work
    entered, go_on = _held(lab_pair, "within")
    thread, outcome = _dial(lab_pair)
    assert entered.wait(LIMIT_S)

    def change() -> None:
        lab_pair.gcs.call("stop", cell_id="cell-1")
        lab_pair.gcs.call("prepare", cell_id="cell-2", suite_id=SUITE)
        lab_pair.gcs.call("start", cell_id="cell-2")

    changing = threading.Thread(target=change)
    changing.start()
    assert not wait_until(lambda: gcs.work is not first, 0.5)
    go_on.set()
    thread.join(LIMIT_S)
    changing.join(LIMIT_S)
    assert outcome == ["completed"] and gcs.work is not first
    assert wait_until(lambda: first.counters.snapshot()["hs_completed"] == 1)
    assert gcs.work.book.newest is None and gcs.work.counters.snapshot()["hs_completed"] == 0
    # The keys went with their cell: what the drone sends on them is not known here.
    lab_pair.drone.agent.endpoint.dataplane.send_keepalive()
    assert wait_until(lambda: lab_pair.gcs.counters()["unknown_index"] > 0)
    assert lab_pair.gcs.counters()["rx_keepalive"] == 0
