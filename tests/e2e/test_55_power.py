"""Power of a cell: what a sensor said, how its ring marks it, and that files and database agree.

No container has a real sensor; the INA219 in software goes the whole way of one, at 1 kHz, and every figure
that it touches is marked. A drone without a sensor claims nothing (test_20_smoke.py).
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from busy import BUSY_OK

from .conftest import load_records, measured, pqlab, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SCENARIO = """
schema: pqlab/scenario/v1
name: power
title: One session with the INA219 in software
seed: 7
suites: [cs-mlkem768-aesgcm-mldsa65]
traffic: {source: embedded, session_s: 4}
handshake: {count: 5}
"""
#: the model's rail and its two loads in turn, half a second each (pqtelemetry.ina219.model)
RAIL_V, LOADS_A = 5.1, (0.6, 1.0)


@pytest.fixture(scope="module")
def bundle(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("power")
    (folder / "power.yml").write_text(SCENARIO)
    up = run("./compose/lab.sh", "up", env={"PQ_POWER": "model"}, timeout_s=120)
    assert up.code == 0, up.text[-3000:]
    try:
        done = pqlab("run", str(folder / "power.yml"), "--out", str(folder / "results"), "--json", *BUSY_OK)
        yield measured(done)
    finally:
        again = run("./compose/lab.sh", "up", timeout_s=120)
        assert again.code == 0, again.text[-3000:]


def samples(bundle: Path) -> list[dict[str, str]]:
    """Rows of the raw samples that the bundle holds, header line left out."""
    (file,) = (bundle / "data" / "cells").glob("*/power.drone.csv")
    _, *rows = file.read_text().splitlines()
    return list(csv.DictReader(rows))


def test_bundle_verifies(bundle: Path) -> None:
    done = pqlab("verify", str(bundle))
    assert done.code in (0, 3), done.text[-4000:]


def test_watts_are_the_models_and_say_so(bundle: Path) -> None:
    (record,) = load_records(bundle)
    power = record["categories"]["P"]["power_mean_w"]
    assert power["value"] == pytest.approx(RAIL_V * sum(LOADS_A) / 2, rel=0.03)
    assert "synthetic" in json.dumps(power)
    assert record["categories"]["P"]["power_sensor_type"]["value"]
    assert record["ring"] == "lab"


def test_record_follows_from_the_raw_samples(bundle: Path) -> None:
    taken = [row for row in samples(bundle) if row["voltage_v"]]
    assert len(taken) > 2_000
    watts = [float(row["voltage_v"]) * float(row["current_a"]) for row in taken]
    assert all(math.isfinite(watt) and watt > 0 for watt in watts)
    (record,) = load_records(bundle)
    mean_w = record["categories"]["P"]["power_mean_w"]["value"]
    assert sum(watts) / len(watts) == pytest.approx(mean_w, rel=0.05)


def test_series_in_the_database_equal_the_files(bundle: Path) -> None:
    influx = json.loads((bundle / "data" / "run.json").read_text())["influx"]
    assert influx["available"], influx["reason"]
    rows = [row for cell in influx["cells"] for row in cell["series"]]
    names = {row["series"].split(",")[0] for row in rows}
    assert {"pq_power", "pq_cpu"} <= names
    assert [row for row in rows if not row["ok"]] == []
    power = [row for row in rows if row["series"].startswith("pq_power")]
    assert sum(int(row["file_count"]) for row in power) >= 30
