"""Observers on and off: what a cell does for it, what its accounts give, and where nothing may be said."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeLab
from observer_files import SAMPLER, TUNNEL, VIEW, write_observers
from report_bundle import make_bundle, plan_cells
from report_page import Page

from pqevidence.errors import LabError
from pqevidence.pages import render
from pqevidence.scenario.load import load_scenario
from pqevidence.scenario.model import Overrides
from pqlab.campaign.engine import Campaign
from pqlab.campaign.faults import Pause
from pqlab.campaign.observers import NO_OBSERVERS, ComposeObservers, compose_observers

Json = dict[str, Any]
SUITE = "cs-mlkem768-aesgcm-mldsa65"
CONDITIONS: tuple[Json, ...] = (
    {"name": "observed"},
    {"name": "observed-aa", "aa_of": "observed"},
    {"name": "no-sampler", "without": ["sampler"]},
    {"name": "no-telegraf", "without": ["telegraf"]},
    {"name": "no-ledger", "without": ["ledger"]},
    {"name": "capture", "feed": True},
)


def edit(root: Path) -> None:
    """Accounts of every cell; what stood still used nothing, without a ledger all is a fifth cheaper."""
    left_out = {str(c["name"]): tuple(c.get("without", ())) for c in CONDITIONS}
    for cell in plan_cells(root):
        folder = root / "data" / "cells" / cell["cell_id"]
        without = left_out[cell["condition"]]
        scale = 0.8 if "ledger" in without else 1.0
        write_observers(folder, without, scale=scale * (1 + 0.004 * cell["repetition"]))
        if "ledger" in without:
            for role in ("drone", "gcs"):
                (folder / f"ledger.{role}.csv").unlink()
        if "sampler" in without:
            stand_still(folder)


def stand_still(folder: Path) -> None:
    """No sample of either end, and the events that say why."""
    path = folder / "events.ndjson"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    begin_ns = min(int(event["t_ns"]) for event in events)
    for role in ("drone", "gcs"):
        events += [{"t_ns": begin_ns + 1, "host": role, "event": "sensor_stall", "for_s": 3600.0}]
        (folder / f"telemetry.{role}.lp").write_text("")
    events.sort(key=lambda event: int(event["t_ns"]))
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("observers")
    return make_bundle(
        root, edit=edit, suites=(SUITE,), repetitions=5, conditions=CONDITIONS, bulk=False, session_s=1.0
    )


@pytest.fixture(scope="module")
def rows(bundle: Path) -> dict[tuple[str, str], dict[str, str]]:
    with (bundle / "data" / "analysis" / "observer_effect.csv").open(newline="") as handle:
        return {(row["condition"], row["metric"]): row for row in csv.DictReader(handle)}


def test_what_stood_still_is_what_is_saved(rows: dict[tuple[str, str], dict[str, str]]) -> None:
    saved = rows["no-sampler", "sampler_cpu_pct"]
    assert float(saved["mean_effect"]) == pytest.approx(-200 * SAMPLER, rel=0.03)
    assert float(saved["condition_median"]) == 0.0
    assert (saved["left_out"], saved["verdict"], saved["n_pairs"]) == ("sampler", "improved", "5")
    view = rows["no-telegraf", "view_cpu_pct"]
    assert float(view["mean_effect"]) == pytest.approx(-200 * VIEW, rel=0.03)
    assert view["verdict"] == "improved"
    assert rows["no-telegraf", "sampler_cpu_pct"]["verdict"] == "not distinguishable"
    tunnel = rows["no-ledger", "tunnel_cpu_drone_pct"]
    assert float(tunnel["mean_effect"]) == pytest.approx(-20 * TUNNEL, rel=0.05)
    assert float(tunnel["reference_median"]) == pytest.approx(100 * TUNNEL, rel=0.03)


def test_samples_of_a_sampler_that_stands_still_are_not_due(bundle: Path) -> None:
    for cell in plan_cells(bundle):
        record = json.loads((bundle / "data" / "cells" / cell["cell_id"] / "record.json").read_text())
        assert (record["verdict"], record["reason"]) == ("pass", None), cell["condition"]


def test_a_twin_shows_nothing_and_without_a_ledger_there_is_no_latency(
    rows: dict[tuple[str, str], dict[str, str]],
) -> None:
    twins = [row for (condition, _), row in rows.items() if condition == "observed-aa"]
    assert {row["kind"] for row in twins} == {"A/A"} and len(twins) == 9
    assert ("observed-aa", "latency_up_p99_ms") not in rows, "too few datagrams go up for a P99"
    assert {row["verdict"] for row in twins if row["metric"].endswith("cpu_pct")} == {"not distinguishable"}
    assert ("no-ledger", "latency_down_p99_ms") not in rows
    assert float(rows["no-sampler", "latency_down_p99_ms"]["reference_median"]) > 0
    assert rows["no-ledger", "lost_count"]["mean_effect"] == "0"
    assert rows["capture", "tunnel_cpu_drone_pct"]["added"] == "capture"
    assert {row["floor_method"] for row in rows.values()} == {"assumed"}, "five A/A pairs are too few"


def test_the_report_has_the_table_and_other_reports_have_not(bundle: Path, tmp_path: Path) -> None:
    page = Page(render(bundle)[0].read_text(encoding="utf-8"))
    assert len(page.rows["observer-effect"]) > 40
    assert "no-telegraf" in page.text_of["observer-effect"]
    plain = make_bundle(tmp_path, suites=(SUITE,), repetitions=1, bulk=False, session_s=1.0)
    assert not (plain / "data" / "analysis" / "observer_effect.csv").exists()
    assert "observer-effect" not in Page(render(plain)[0].read_text(encoding="utf-8")).ids


# ---------------------------------------------------------------------- a campaign in memory


class Counted:
    """Everybody uses a millisecond from one reading to the next."""

    def __init__(self) -> None:
        self.readings = 0

    def usage(self) -> Json:
        self.readings += 1
        return {"t_ns": self.readings, "services": {"telegraf": {"cpu_ns": self.readings * 10**6}}}


def observed(lab: FakeLab) -> Any:
    file = lab.root / "observed.yml"
    file.write_text(
        f"schema: pqlab/scenario/v1\nname: observed\nsuites: [{SUITE}]\n"
        "conditions: [{name: observed}, {name: bare, without: [sampler, ledger]}]\n"
        "traffic: {session_s: 5}\norder: {method: fixed}\n"
    )
    return load_scenario(str(file), Overrides())


def test_a_cell_without_an_observer_asks_for_it_and_keeps_the_accounts(tmp_path: Path) -> None:
    lab, counted = FakeLab(tmp_path), Counted()
    result = Campaign.begin(replace(lab.around(), observers=counted), observed(lab)).carry_out()
    assert result.verdict_counts == {"pass": 2}
    data = result.bundle / "data"
    full, bare = (
        data / "cells" / row["cell_id"] for row in json.loads((data / "plan.json").read_text())["cells"]
    )
    for agent in (lab.drone, lab.gcs):
        assert [p["ledger"] for m, p in agent.calls if m == "prepare"] == [True, False]
        stalls = [p for m, p in agent.calls if m == "event" and p["kind"] == "sensor_stall"]
        assert [p["cell_id"] for p in stalls] == [bare.name]
    assert (full / "ledger.drone.csv").is_file() and not (bare / "ledger.drone.csv").exists()
    for cell in (full, bare):
        document = json.loads((cell / "observers.json").read_text())
        assert document["after"]["services"]["telegraf"]["cpu_ns"] > document["before"]["t_ns"]
    assert counted.readings == 4


def test_a_campaign_that_leaves_nobody_out_reads_no_account(tmp_path: Path) -> None:
    lab, counted = FakeLab(tmp_path), Counted()
    file = lab.root / "all.yml"
    file.write_text(f"schema: pqlab/scenario/v1\nname: all\nsuites: [{SUITE}]\ntraffic: {{session_s: 5}}\n")
    result = Campaign.begin(
        replace(lab.around(), observers=counted), load_scenario(str(file), Overrides())
    ).carry_out()
    assert counted.readings == 0
    assert not list((result.bundle / "data").glob("cells/*/observers.json"))


def test_without_containers_telegraf_cannot_stand_still(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    file = lab.root / "view.yml"
    file.write_text(
        f"schema: pqlab/scenario/v1\nname: view\nsuites: [{SUITE}]\n"
        "conditions: [{name: a}, {name: b, without: [telegraf]}]\ntraffic: {session_s: 5}\n"
    )
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), load_scenario(str(file), Overrides())).carry_out()
    assert caught.value.code in ("no-timeline", "no-containers")


# ---------------------------------------------------------------------- the kernel's accounts


def test_accounts_are_read_from_groups_and_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = tmp_path / "proc"

    def process(pid: int, command: str, threads: dict[int, tuple[int, str]]) -> None:
        for tid, (ns, children) in threads.items():
            task = proc / str(pid) / "task" / str(tid)
            task.mkdir(parents=True)
            (task / "schedstat").write_text(f"{ns} 5 1\n")
            (task / "children").write_text(children)
        (proc / str(pid) / "cmdline").write_bytes(command.replace(" ", "\0").encode())

    process(1, "/sbin/docker-init", {1: (7, "10 ")})
    # the sampler is the child of the thread that started it
    process(10, "python3 -m pqtunnel drone", {10: (100, ""), 11: (23, "20")})
    process(20, "python3 -m pqtelemetry sample", {20: (9, "")})
    (proc / "stat").write_text("cpu  10 1 4 900 50 2 3 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    monkeypatch.setattr("pqlab.campaign.observers.containers", lambda _project: [("drone", 1)])
    told = ComposeObservers("p", proc).usage()
    assert told["ends"] == {"drone": {"tunnel_cpu_ns": 123, "sampler_cpu_ns": 9}}
    assert told["machine"] == {"busy_ms": 200, "steal_ms": 80}
    assert told["services"]["drone"]["cpu_ns"] is None and told["services"]["drone"]["reason"]
    assert told["reason"] is None


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        ("exit 1", "the container engine did not name the containers"),
        ("exit 0", "no container of p runs on this machine"),
    ],
)
def test_an_engine_that_names_no_container_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str, reason: str
) -> None:
    (tmp_path / "stat").write_text("cpu  10 1 4 900 50 2 3 8 0 0\n")
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\n{client}\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = ComposeObservers("p", tmp_path).usage()
    assert told["services"] == {} and told["ends"] == {}
    assert told["reason"].startswith(reason)


def test_where_no_containers_are_nobody_reads() -> None:
    assert compose_observers(None) is NO_OBSERVERS and NO_OBSERVERS.usage() == {}


# ---------------------------------------------------------------------- standing still


def test_a_pause_ends_before_its_time_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, docker = tmp_path / "log", tmp_path / "docker"
    paused = f'[ "$1" != inspect ] || ! grep -qx pause {log} || echo true'
    docker.write_text(f'#!/bin/sh\necho "$1" >> {log}\n{paused}\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    pause = Pause("c0ffee", 300.0)
    pause.begun()
    pause.end()
    words = log.read_text().split()
    assert set(words[:-1]) == {"pause", "inspect"} and words[-1] == "unpause"
    with pytest.raises(ProcessLookupError):
        os.killpg(pause._process.pid, 0)
