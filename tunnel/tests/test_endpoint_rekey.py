"""Rekeys between two endpoints under traffic: nothing is lost, and every way they fail leaves the old epoch
alone."""

from __future__ import annotations

import json
import math
import threading
import time
from typing import Any

import pytest
from endpoint_kit import SUITE, Lab, Side

from pqtunnel.endpoint import endpoint as endpoint_module
from pqtunnel.endpoint import rekeyer as rekeyer_module
from pqtunnel.endpoint.pilot import SuitePilot
from pqtunnel.endpoint.work import CellWork
from pqtunnel.errors import HandshakeError
from pqtunnel.rpc import RemoteError, fetch_all
from waiting import LIMIT_S, OUTSTANDING, wait_until

pytestmark = pytest.mark.native
#: both data planes pass the same tests
PLANES = ("python", "native")
OTHER = "cs-mlkem768-chacha20poly1305-mldsa65"
HZ = 320


class Uniform:
    """Sends numbered datagrams from one plaintext peer to the other at 320 Hz until it is left."""

    def __init__(self, source: Side, sink: Side) -> None:
        self.sent = 0
        self.received: list[bytes] = []
        self._source, self._sink = source, sink
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]

    def __enter__(self) -> Uniform:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        start_s = time.monotonic()
        while not self._ended.wait(max(0.001, start_s + self.sent / HZ - time.monotonic())):
            if self.sent - len(self.received) < OUTSTANDING:
                self._source.plain.send(b"%08d" % self.sent)
                self.sent += 1

    def _receive(self) -> None:
        self._sink.plain.socket.settimeout(0.1)
        quiet, end_s = 0, math.inf
        while quiet < 3 and time.monotonic() < end_s:
            try:
                payload = self._sink.plain.socket.recv(2048)
            except TimeoutError:
                if self._ended.is_set():  # until all has come, and a while for what would come twice
                    end_s = min(end_s, time.monotonic() + LIMIT_S)
                    quiet = quiet + 1 if len(self.received) >= self.sent else 0
                continue
            if payload:
                self.received.append(payload)

    @property
    def is_whole(self) -> bool:
        """Was everything delivered once?"""
        return sorted(self.received) == [b"%08d" % number for number in range(self.sent)]


def events(side: Side, name: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in fetch_all(side.rpc, "cell-1", "events")]
    return [row for row in rows if row["event"] == name]


def test_ten_rekeys_under_traffic_both_ways_lose_nothing(lab_pair: Lab) -> None:
    lab_pair.prepare(accepted_suites=[SUITE, OTHER])
    lab_pair.handshakes(2)
    lab_pair.event("rekey_schedule", every_s=0.25, count=10, suites=[OTHER, SUITE], start_s=0.1)
    lab_pair.open()
    with Uniform(lab_pair.drone, lab_pair.gcs) as down, Uniform(lab_pair.gcs, lab_pair.drone) as up:
        assert wait_until(lambda: lab_pair.drone.counters()["rekey_completed"] == 10 and down.sent > 300)
        time.sleep(0.3)
    lab_pair.shut()
    drone, gcs = lab_pair.stop()
    assert down.is_whole and up.is_whole and down.sent > 300
    assert drone["digest_tx"] == gcs["digest_rx"] and gcs["digest_tx"] == drone["digest_rx"]
    for counted in (drone, gcs):
        for name in ("not_ready", "old_epoch", "unknown_index", "auth_failed", "replay", "bad_header"):
            assert counted[name] == 0, name
    assert gcs["tx_epoch_ack"] == drone["rx_epoch_ack"] == 12
    assert drone["windows"]["traffic"]["rekey_completed"] == drone["rekey_started"] == 10
    rows = events(lab_pair.drone, "rekey")
    assert [(row["epoch_from"], row["epoch_to"]) for row in rows] == [(n, n + 1) for n in range(1, 11)]
    assert [row["suite_to"] for row in rows] == [OTHER, SUITE] * 5
    assert all(row["suite_from"] != row["suite_to"] and row["result"] == "completed" for row in rows)
    assert all(row["start_ns"] < row["switch_ns"] < row["end_ns"] + LIMIT_S * 10**9 for row in rows)
    spans = [json.loads(line) for line in fetch_all(lab_pair.gcs.rpc, "cell-1", "spans")]
    named = {row["handshake_id"]: row for row in spans if row["purpose"] == row["mode"] == "rekey"}
    assert set(named) == {row["handshake_id"] for row in rows}
    assert {row["suite_id"] for row in named.values()} == {SUITE, OTHER}


