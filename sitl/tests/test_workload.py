"""A session's workload: the ground's program against the embedded vehicle."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.errors import SpecError
from pqsitl.net import UdpLink
from pqsitl.profile import load_profile
from pqsitl.service import TrafficService
from pqsitl.sources import EmbeddedSource
from pqsitl.spec import TrafficSpec
from pqsitl.steps import CUT, NOT_DUE, NS, dues, steps_of
from pqsitl.uplink import UplinkProbe, UplinkSource
from pqsitl.vehicle import EmbeddedVehicle
from pqsitl.workload import QUESTIONS, RETRY_NS, WorkloadClient, mission_items
from waiting import wait_for

Json = dict[str, Any]
MS = 1_000_000
MISSION: list[Json] = [
    {"kind": "mission_upload", "at_s": 0.1, "waypoints": 7},
    {"kind": "param_download", "at_s": 0.2, "count": 5},
    {"kind": "auto", "at_s": 1},
    {"kind": "mode", "at_s": 1.5, "mode": "GUIDED"},
    {"kind": "command", "at_s": 0.3, "rate_hz": 10, "for_s": 2},
    {"kind": "param_download", "at_s": 1.2},
]


class World:
    """Client and vehicle in virtual time; `lost` says of each frame whether it gets there."""

    def __init__(
        self,
        steps: list[Json],
        lost: Callable[[str, bytes], bool] = lambda way, frame: False,
        way_ms: float = 20,
    ) -> None:
        self.client = WorkloadClient(steps_of(steps), 7)
        self.vehicle = EmbeddedVehicle(load_profile("intervals_320hz"), 320, 7, 0)
        self._probe = UplinkProbe(0)
        self._lost, self._way_ns = lost, round(way_ms * MS)
        self._flying: list[tuple[int, str, bytes]] = []

    def run(self, end_s: float) -> Json:
        self.client.begin(0)
        for now_ns in range(0, round(end_s * NS), 5 * MS):
            due = [one for one in self._flying if one[0] <= now_ns]
            self._flying = [one for one in self._flying if one[0] > now_ns]
            for _, way, frame in due:
                if way == "up":
                    self._send("down", self.vehicle.receive(frame, now_ns), now_ns)
                else:
                    self._ask(self.client.receive(frame, now_ns), now_ns)
            self.vehicle.fly(now_ns)
            self._send("down", self.vehicle.poll_beside(now_ns), now_ns)
            self._ask(self.client.poll(now_ns), now_ns)
        return self.client.report()

    def _ask(self, messages: list[Any], now_ns: int) -> None:
        self._send("up", [self._probe.frame(message) for message in messages], now_ns)

    def _send(self, way: str, frames: list[bytes], now_ns: int) -> None:
        self._flying += [(now_ns + self._way_ns, way, f) for f in frames if not self._lost(way, f)]


def of_kind(report: Json, kind: str) -> list[Json]:
    return [row for row in report["rows"] if row["kind"] == kind]


def test_every_step_is_carried_out_and_acknowledged() -> None:
    world = World(MISSION)
    report = world.run(6)
    assert [row["reason"] for row in report["rows"]] == [None] * 25
    assert all(row["result"] == 0 and row["retries_count"] == 0 for row in report["rows"])
    assert all(row["due_ns"] <= row["sent_ns"] < row["acknowledged_ns"] for row in report["rows"])
    assert of_kind(report, "mission_upload")[0]["items_count"] == 8, "seven and home's own place"
    assert [row["items_count"] for row in of_kind(report, "param_download")] == [5, len(world.vehicle.params)]
    assert len(of_kind(report, "command")) == 20
    assert {row["command"] for row in of_kind(report, "command")} == {"MAV_CMD_RUN_PREARM_CHECKS"}
    assert world.vehicle.mission.count(0) == 8
    assert world.vehicle.flight.state.mode == 4, "AUTO for half a second, then GUIDED"
    told = world.vehicle.beside.as_dict()["kinds"]
    assert isinstance(told, dict) and told["COMMAND_ACK"] == report["heard"]["COMMAND_ACK"] == 22
    assert report["sent"]["COMMAND_LONG MAV_CMD_RUN_PREARM_CHECKS"] == 20


def test_what_is_lost_is_asked_for_again() -> None:
    counts = {"up": 0, "down": 0}

    def every_fourth(way: str, frame: bytes) -> bool:
        counts[way] += 1
        return counts[way] % 4 == 0

    steps = [{**step, "limit_s": 60} for step in MISSION]
    report = World(steps, every_fourth).run(90)
    assert [row["reason"] for row in report["rows"] if row["kind"] != "mission_upload"] == [None] * 24
    assert sum(row["retries_count"] for row in report["rows"]) > 5
    assert of_kind(report, "param_download")[1]["items_count"] == 371


def test_a_late_acknowledgement_belongs_to_no_later_command() -> None:
    """What is sent twice is acknowledged twice; the second acknowledgement is not the next command's."""
    steps = [{"kind": "command", "at_s": 0, "rate_hz": 1, "for_s": 3}]
    report = World(steps, way_ms=900).run(12)  # a round trip of 1.8 s, above the time to repeat
    first, second, _ = report["rows"]
    assert first["retries_count"] == 1
    assert second["command"] != first["command"]
    for row in report["rows"]:
        assert row["acknowledged_ns"] - row["sent_ns"] >= 1_800 * MS
    assert second["sent_ns"] > second["due_ns"], "one at a time: it had to wait, and both moments are told"


