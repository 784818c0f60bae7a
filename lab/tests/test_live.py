"""The live view's document and the dashboards: what they ask for exists, what is missing is said in words."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import fixture_cell
import pytest

from pqbase.text import utc_text
from pqlab.campaign.store import Store
from pqlab.cli.main import main
from pqlab.influx import InfluxError, InfluxView
from pqlab.live import dashboards
from pqlab.live.panels import PANELS, influxql
from pqlab.live.snapshot import MIN_AGE_S, Snapshot

ROOT = Path(__file__).resolve().parents[2]


def documented() -> dict[str, set[str]]:
    """Series → fields, from the tables of docs/TELEMETRY.md."""
    found: dict[str, set[str]] = {}
    series = ""
    for line in (ROOT / "docs" / "TELEMETRY.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) >= 3:
            if named := re.match(r"`(pq_\w+)`", cells[0]):
                series = named[1]
            elif cells[0]:
                series = ""
            if series:
                found.setdefault(series, set()).update(re.findall(r"`(\w+)`", cells[1]))
    found["pq_tunnel"] |= set(fixture_cell.DATA_COUNTERS)  # "every number of `counters`", by its own name
    return found


def test_every_panel_reads_a_documented_series() -> None:
    known = documented()
    for panel in PANELS:
        for line in panel.lines:
            assert line.field in known.get(line.measurement, set()), (panel.id, line)


def test_dashboards_are_those_of_the_panels_and_ask_for_documented_series() -> None:
    known = documented()
    for name, text in dashboards.texts().items():
        written = (ROOT / "compose" / "dashboards" / name).read_text(encoding="utf-8")
        assert written == text, "write them again: python -m pqlab.live.dashboards"
        json.loads(written)
    asked = [
        (re.search(r'FROM "(\w+)"', target["query"]), re.search(r'\("(\w+)"\)', target["query"]))
        for panel in json.loads(dashboards.texts()["grafana.json"])["panels"]
        for target in panel["targets"]
    ]
    asked += [
        tuple(re.search(rf'r\.{name} == "(\w+)"', query["query"]) for name in ("_measurement", "_field"))
        for chart in json.loads(dashboards.texts()["influxdb2.json"])[0]["spec"]["charts"]
        for query in chart["queries"]
    ]
    assert len(asked) == 2 * sum(len(panel.lines) for panel in PANELS)
    for series, field in asked:
        assert series and field and field[1] in known[series[1]]


def test_ids_of_panels_are_distinct_and_grafana_places_them_apart() -> None:
    document = dashboards.grafana()
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in document["panels"]]
    assert len(set(places)) == len(places) == len({panel.id for panel in PANELS})


class View(InfluxView):
    """Counts questions; answers each with one series of the tags that it groups by."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9", "pqlab")
        self.asked: list[str] = []
        self.broken = False

    def query(self, influxql: str) -> list[dict[str, Any]]:
        if self.broken:
            raise InfluxError("influx-unreachable", "no answer", "refused", "make lab-up")
        self.asked.append(influxql)
        if "pq_sensor" in influxql:
            return [{"tags": {"name": "power"}, "values": [[1, "not asked for"]]}]
        if "pq_power" in influxql or "pq_detector" in influxql:
            return []
        return [{"tags": {"host": "drone"}, "values": [[2_000_000_000, 5.0], [4_000_000_000, None]]}]


def test_a_document_holds_series_and_reasons_and_is_kept_for_a_moment(tmp_path: Path) -> None:
    view, now = View(), [0.0]
    snapshot = Snapshot(tmp_path, view, lambda: now[0])
    document = snapshot.document()
    panels = {panel["id"]: panel for panel in document["panels"]}
    assert panels["cpu"]["series"] == [{"name": "drone tunnel", "points": [[2.0, 5.0]]}]
    assert panels["cpu"]["none"] is None
    assert panels["power"]["series"] == [] and panels["power"]["none"] == "not asked for"
    assert panels["detector"]["none"] == "no detector runs" and document["verdicts"] == []
    assert document["influx"] == {"ok": True, "why": None} and document["run"] is None
    count = len(view.asked)
    assert snapshot.document() is document and len(view.asked) == count
    now[0] = MIN_AGE_S + 0.1
    assert snapshot.document() is not document and len(view.asked) == 2 * count


def test_synthetic_watts_are_never_asked_for() -> None:
    (power,) = (panel for panel in PANELS if panel.id == "power")
    assert all("\"synthetic\" = 'false'" in influxql(line, 60, 2) for line in power.lines)
    assert all('r["synthetic"] == "false"' in dashboards.flux(line) for line in power.lines)


def test_without_a_database_the_progress_is_still_there(tmp_path: Path) -> None:
    store = Store(tmp_path, "20260301T120000Z-ab12cd")
    store.write("plan.json", {"cells": []})
    store.write_status({"run_id": store.run_id, "state": "running", "done": 1, "total": 2, "eta_s": 9.0})
    view = View()
    view.broken = True
    for given, why in ((view, "refused"), (None, "names no database")):
        document = Snapshot(tmp_path, given).document()
        assert document["run"]["done"] == 1 and document["run"]["state"] == "killed", "nobody holds its lock"
        assert not document["influx"]["ok"] and why in document["influx"]["why"]
        assert [panel["series"] for panel in document["panels"]] == [[]] * len(PANELS)
        assert all(panel["none"] for panel in document["panels"])
    assert not (store.root / "lock").exists(), "looking makes no file"
    begun_ns = 1_772_366_400_000_000_000
    store.write_status({**store.read_status(), "updated_utc": utc_text(begun_ns)})
    store.lock()
    assert Snapshot(tmp_path, None).document()["run"]["state"] == "running"
    seen = [store.status_at(begun_ns + seconds * 10**9)["eta_s"] for seconds in (-5, 0, 4, 60)]
    assert seen == [9.0, 9.0, 5.0, 0.0], "it runs down, from what was written to nothing"
    store.unlock()
    assert store.status_at(begun_ns)["eta_s"] is None, "a dead run has no time left"


def test_the_verb_prints_its_document_or_says_that_its_port_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["live", "--once", "--out", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["run"] is None and not document["influx"]["ok"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["live", "--port", str(port), "--out", str(tmp_path)]) == 4
    assert f"--port {port + 1}" in capsys.readouterr().err


def test_ctrl_c_ends_the_live_view_as_it_ends_every_command(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "pqlab", "live", "--port", "0", "--out", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdout.readline().startswith("live view: http://127.0.0.1:")
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=20)
    assert (child.returncode, told) == (130, "\nstopped by Ctrl-C\n")