def test_a_gcs_forgets_what_nobody_may_rekey_any_more(lab_pair: Lab) -> None:
    lab_pair.prepare()
    lab_pair.handshakes()
    gcs, drone = lab_pair.gcs.agent.endpoint.work.book, lab_pair.drone.agent.endpoint.work.book
    old = drone.newest
    assert old is not None and gcs.basis(old.session_id) is not None
    lab_pair.event("rekey")
    assert drone.basis(old.session_id) is None
    assert wait_until(lambda: gcs.basis(old.session_id) is None)  # with no further rekey
    assert drone.newest is not None and gcs.basis(drone.newest.session_id) is not None
    assert lab_pair.event("rekey")["result"] == "completed"


def test_a_rekey_outside_the_accepted_suites_is_refused_and_costs_nothing(lab_pair: Lab) -> None:
    lab_pair.prepare()
    with pytest.raises(RemoteError) as caught:
        lab_pair.event("rekey")
    assert caught.value.code == "bad_state"
    lab_pair.handshakes()
    with pytest.raises(RemoteError) as caught:
        lab_pair.event("rekey", suite_id=OTHER)
    assert caught.value.code == "rekey_refused"
    assert lab_pair.drone.counters()["rekey_started"] == 0
    for side, kind in ((lab_pair.gcs, "rekey"), (lab_pair.drone, "request_rekey")):
        with pytest.raises(RemoteError) as caught:
            side.call("event", cell_id="cell-1", kind=kind)
        assert caught.value.code == "wrong_role"


def test_the_gcs_asks_and_the_drone_rekeys_to_the_suite_asked_for(lab_pair: Lab) -> None:
    lab_pair.prepare(accepted_suites=[SUITE, OTHER])
    lab_pair.handshakes()
    answer = lab_pair.gcs.call("event", cell_id="cell-1", kind="request_rekey", suite_id=OTHER)
    assert answer == {"requested": True, "epoch": 0}
    # The row follows the count: it holds when the new epoch began to carry packets.
    assert wait_until(lambda: events(lab_pair.drone, "rekey") != [])
    assert lab_pair.drone.counters()["rekey_completed"] == 1
    row = events(lab_pair.drone, "rekey")[0]
    assert (row["suite_to"], row["reason"]) == (OTHER, "asked")
    asked = lab_pair.gcs.counters()["tx_rekey_request"]
    time.sleep(1.3)  # it would be asked again after a second, were it not done
    assert lab_pair.gcs.counters()["tx_rekey_request"] == asked >= 1
    assert lab_pair.drone.counters()["rekey_started"] == 1
    assert lab_pair.event("rekey")["suite_id"] == OTHER  # the suite in use stays in use


def test_triggers_during_a_rekey_join_it(lab_pair: Lab) -> None:
    lab_pair.prepare()
    lab_pair.handshakes()
    gcs = lab_pair.gcs.agent.endpoint
    acceptor = gcs._acceptor
    assert acceptor is not None
    entered, go_on = threading.Event(), threading.Event()
    hook = acceptor._hooks.new_index

    def hold() -> int:
        entered.set()
        assert go_on.wait(LIMIT_S)
        return hook()

    object.__setattr__(acceptor._hooks, "new_index", hold)
    drone, results = lab_pair.drone.agent.endpoint, []
    threads = [threading.Thread(target=lambda: results.append(drone.rekey(None, "test"))) for _ in range(5)]
    threads[0].start()
    assert entered.wait(LIMIT_S)
    for thread in threads[1:]:
        thread.start()
    assert wait_until(lambda: lab_pair.drone.counters()["rekey_coalesced"] == 4)
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(results) == 5 and len(set(results)) == 1
    assert lab_pair.drone.counters()["rekey_completed"] == 1


