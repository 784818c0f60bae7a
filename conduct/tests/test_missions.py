"""A workload in ring sim: its rows, table, section and checks; and keys that are refused at the door."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_page import Page
from sim_kit import simulated

from pqevidence.errors import ScenarioError
from pqevidence.measures.commands.record import Asked, asked_of, meets_rekey
from pqevidence.record.beside import without_beside
from pqevidence.scenario import load_scenario
from pqevidence.verify import verify_bundle

Json = dict[str, Any]
HEAD = """\
schema: pqlab/scenario/v1
name: asks
seed: 4
suites: [cs-mlkem768-aesgcm-mldsa65]
repetitions: 3
conditions:
  - {name: still}
  - {name: rekeys, rekey: {every_s: 0.02, start_s: 0.5}}
handshake: {count: 5, min_count: 5, max_s: 20}
"""
TEXT = f"""{HEAD}
traffic:
  session_s: 4
  source: embedded
  workload:
    - {{kind: mission_upload, at_s: 0.2, waypoints: 4}}
    - {{kind: command, at_s: 0.5, rate_hz: 20, for_s: 3}}
    - {{kind: auto, at_s: 1}}
    - {{kind: mode, at_s: 2, mode: GUIDED}}
    - {{kind: param_download, at_s: 2.5, count: 6}}
    - {{kind: param_download, at_s: 3.9}}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("missions"), TEXT)


@pytest.fixture(scope="module")
def rows(bundle: Path) -> list[dict[str, str]]:
    with (bundle / "data" / "analysis" / "commands.csv").open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def records(bundle: Path, condition: str) -> Iterator[Json]:
    for path in sorted((bundle / "data" / "cells").glob("*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["condition"] == condition:
            yield record["categories"]["J"]


def test_the_bundle_verifies_with_its_own_checks(bundle: Path) -> None:
    results = {check.name: check for check in verify_bundle(bundle)}
    bad = {name: check.observed for name, check in results.items() if check.status == "FAIL"}
    assert bad == {}
    assert "6 cells" in results["commands_planned"].observed
    assert "6 cells" in results["commands_witnessed"].observed


def test_the_record_counts_what_was_cut_and_names_why_a_value_is_missing(bundle: Path) -> None:
    for record in records(bundle, "still"):
        value = {name: field["value"] for name, field in record.items()}
        assert value["workload_planned_count"] == value["workload_sent_count"] == 65
        assert value["workload_acknowledged_count"] == 64
        assert value["workload_cut_count"] == 1, "the whole list takes longer than the session has left"
        assert value["workload_unanswered_count"] == value["workload_refused_count"] == 0
        assert record["command_ack_p95_ms"]["n"] == 62
        assert value["command_rekey_ack_p50_ms"] is None
        assert record["command_rekey_ack_p50_ms"]["reason"] == "no command met a rekey"


def test_the_table_tells_rekeys_apart(rows: list[dict[str, str]]) -> None:
    def row(condition: str, kind: str, phase: str) -> dict[str, str]:
        (found,) = [r for r in rows if (r["condition"], r["kind"], r["phase"]) == (condition, kind, phase)]
        return found

    whole, met, apart = (row("rekeys", "command", phase) for phase in ("all", "rekey", "no rekey"))
    assert int(met["sent_count"]) > 0
    assert int(met["sent_count"]) + int(apart["sent_count"]) == int(whole["sent_count"]) == 180
    assert float(whole["low_ms"]) <= float(whole["mean_ms"]) <= float(whole["high_ms"])
    assert not [r for r in rows if r["condition"] == "still" and r["phase"] != "all"]
    few = row("still", "auto", "all")
    assert (few["acknowledged_count"], few["p95_ms"]) == ("3", "")
    assert "3 of 20" in few["reason"]


def test_the_report_has_the_section(bundle: Path, rows: list[dict[str, str]]) -> None:
    page = Page((bundle / "data" / "report.html").read_text(encoding="utf-8"))
    assert len(page.rows["commands-table"]) >= len(rows)


def test_a_wait_meets_a_rekey_where_the_two_overlap() -> None:
    def asked(sent_ns: int, acknowledged_ns: int | None) -> Asked:
        return Asked(0, 0, "command", 0, sent_ns, acknowledged_ns, 0, 0, 0, None)

    rekeys = [(100, 200)]
    assert meets_rekey(asked(50, 100), rekeys) and meets_rekey(asked(200, 300), rekeys)
    assert not meets_rekey(asked(50, 99), rekeys) and not meets_rekey(asked(201, 300), rekeys)
    assert meets_rekey(asked(150, None), rekeys) and not meets_rekey(asked(50, None), rekeys)


def test_no_answer_stays_null() -> None:
    row = {
        "step": 0,
        "number": 0,
        "kind": "command",
        "due_ns": 5,
        "sent_ns": 6,
        "acknowledged_ns": None,
        "result": None,
        "retries_count": 3,
        "items_count": 0,
        "reason": "no answer within 5 s",
    }
    window = {"gcs": {"source_report": {"workload": {"rows": [row]}}}}
    (one,) = asked_of({"traffic": window}) or []
    assert one.ack_ms is None and one.unanswered and not one.cut and not one.refused
    assert asked_of({"traffic": {"gcs": {}}}) is None


def test_what_the_vehicle_sent_beside_its_mix_is_no_part_of_its_rate() -> None:
    window: Json = {
        "gcs": {"source_report": {"workload": {"rows": []}}},
        "drone": {"source_report": {"beside": {"count": 3, "sizes": {"22": 2, "37": 1}}}},
    }
    assert without_beside(100, {22: 2, 37: 8, 50: 90}, window) == (97, {37: 7, 50: 90})
    del window["gcs"]["source_report"]["workload"]
    assert without_beside(100, {22: 2}, window) == (100, {22: 2}), "nothing was asked, nothing is taken off"


EMBEDDED = "{session_s: 4, source: embedded"


@pytest.mark.parametrize(
    ("traffic", "told", "hint"),
    [
        (f"{EMBEDDED}, workload: [{{kind: comand, at_s: 1}}]}}", "cannot be 'comand'", "`command`"),
        (f"{EMBEDDED}, workload: [{{kind: auto, at: 1}}]}}", "unknown key `at`", "`at_s`"),
        (f"{EMBEDDED}, workload: [{{kind: mode, at_s: 1}}]}}", "lacks `mode`", "add `mode:`"),
        (f"{EMBEDDED}, workload: [{{kind: auto, at_s: 1}}]}}", "no mission is there", "mission_upload"),
        (f"{EMBEDDED}, workload: [{{kind: command, at_s: 1, rate_hz: 1, for_s: 9}}]}}",
         "lasts until 10 s", "session_s"),
        ("{session_s: 4, workload: [{kind: mode, at_s: 1, mode: BRAKE}]}",
         "needs `source: embedded`", "write"),
        ("{session_s: 3000, source: embedded, "
         "workload: [{kind: command, at_s: 1, rate_hz: 50, for_s: 2000}]}",
         "100000 exchanges", "at most 5000"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_the_door(traffic: str, told: str, hint: str, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yml"
    file.write_text(f"{HEAD}traffic: {traffic}\n", encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(str(file))
    assert told in str(caught.value)
    assert hint in f"{caught.value.hint} {caught.value}"


def test_the_shipped_scenario_is_valid() -> None:
    scenario = load_scenario("missions")
    links = {json.dumps(c["link"], sort_keys=True) for c in scenario.conditions}
    assert len(links) == 4 and len(scenario.conditions) == 7  # three, and the router with nothing set
