"""Containers that die or stand still by themselves in the middle of a cell: each is named and put back."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busy import BUSY_OK, disturbed

from .conftest import ROOT, container, docker, load_records, pqlab

pytestmark = [pytest.mark.e2e, pytest.mark.beside_waits, pytest.mark.usefixtures("lab")]

SUITE = "cs-mlkem768-aesgcm-mldsa65"


def look_at_the_live_view() -> None:
    """Its queries of a run at work against the real database, until traffic of a cell is there."""
    end_s = time.monotonic() + 60
    while True:
        document = pqlab("live", "--once").json()
        panels = {panel["id"]: panel for panel in document["panels"]}
        series = {line["name"]: [v for _, v in line["points"]] for line in panels["link"]["series"]}
        if max(series.get("drone sent", [0])) > 100:  # of 320 Hz
            break
        assert time.monotonic() < end_s, document
        time.sleep(0.5)
    assert document["influx"] == {"ok": True, "why": None}
    assert document["run"]["state"] == "running" and document["moment"] in ("first", "running")
    assert {line["name"] for line in panels["cpu"]["series"]} == {"drone tunnel", "gcs tunnel"}
    assert panels["power"]["series"] == [] and panels["power"]["none"]


#: what happens in the middle of each cell, in order; in the last one nothing does
HAPPENS = (("influxdb", "stop"), ("drone", "kill"), ("sitl", "kill"), ("gcs", "pause"))


@dataclass(frozen=True)
class Disturbed:
    """A campaign in whose cells something was done to a container: its bundle, its records in order of the
    cells, its lost attempts, and what it said."""

    bundle: Path
    records: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    said: str

    def of(self, service: str) -> dict[str, Any]:
        """The record of the cell in which something was done to this container."""
        return self.records[[name for name, _ in HAPPENS].index(service)]


@pytest.fixture(scope="module")
def campaign() -> Disturbed:
    """The first cell is also looked at, as it is seen while it runs."""
    short = ("--suites", SUITE, "--reps", str(len(HAPPENS) + 1), "--session-s", "6")
    works = ROOT / "results" / ".work"
    before = set(works.glob("2*"))
    controller = subprocess.Popen(
        ["./pqlab", "run", "smoke", *short, "--json", *BUSY_OK],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for number, (service, action) in enumerate(HAPPENS):
            _wait_for_cell(works, before, number)
            if service == "influxdb":
                look_at_the_live_view()
            else:
                time.sleep(3.0)
            docker(action, container(service))
        out, err = controller.communicate(timeout=600)
    finally:
        controller.kill()
    assert out.strip(), err[-3000:]
    summary = json.loads(out.splitlines()[-1])
    assert controller.returncode == 1 or "fail" not in summary["verdict_counts"], summary
    bundle = ROOT / str(summary["bundle"])
    attempts = bundle.glob("data/cells/*/attempt-*/record.json")
    lost = [json.loads(path.read_text()) for path in attempts]
    return Disturbed(bundle, load_records(bundle), lost, out + err)


def _wait_for_cell(works: Path, before: set[Path], number: int) -> None:
    """Until the cell of this number, from 0, has begun."""
    deadline_s = time.monotonic() + 240
    while time.monotonic() < deadline_s:
        for path in set(works.glob("2*")) - before:
            with contextlib.suppress(OSError, ValueError):  # not there yet, or being written
                status = json.loads((path / "status.json").read_text())
                if status["done"] == number and status["current"] is not None:
                    return
        time.sleep(0.1)
    raise AssertionError(f"cell {number + 1} did not begin")


@pytest.mark.parametrize("service", ["drone", "sitl"])
def test_a_container_that_was_killed_is_named_and_put_back(campaign: Disturbed, service: str) -> None:
    assert f"container {service} exited with 137; it was put back" in campaign.said
    assert len(campaign.records) == len(HAPPENS) + 1
    assert campaign.of(service)["verdict"] != "fail", campaign.of(service)["reason"]
    lost = [
        each for each in campaign.attempts if f"container {service} exited with 137" in str(each["reason"])
    ]
    assert [each["verdict"] for each in lost] == ["invalid"], campaign.attempts
    if service != "sitl":
        assert lost[0]["reason"].startswith("killed: ")


def test_a_paused_container_goes_on_before_the_next_cell(campaign: Disturbed) -> None:
    assert "container gcs is paused; it was put back" in campaign.said
    assert "container gcs is paused" in str(campaign.of("gcs")["reason"])
    assert campaign.records[-1]["verdict"] != "fail", campaign.records[-1]["reason"]


def test_a_view_that_was_stopped_is_put_back_and_costs_no_cell(campaign: Disturbed) -> None:
    assert "container influxdb exited with" in campaign.said
    record = campaign.of("influxdb")
    assert record["verdict"] == "pass" or disturbed(record), record["reason"]
    assert pqlab("verify", str(campaign.bundle)).code in (0, 3), (
        "points that the database missed are a warning"
    )