def test_triggers_of_a_long_rekey_to_another_suite_start_one_thread_at_most(
    lab_pair: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch that is due is a trigger ten times a second, and a request of the gcs comes each second."""
    lab_pair.prepare(accepted_suites=[SUITE, OTHER])
    lab_pair.handshakes()
    drone = lab_pair.drone.agent.endpoint
    work, rekeyer, dialling = drone.work, drone.renewal.rekeyer, drone._dialling
    assert dialling is not None
    entered, go_on, dial = threading.Event(), threading.Event(), dialling.dial

    def held(*given: Any, **named: Any) -> Any:
        entered.set()
        assert go_on.wait(LIMIT_S)
        return dial(*given, **named)

    def waiting() -> int:
        return sum(thread.name == "drone-rekey" for thread in threading.enumerate())

    monkeypatch.setattr(dialling, "dial", held)
    rekeyer.start(work, OTHER, "asked")
    assert entered.wait(LIMIT_S)
    for _ in range(30):
        rekeyer.start(work, None, "due")
    assert waiting() == 1, "what is due is satisfied by any rekey"
    for _ in range(30):
        rekeyer.start(work, SUITE, "asked")
    assert waiting() == 2, "one waits for its turn"
    assert lab_pair.drone.counters()["rekey_coalesced"] == 30 + 29
    go_on.set()
    assert wait_until(lambda: waiting() == 0)
    assert [row["suite_to"] for row in events(lab_pair.drone, "rekey")] == [OTHER, SUITE]
    rekeyer.start(work, SUITE, "asked")
    assert wait_until(lambda: len(events(lab_pair.drone, "rekey")) == 3), "an ended one bars nobody"


def test_a_rekey_that_gets_no_thread_bars_no_later_one(
    lab_pair: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_pair.prepare()
    lab_pair.handshakes()
    drone = lab_pair.drone.agent.endpoint
    start = threading.Thread.start

    def refusing(thread: threading.Thread) -> None:
        if thread.name == "drone-rekey":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refusing)
    drone.renewal.rekeyer.start(drone.work, None, "due")
    assert any("can't start new thread" in line for line in drone.work.journal.log.lines(0, 100))
    monkeypatch.undo()
    drone.renewal.rekeyer.start(drone.work, None, "due")
    assert wait_until(lambda: events(lab_pair.drone, "rekey") != [])


def test_a_rekey_does_not_join_one_of_a_cell_that_is_over(
    lab_pair: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_module, "HANDSHAKE_END_LIMIT_S", 0.1)
    lab_pair.prepare()
    lab_pair.handshakes()
    drone = lab_pair.drone.agent.endpoint
    first, dialling = drone.work, drone._dialling
    assert dialling is not None
    entered, go_on, dial = threading.Event(), threading.Event(), dialling.dial

    def held(work: CellWork, *given: Any, **named: Any) -> Any:
        if work is first:
            entered.set()
            assert go_on.wait(2 * LIMIT_S)
        return dial(work, *given, **named)

    monkeypatch.setattr(dialling, "dial", held)
    results: dict[str, Any] = {}

    def rekey(name: str) -> None:
        try:
            results[name] = drone.rekey(None, "test").result
        except HandshakeError as error:
            results[name] = error.code

    threads = {name: threading.Thread(target=rekey, args=(name,)) for name in ("old", "new")}
    threads["old"].start()
    assert entered.wait(LIMIT_S)
    lab_pair.stop()
    lab_pair.prepare(cell="cell-2")
    lab_pair.handshakes(cell="cell-2")
    threads["new"].start()
    threads["new"].join(LIMIT_S)
    in_time = dict(results)
    go_on.set()
    for thread in threads.values():
        thread.join(LIMIT_S)
    assert in_time == {"new": "completed"} and results["old"] == "cell_ended"
    counted = lab_pair.drone.counters()
    assert (counted["rekey_started"], counted["rekey_completed"], counted["rekey_coalesced"]) == (1, 1, 0)
    assert drone.rekey(None, "test").result == "completed"


def test_a_failed_rekey_leaves_the_epoch_alone_and_is_tried_again(
    lab_pair: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_pair.flowing()
    gcs = lab_pair.gcs.agent.endpoint
    live, gcs._live = gcs._live, False  # every connection is closed at once now
    thread = threading.Thread(target=lambda: lab_pair.drone.agent.endpoint.rekey(None, "test"))
    thread.start()
    assert wait_until(lambda: lab_pair.drone.counters()["rekey_failed"] == 1)
    lab_pair.drone.plain.send(b"on the old epoch")
    assert lab_pair.gcs.plain.receive() == b"on the old epoch"
    gcs._live = live
    thread.join()
    lab_pair.drone.plain.send(b"on the new one")
    assert lab_pair.gcs.plain.receive() == b"on the new one"
    counted = lab_pair.drone.counters()
    assert counted["rekey_completed"] == 1 and counted["rekey_started"] == counted["rekey_failed"] + 1
    results = [row["result"] for row in events(lab_pair.drone, "rekey")]
    assert results == ["failed"] * (len(results) - 1) + ["completed"]
    monkeypatch.setattr(rekeyer_module, "ATTEMPTS", 1)
    gcs._live = False
    with pytest.raises(RemoteError) as caught:
        lab_pair.event("rekey")
    assert caught.value.code == "connection_lost"


def test_a_restarted_gcs_answers_session_unknown_and_gets_a_new_session_at_once(lab_pair: Lab) -> None:
    lab_pair.prepare()
    lab_pair.handshakes()
    lab_pair.gcs.call("stop", cell_id="cell-1")  # the gcs forgets its keys, as a restarted one would
    lab_pair.gcs.call("prepare", cell_id="cell-1", suite_id=SUITE)
    lab_pair.gcs.call("start", cell_id="cell-1")
    answer = lab_pair.event("rekey")
    assert answer["result"] == "new_session" and answer["epoch"] == 1
    assert events(lab_pair.drone, "redial") == []  # not after 3 s of silence
    lab_pair.open()
    lab_pair.drone.plain.send(b"again")
    assert lab_pair.gcs.plain.receive() == b"again"
    assert lab_pair.drone.counters()["hs_session_unknown"] == 1
    # counted when the refused connection is closed, which may be after the next handshake
    assert wait_until(lambda: lab_pair.gcs.counters()["hs_session_unknown"] == 1)
    assert [row["result"] for row in events(lab_pair.drone, "rekey")] == ["new_session"]
    assert lab_pair.event("rekey")["result"] == "completed"


def test_a_rekey_runs_while_a_traffic_run_blocks(lab_pair: Lab) -> None:
    lab_pair.flowing()
    told: list[str] = []

    def run() -> None:
        run = {"cell_id": "cell-1", "kind": "traffic_run", "window": "traffic", "duration_s": 2 * LIMIT_S}
        with lab_pair.drone.client() as other:
            try:
                other.call("event", run, timeout_s=2 * LIMIT_S)
            except RemoteError as error:
                told.append(error.code)

    blocked = threading.Thread(target=run)
    blocked.start()
    time.sleep(0.2)
    assert lab_pair.event("rekey")["epoch"] == 1
    assert blocked.is_alive()
    lab_pair.stop()
    blocked.join()
    assert told == ["bad_state"], "it ran until the cell was stopped"


def test_the_policy_knows_of_a_switch_that_it_did_not_make(lab_pair: Lab) -> None:
    lab_pair.prepare(accepted_suites=[SUITE, OTHER])
    lab_pair.handshakes()
    saving = {"name": "saving", "suite": OTHER, "when": {"battery_pct": {"below": 30, "leave_above": 35}}}
    policy = {"floor_level": 3, "default": SUITE, "dwell_s": 0.001, "modes": [saving]}
    lab_pair.event("policy", policy=policy)
    pilot = lab_pair.drone.agent.endpoint.work.schedule
    assert isinstance(pilot, SuitePilot)

    def switches() -> list[tuple[str, str]]:
        return [(row["suite_from"], row["suite_to"]) for row in events(lab_pair.drone, "policy_switch")]

    pilot.step()
    assert switches() == []
    lab_pair.event("rekey", suite_id=OTHER)
    lab_pair.event("policy_input", values={"battery_pct": 20.0})
    pilot.step()
    assert switches() == [], "the mode's suite is in use already"
    lab_pair.event("policy_input", values={"battery_pct": 90.0})
    pilot.step()
    assert switches() == [(OTHER, SUITE)]
    lab_pair.event("rekey", suite_id=OTHER)
    time.sleep(0.002)
    pilot.step()
    assert switches() == [(OTHER, SUITE)] * 2, "no mode is in force: back to the default"
