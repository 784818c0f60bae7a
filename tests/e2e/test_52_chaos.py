"""Faults on purpose, and containers that die by themselves, in the container lab."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from busy import BUSY_OK, amiss

from .conftest import ROOT, container, docker, load_records, measured, pqlab

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SUITE = "cs-mlkem768-aesgcm-mldsa65"


def recoveries(bundle: Path) -> dict[str, list[dict[str, str]]]:
    """Rows of fault_recovery.csv by condition."""
    found: dict[str, list[dict[str, str]]] = {}
    with (bundle / "data" / "analysis" / "fault_recovery.csv").open() as handle:
        for row in csv.DictReader(handle):
            found.setdefault(row["condition"], []).append(row)
    return found


def test_faults_on_purpose_pass_and_tell_their_recovery(tmp_path: Path) -> None:
    """One of each kind from `chaos`: the other end, and another length, take the same way."""
    timed = {"kill-drone", "kill-gcs", "partition-6s", "stall-gcs", "ground-pause"}
    scenario = yaml.safe_load((ROOT / "scenarios" / "chaos.yml").read_text())
    scenario["conditions"] = [c for c in scenario["conditions"] if c["name"] in timed]
    (tmp_path / "chaos.yml").write_text(yaml.safe_dump(scenario, sort_keys=False))
    words = ("run", str(tmp_path / "chaos.yml"), "--suites", SUITE, "--session-s", "16", "--json", *BUSY_OK)
    bundle = measured(pqlab(*words, timeout_s=900))
    told = recoveries(bundle)
    assert timed == set(told)
    assert [row["reason"] for name in timed for row in told[name] if not row["recovery_ms"]] == []
    # from the last packet before the kill, which a busy machine may have held back a while
    assert float(told["kill-gcs"][0]["recovery_ms"]) >= 2900.0, "the drone needs 3 s to know"
    verified = pqlab("verify", str(bundle))
    assert verified.code == 3, verified.text[-4000:]  # a killed agent takes the key of its chain with it
    assert "was started again before it could swear" in verified.text
    assert "1 warnings, 0 failed" in verified.text
    assert "Faults on purpose" in (bundle / "data" / "report.html").read_text()


def during_run(
    service: str, action: tuple[str, ...], look: Callable[[], None] | None = None
) -> tuple[dict[str, Any], str]:
    """Two cells; in the first somebody looks, and something is done to a container. The run's summary, and
    what it said."""
    short = ("--suites", SUITE, "--reps", "2", "--session-s", "6")
    controller = subprocess.Popen(
        ["./pqlab", "run", "smoke", *short, "--json", *BUSY_OK],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    status = ROOT / "results" / ".work"
    before = {path.name for path in status.glob("2*")}
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:  # until its first cell has begun
        if any((path / "status.json").is_file() for path in status.glob("2*") if path.name not in before):
            break
        time.sleep(0.1)
    if look is None:
        time.sleep(3.0)
    else:
        look()
    docker(*action, container(service))
    out, err = controller.communicate(timeout=400)
    assert out.strip(), err[-3000:]
    summary = json.loads(out.splitlines()[-1])
    assert controller.returncode == 1 or "fail" not in summary["verdict_counts"], summary
    return summary, out + err


@pytest.mark.parametrize("service", ["drone", "sitl"])
def test_a_container_that_was_killed_is_named_and_put_back(service: str) -> None:
    begun_s = time.monotonic()
    summary, said = during_run(service, ("kill",))
    assert time.monotonic() - begun_s < 200
    assert f"container {service} exited with 137; it was put back" in said
    records = load_records(ROOT / str(summary["bundle"]))
    assert len(records) == 2
    assert [record["reason"] for record in records if record["verdict"] == "fail"] == []
    cells = ROOT / str(summary["bundle"]) / "data" / "cells"
    attempts = [json.loads(path.read_text()) for path in cells.glob("*/attempt-*/record.json")]
    lost = [each for each in attempts if f"container {service} exited with 137" in each["reason"]]
    assert [each["verdict"] for each in lost] == ["invalid"], attempts
    if service != "sitl":
        assert lost[0]["reason"].startswith("killed: ")


def test_a_paused_container_goes_on_before_the_next_cell() -> None:
    summary, said = during_run("gcs", ("pause",))
    assert "container gcs is paused; it was put back" in said
    records = load_records(ROOT / str(summary["bundle"]))
    assert "container gcs is paused" in str(records[0]["reason"])
    assert records[1]["verdict"] != "fail", records[1]["reason"]


def look_at_the_live_view() -> None:
    """Its queries of a run at work against the real database, until traffic of the first cell is there."""
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


def test_a_view_that_was_stopped_is_put_back_and_costs_no_cell() -> None:
    summary, said = during_run("influxdb", ("stop",), look_at_the_live_view)
    assert "container influxdb exited with" in said
    bundle = ROOT / str(summary["bundle"])
    assert amiss(bundle) == {} and sum(summary["verdict_counts"].values()) == 2
    assert pqlab("verify", str(bundle)).code in (0, 3), "points that the database missed are a warning"
