# ruff: noqa: E501 - a row of a table stays on its line
"""The doctor asks both ends: silence, wrong role, unequal builds, a clock that is off, a stub for a sensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pqevidence.errors import LabError
from pqlab.doctor import pair as both
from pqlab.doctor.model import Finding, examine
from pqlab.doctor.system import System
from pqlab.inventory import AgentAddress, Inventory, load_inventory

Json = dict[str, Any]
SENSOR: Json = {"name": "power", "sensor": "ina219", "sensor_class": "chip", "available": True, "reason": None,
                "raw": True, "rate_hz": 1000.0, "adc": "11bit"}  # fmt: skip


def hello(role: str, **more: Any) -> Json:
    host = {"hostname": role, "machine": "aarch64", "kernel": "6.12", "board_revision": "00c03115"}
    return {
        "role": role,
        "ring": "hardware",
        "state": "idle",
        "protocol_version": 1,
        "host": host,
        "providers": {"liboqs": {"version": "0.13.0", "sha256": "ab" * 32}},
        "sensors": [],
        "selftest": {"ok": True, "items": [{"name": "mlkem768", "ok": True}]},
        **more,
    }


class Agent:
    """An agent whose clock is `offset_ns` off and whose answers take 2 ms there and 2 ms back, once 0.1 ms."""

    def __init__(self, facts: Json, offset_ns: int, clock: list[int]) -> None:
        self._facts, self._offset_ns, self._clock, self._calls = facts, offset_ns, clock, 0

    def call(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Json:
        if method == "hello":
            return self._facts
        self._calls += 1
        way_ns = 100_000 if self._calls == 5 else 2_000_000
        late_ns = 0 if self._calls == 5 else 1_500_000  # the way back is slower: a biased sample
        self._clock[0] += way_ns
        there = self._clock[0] + self._offset_ns
        self._clock[0] += way_ns + late_ns
        return {"t_ns": there}

    def close(self) -> None: ...


def findings(
    ends: dict[str, Json | str], offsets_ns: dict[str, int] | None = None, ring: str = "hardware"
) -> dict[str, Finding]:
    clock = [10**18]

    def connect(address: AgentAddress) -> Agent:
        end = ends[address.role]
        if isinstance(end, str):
            raise LabError("agent-unreachable", end, "", "")
        return Agent(end, (offsets_ns or {}).get(address.role, 0), clock)

    inventory = Inventory(
        Path("x"),
        {role: AgentAddress(role, role, "192.0.2.1", 48080) for role in ("drone", "gcs")},
        ring,
        Path("keys"),
        None,
        "pqlab",
        None,
    )
    asked = both.ask(inventory, connect, lambda: clock[0])
    return {row.name: row for row in examine(both.requirements(asked), System(Path()))}


def test_a_good_pair_is_fine() -> None:
    rows = findings({"drone": hello("drone", sensors=[SENSOR]), "gcs": hello("gcs")}, {"drone": 3_000_000})
    assert {row.name: row.status for row in rows.values() if row.status != "ok"} == {}
    assert rows["drone clock"].observed == "+3.000 ms ± 0.100 ms of this machine's"
    assert rows["drone power"].observed == "ina219, class chip, 1000 Hz at 11bit"
    hosts = {name: row.host for name, row in rows.items()}
    assert hosts["drone agent"] == hosts["drone power"] == "drone, drone at 192.0.2.1:48080"
    assert (hosts["gcs clock"], hosts["ring"]) == ("gcs, gcs at 192.0.2.1:48080", "both ends")


@pytest.mark.parametrize(
    ("change", "name", "status", "says"),
    [
        ({"gcs": "no gcs agent at 192.0.2.1:48080: Connection refused"}, "gcs agent", "fail", "Connection refused"),
        ({"gcs": "gone"}, "providers", "fail", "gcs did not answer"),
        ({"gcs": hello("drone")}, "gcs agent", "fail", "there the drone answers"),
        ({"gcs": hello("gcs", ring="lab")}, "ring", "fail", "gcs lab"),
        ({"drone": hello("drone", host={**hello("x")["host"], "board_revision": None})}, "ring", "fail", "no board revision"),
        ({"gcs": hello("gcs", providers={"liboqs": {"version": "0.14.0", "sha256": "ab" * 32}})}, "providers", "fail", "0.14.0"),
        ({"gcs": hello("gcs", protocol_version=2)}, "providers", "fail", "protocol (1 and 2)"),
        ({"drone": hello("drone", selftest={"ok": False, "items": [{"name": "falcon512", "ok": False}]})}, "drone agent", "fail", "falcon512"),
        ({}, "drone power", "note", "watts are null"),
        ({"drone": hello("drone", sensors=[{"name": "power", "available": False, "reason": "busy", "hint": "unbind it"}])}, "drone power", "note", "busy"),
    ],
)  # fmt: skip
def test_each_thing_amiss_is_found(change: dict[str, Json | str], name: str, status: str, says: str) -> None:
    rows = findings({"drone": hello("drone"), "gcs": hello("gcs"), **change})
    assert rows[name].status == status
    assert says in rows[name].observed
    assert rows[name].advice


def test_a_clock_that_is_off_is_a_warning() -> None:
    row = findings({"drone": hello("drone"), "gcs": hello("gcs")}, {"gcs": -80_000_000})["gcs clock"]
    assert row.status == "warn"
    assert row.observed.startswith("-80.000 ms")


def test_other_architectures_need_not_have_equal_binaries() -> None:
    other = hello(
        "gcs",
        host={**hello("x")["host"], "machine": "AMD64"},
        providers={"liboqs": {"version": "0.13.0", "sha256": "cd" * 32}},
    )
    assert findings({"drone": hello("drone"), "gcs": other})["providers"].status == "ok"


def test_ring_lab_is_one_machine_and_what_it_emulates() -> None:
    def rings(cpu_model: str) -> Finding:
        ends: dict[str, Json | str] = {
            role: hello(role, ring="lab", host={**hello(role)["host"], "boot_id": role, "cpu_model": model})
            for role, model in (("drone", cpu_model), ("gcs", "Xeon"))
        }
        return findings(ends, ring="lab")["ring"]

    assert rings("QEMU TCG CPU version 2.5+").status == "ok"
    two = rings("Cortex-A76")
    assert (two.status, two.observed) == ("fail", "ring lab is one machine's, and these are two")


def test_watts_of_a_stub_are_called_synthetic() -> None:
    stub = {**SENSOR, "sensor": "ina219-stub", "sensor_class": "stub-bus"}
    row = findings({"drone": hello("drone", sensors=[stub]), "gcs": hello("gcs")})["drone power"]
    assert "synthetic" in row.observed


def test_the_emulated_pi_is_an_inventory_of_the_lab() -> None:
    found = load_inventory(str(Path(__file__).resolve().parents[2] / "ansible/inventories/emulated-pi.ini"))
    assert found.ring == "lab"
    assert (found.agents["drone"].host, found.agents["drone"].port) == ("127.0.0.1", 48081)