def test_no_answer_is_null_with_its_reason_and_never_zero() -> None:
    report = World([{"kind": "auto", "at_s": 0, "limit_s": 4}], lambda way, frame: way == "down").run(6)
    (row,) = report["rows"]
    assert (row["acknowledged_ns"], row["result"]) == (None, None)
    assert row["reason"] == "no answer within 4 s"
    assert row["retries_count"] == (4 * NS - 1) // RETRY_NS


def test_the_end_of_the_session_is_a_reason_of_its_own() -> None:
    steps = [{"kind": "auto", "at_s": 0.5}, {"kind": "mode", "mode": "LOITER", "at_s": 60}]
    report = World(steps, lambda way, frame: way == "down").run(1)
    assert [row["reason"] for row in report["rows"]] == [CUT, NOT_DUE]
    assert report["rows"][1]["sent_ns"] is None


def test_a_refusal_is_an_answer() -> None:
    (row,) = World([{"kind": "auto", "at_s": 0}]).run(1)["rows"]
    assert row["result"] == mav.MAV_RESULT_FAILED, "there is no mission"
    assert row["acknowledged_ns"] is not None and row["reason"] is None


def test_the_plan_follows_from_the_seed() -> None:
    steps = steps_of(MISSION)
    assert dues(steps, 3) == dues(steps, 3) != dues(steps, 4)
    command = [due for due in dues(steps, 3) if due.step == 4]
    for due in command:
        assert 0.3 + due.number * 0.1 <= due.at_ns / NS < 0.3 + (due.number + 1) * 0.1
    assert [item.x for item in mission_items(3, 1)] == [item.x for item in mission_items(3, 1)]
    assert len({command for command, _ in QUESTIONS}) == 4


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({"kind": "comand", "at_s": 1}, "did you mean 'command'"),
        ({"kind": "auto", "at_s": 1, "limits": 2}, "did you mean 'limit_s'"),
        ({"kind": "auto", "at_s": 1, "waypoints": 2}, "takes no `waypoints`"),
        ({"kind": "mission_upload", "at_s": 1}, "lacks `waypoints`"),
        ({"kind": "mode", "at_s": 1, "mode": "ACRO"}, "modes: AUTO"),
        ({"kind": "command", "at_s": 1, "rate_hz": 1000, "for_s": 100}, "at most 5000"),
        ({"kind": "auto", "at_s": "soon"}, "at_s is a number"),
    ],
)
def test_a_step_that_cannot_be_is_refused(step: Json, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        TrafficSpec.from_mapping({"workload": [step]})
    assert told in f"{caught.value} {caught.value.hint}"


def test_only_the_uplink_takes_a_workload() -> None:
    link = UdpLink(("127.0.0.1", 9))
    service = TrafficService("vehicle", {"embedded": lambda spec: EmbeddedSource(link, spec)})
    with pytest.raises(SpecError, match="asks the vehicle for nothing"):
        service.handle(
            {"op": "start", "spec": {"source": "embedded", "workload": [{"kind": "auto", "at_s": 1}]}}
        )
    link.close()


def test_both_programs_over_loopback() -> None:
    """The ground's source and the vehicle's, each with its thread, and nothing between them but a wire."""
    wire = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for end in wire:
        end.bind(("127.0.0.1", 0))
        end.settimeout(0.1)
    vehicle_link, ground_link = (UdpLink(end.getsockname()) for end in wire)
    homes = [vehicle_link.socket.getsockname(), ground_link.socket.getsockname()]
    ended = threading.Event()

    def pass_on(here: int) -> None:
        while not ended.is_set():
            try:
                wire[1 - here].sendto(wire[here].recv(2048), homes[1 - here])
            except TimeoutError:
                continue

    threads = [threading.Thread(target=pass_on, args=(here,)) for here in (0, 1)]
    steps = [
        {"kind": "mission_upload", "at_s": 0.1, "waypoints": 3, "limit_s": 300},
        {"kind": "command", "at_s": 0, "rate_hz": 50, "for_s": 1, "limit_s": 300},
        {"kind": "mode", "at_s": 0.1, "mode": "LOITER", "limit_s": 300},
        {"kind": "param_download", "at_s": 0, "count": 9, "limit_s": 300},
    ]
    vehicle = EmbeddedSource(vehicle_link, TrafficSpec.from_mapping({"rate_hz": 40}))
    ground = UplinkSource(ground_link, TrafficSpec.from_mapping({"workload": steps}))
    try:
        for thread in threads:
            thread.start()
        ground.start()
        vehicle.start()
        wait_for(lambda: all(row["acknowledged_ns"] for row in ground.report()["workload"]["rows"]))  # type: ignore[index]
    finally:
        told, heard = ground.stop(), vehicle.stop()
        ended.set()
        for thread in threads:
            thread.join()
        for closing in (*wire, vehicle_link, ground_link):
            closing.close()
    assert told["error"] is None and heard["error"] is None
    workload: Any = told["workload"]
    assert [row["result"] for row in workload["rows"]] == [0] * 53
    senders = {(row["system"], row["component"]): row["frames"] for row in heard["uplink"]}  # type: ignore[attr-defined]
    counted = {kind: senders[255, 190][kind] for kind in workload["sent"]}
    assert counted == workload["sent"], "the vehicle counted what the ground sent"
    answered: Any = heard["beside"]
    assert answered["kinds"]["COMMAND_ACK"] == workload["heard"]["COMMAND_ACK"]
