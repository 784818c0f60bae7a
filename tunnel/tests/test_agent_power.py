"""The stream `power`: cut from the fast sampler's raw file, empty with a reason where there is none."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pqtunnel.agent import telemetry as telemetry_module
from pqtunnel.agent.faults import Faults
from pqtunnel.agent.feed import Feed
from pqtunnel.agent.streams import Streams
from pqtunnel.agent.telemetry import Telemetry
from pqtunnel.config import FAST_POWER, POWER_SENSORS, ConfigError, EndpointConfig
from pqtunnel.endpoint.work import CellWork
from waiting import wait_for

SOURCE = os.pathsep.join(sys.path)


def made(folder: Path, **environment: str) -> Telemetry:
    given = {"PQ_PLAINTEXT_TARGET": "127.0.0.1:1", "PQ_STATE": str(folder), **environment}
    return Telemetry(EndpointConfig.from_environment("gcs", given), folder / "counters.json", print)


def page(telemetry: Telemetry, start_ns: int, end_ns: int) -> dict[str, Any]:
    faults = cast(Faults, SimpleNamespace(shifted=lambda stream, lines: lines))
    work = cast(CellWork, SimpleNamespace(start_ns=start_ns, end_ns=end_ns, journal=None, ledger=None))
    return Streams(telemetry, faults, Feed(telemetry._config, print)).page(work, "power", 0, 50_000)


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_the_samples_come_out_of_the_cells_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"sensor": "model", "rate_hz": 100}))
    telemetry = made(tmp_path, PQ_POWER="model", PQ_POWER_SETTINGS=str(settings))
    telemetry.open()
    try:
        told = telemetry.facts()
        (row,) = (row for row in told["sensors"] if row["name"] == "power")
        assert (row["available"], row["sensor_class"], row["raw"]) == (True, "model", True)
        start_ns = time.time_ns()
        wait_for(lambda: len(page(telemetry, start_ns, time.time_ns())["lines"]) > 60)
        end_ns = start_ns + (time.time_ns() - start_ns) // 2
        answer = page(telemetry, start_ns, end_ns)
        beyond = page(telemetry, end_ns + 1, time.time_ns())
    finally:
        telemetry.close()
    header, columns, *rows = answer["lines"]
    assert json.loads(header)["sensor_class"] == "model" and columns.startswith("t_ns,voltage_v")
    assert all(start_ns <= int(line.split(",")[0]) <= end_ns for line in rows)
    assert len(rows) + len(beyond["lines"][2:]) > 30, "and the rest is what came later"


def test_no_sensor_is_an_empty_stream_with_its_reason(tmp_path: Path) -> None:
    answer = page(made(tmp_path), 0, 1)
    assert answer["lines"] == [] and "PQ_POWER" in answer["reason"]
    answer = page(made(tmp_path, PQ_POWER="model"), 0, 1)
    assert answer["lines"] == [] and "no power samples" in answer["reason"]


def test_facts_that_come_too_late_or_not_at_all_say_so_and_deny_no_sensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    monkeypatch.setattr(telemetry_module, "FACTS_TIMEOUT_S", 0.01)
    told = made(tmp_path, PQ_POWER="ina219").facts()
    (row,) = told["sensors"]
    assert told["host"] is None and "longer than 0.01 s" in told["reason"]
    assert (row["sensor"], row["available"], row["reason"]) == ("ina219", False, told["reason"])
    assert made(tmp_path).facts()["sensors"] == []
    if sys.platform == "win32":
        return  # no program there does nothing but fail
    monkeypatch.setattr(telemetry_module, "FACTS_TIMEOUT_S", 30.0)
    monkeypatch.setattr(telemetry_module.sys, "executable", "/bin/false")
    assert "ended with 1" in made(tmp_path).facts()["reason"]


def test_names_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ina260"):
        made(tmp_path, PQ_POWER="ina260")
    assert set(FAST_POWER) <= set(POWER_SENSORS)


def test_both_distributions_know_the_same_sensors() -> None:
    power = pytest.importorskip("pqtelemetry.readers.power")
    assert set(power.POWER_SENSORS) == set(POWER_SENSORS) and set(power.FAST_SENSORS) == set(FAST_POWER)
