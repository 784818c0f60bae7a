"""The pilot reads inputs, rekeys when the policy asks, tells both outcomes, flies on after a failure."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest

from pqtunnel.agent.streams import hottest_c
from pqtunnel.endpoint.journal import Journal
from pqtunnel.endpoint.pilot import PERIOD_S, RETRY_AFTER_S, ControlInputs, SuitePilot, loss_pct
from pqtunnel.errors import TimedOut
from pqtunnel.inflight import InflightPolicy, Policy, PolicyError, Reading
from waiting import wait_for

START = "cs-mlkem768-aesgcm-mldsa65"
SAVING = "cs-mlkem768-chacha20poly1305-mldsa65"
POLICY = Policy.from_json(
    {
        "floor_level": 3,
        "default": START,
        "dwell_s": 0.001,
        "modes": [
            {"name": "saving", "suite": SAVING, "when": {"battery_pct": {"below": 30, "leave_above": 35}}},
        ],
    }
)


class Flight:
    """A pilot with a battery that the test sets, and a rekey that fails when told to."""

    def __init__(self) -> None:
        self.battery_pct: float | None = 80.0
        self.asked: list[str] = []
        self.fails = False
        self.journal = Journal("drone")
        self.pilot = SuitePilot(InflightPolicy(POLICY, START), self.read, self.rekey, self.journal)

    def read(self) -> Mapping[str, Reading | None]:
        if self.battery_pct is None:
            return {"battery_pct": None}
        return {"battery_pct": Reading(self.battery_pct, time.monotonic_ns(), True, "control")}

    def rekey(self, suite_id: str) -> None:
        self.asked.append(suite_id)
        if self.fails:
            raise TimedOut("no answer")

    def switches(self) -> list[tuple[bool, str]]:
        rows = [json.loads(line) for line in self.journal.events.lines(0, 100)]
        return [(row["ok"], row["suite_to"]) for row in rows if row["event"] == "policy_switch"]


def test_a_switch_is_one_rekey_and_one_row() -> None:
    flight = Flight()
    assert flight.pilot.step() == PERIOD_S and flight.asked == []
    flight.battery_pct = 20.0
    flight.pilot.step()
    flight.pilot.step()
    assert flight.asked == [SAVING] and flight.switches() == [(True, SAVING)]
    flight.battery_pct = None
    flight.pilot.step()
    assert flight.asked == [SAVING], "a silent battery does not end the mode"
    flight.battery_pct = 90.0
    time.sleep(0.002)
    flight.pilot.step()
    assert flight.asked == [SAVING, START]


def test_a_failed_rekey_is_told_and_tried_again() -> None:
    flight = Flight()
    flight.battery_pct, flight.fails = 20.0, True
    assert flight.pilot.step() == RETRY_AFTER_S
    flight.fails = False
    assert flight.pilot.step() == PERIOD_S
    assert flight.switches() == [(False, SAVING), (True, SAVING)]


def test_it_flies_only_while_the_gate_is_open() -> None:
    flight = Flight()
    flight.battery_pct = 20.0
    assert not flight.pilot.is_open
    flight.pilot.open()
    flight.pilot.open()
    wait_for(lambda: bool(flight.asked))
    flight.pilot.close()
    assert flight.asked == [SAVING]


def row(rx_data: int, gap: int) -> list[int]:
    return [rx_data, 0, rx_data, 0, 0, 0, 0, 0, 0, gap, 0, 0]


def test_loss_is_what_authenticated_sequences_miss_in_the_last_whole_second() -> None:
    bins = [(100 + k, row(6, 0)) for k in range(25)] + [(125 + k, row(4, 2)) for k in range(25)]
    assert loss_pct(bins, 150) == pytest.approx(100 * 50 / 300)
    assert loss_pct(bins, 250) is None, "nothing has come for a second: that is silence, not a figure"
    assert loss_pct([(149, row(5, 5))], 150) is None, "ten datagrams tell nothing"


def test_control_tells_only_inputs_that_exist() -> None:
    inputs = ControlInputs()
    inputs.put({"battery_pct": 40.0}, 7)
    reading = inputs.get("battery_pct")
    assert reading is not None and (reading.value, reading.t_ns, reading.authentic) == (40.0, 7, True)
    assert inputs.get("loss_pct") is None
    with pytest.raises(PolicyError, match="wind"):
        inputs.put({"wind": 3.0}, 8)


def test_the_hottest_zone_counts_and_none_is_none() -> None:
    lines = [
        "pq_temp,host=drone,ring=hardware,zone=thermal_zone0-cpu temperature_c=61.5 1",
        "pq_temp,host=drone,ring=hardware,zone=hwmon1-rp1\\ adc-temp1 temperature_c=48 1",
        "pq_cpu,host=drone,ring=hardware system_pct=99 1",
    ]
    assert hottest_c(lines) == 61.5
    assert hottest_c(lines[2:]) is None
