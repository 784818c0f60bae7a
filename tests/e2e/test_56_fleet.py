"""One ground station, ten and a hundred drones: from the normal command to a bundle that verifies."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from busy import BUSY_OK

from .conftest import load_records, measured, pqlab, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SCENARIO = """\
schema: pqlab/scenario/v1
name: short-fleet
seed: 11
suites: [cs-mlkem768-aesgcm-mldsa65]
conditions:
  - {name: ten, fleet: {drones: 10, arrive_s: 0.05, window_s: 1, outage_s: 1, load_s: 0.5, limit_s: 20}}
  - {name: hundred, fleet: {drones: 100, arrive_s: 0.1, window_s: 1, outage_s: 1, load_s: 0.5, limit_s: 20}}
handshake: {count: 5, min_count: 5, max_s: 20}
"""
DRONES = {"ten": 10, "hundred": 100}


@pytest.fixture(scope="module")
def bundle(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    scenario = tmp_path_factory.mktemp("fleet") / "short-fleet.yml"
    scenario.write_text(SCENARIO)
    return measured(pqlab("run", str(scenario), *BUSY_OK, "--json"))


def test_everybody_is_back_and_the_station_says_the_same(bundle: Path) -> None:
    records = {str(record["condition"]): record for record in load_records(bundle)}
    assert set(records) == set(DRONES)
    for condition, record in records.items():
        folder = bundle / "data" / "cells" / str(record["cell_id"])
        back = list(csv.DictReader((folder / "fleet.back.csv").open(newline="")))
        came = {
            stage: sum(bool(row["back_ns"]) for row in back if row["stage"] == stage)
            for stage in ("join", "restart", "outage")
        }
        assert came == dict.fromkeys(came, DRONES[condition])
    checked = pqlab("verify", str(bundle), "--json")
    assert checked.code in (0, 3), checked.text[-3000:]
    lines = {str(line["name"]): line for line in checked.json()["checks"]}
    for name in ("fleet_flown", "fleet_timed", "fleet_witnessed"):
        assert lines[name]["status"] == "ok" and lines[name]["observed"].startswith("2 cells"), lines[name]


def test_the_page_tells_the_capacity_of_the_station(bundle: Path) -> None:
    rows = list(csv.DictReader((bundle / "data" / "analysis" / "fleet_capacity.csv").open(newline="")))
    for row in rows:  # of the cells that the machine was quiet enough for
        assert float(row["handshakes_per_core_s"]) > 0 and float(row["session_kib"]) > 0
        assert row["lost_count"] == "0"
    page = (bundle / "data" / "report.md").read_text()
    assert ("How many drones one ground station serves" in page) == bool(rows)


def test_nothing_of_a_fleet_is_left(bundle: Path) -> None:
    del bundle
    for what in (("ps", "-aq"), ("volume", "ls", "-q")):
        assert run("docker", *what, "--filter", "name=-fleet-").out.strip() == ""
