"""The live view's document and the dashboards: what they ask for exists, what is missing is said in words."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fixture_cell
import pytest
from live_world import RUN_ID, Database, S, make_run, seal, tell

from pqbase.text import utc_text
from pqlab.campaign.store import CELL_EVENTS, Store, read_json
from pqlab.cli.main import main
from pqlab.influx import InfluxView
from pqlab.live import cells, dashboards
from pqlab.live.panels import PANELS, influxql
from pqlab.live.server import LiveServer
from pqlab.live.snapshot import MIN_AGE_S, Snapshot
from pqtunnel.endpoint.counters import REKEY
from waiting import LIMIT_S

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
    # "every number of `counters`", by its own name
    found["pq_tunnel"] |= {*fixture_cell.DATA_COUNTERS, *REKEY}
    found["pq_tunnel"] |= {f"hs_{name}" for name in fixture_cell.HANDSHAKE_COUNTERS}
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


NOW_NS = 1_772_366_400_000_000_000


def look(results: Path, database: InfluxView | None, now_ns: int = NOW_NS) -> Any:
    """The document now, from a view that has not looked before."""
    return Snapshot(results, database, realtime_ns=lambda: now_ns).document()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[Store, Database]]:
    """A run under way with three finished cells."""
    store = make_run(tmp_path, NOW_NS, 3)
    store.lock()
    yield store, Database(NOW_NS)
    store.unlock()


def test_a_document_holds_series_and_reasons_and_is_kept_for_a_moment(world: tuple[Store, Database]) -> None:
    (store, database), now = world, [0.0]
    snapshot = Snapshot(store.results, database, lambda: now[0], realtime_ns=lambda: NOW_NS)
    document = snapshot.document()
    panels = {panel["id"]: panel for panel in document["panels"]}
    assert [line["name"] for line in panels["cpu"]["series"]] == ["drone tunnel", "gcs tunnel"]
    assert panels["cpu"]["none"] is None
    assert panels["temperature"]["series"] == [] and panels["temperature"]["none"] == "no thermal zone"
    assert panels["detector"]["none"] == "no detector runs" and document["verdicts"] == []
    assert document["influx"] == {"ok": True, "why": None} and document["moment"] == "running"
    count = len(database.asked)
    assert snapshot.document() is document and len(database.asked) == count
    now[0] = MIN_AGE_S + 0.1
    assert snapshot.document() is not document and len(database.asked) == 2 * count


def test_cells_have_their_figures_and_what_does_not_count_is_null(world: tuple[Store, Database]) -> None:
    rows = look(world[0].results, world[1])["cells"]
    assert [(row["position"], row["verdict"]) for row in rows] == [(0, "pass"), (1, "pass"), (2, "invalid")]
    assert rows[0]["handshake_ms"] == pytest.approx(1.4) and rows[0]["latency_p99_ms"] == pytest.approx(0.9)
    assert rows[2]["loss_pct"] == pytest.approx(1.2) and rows[2]["reason"].startswith("a neighbour")
    assert rows[2]["handshake_ms"] is None, "invalid"


def test_a_record_is_read_once_and_again_when_its_cell_is_measured_again(
    world: tuple[Store, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, read = world[0], []

    def counted(path: Path) -> Any:
        read.append(path.parent.name)
        return read_json(path)

    monkeypatch.setattr(cells, "read_json", counted)
    rows = cells.CellRows()
    plan = store.read("plan.json")
    first = rows.of(store.data, plan)
    assert rows.of(store.data, plan) == first and len(read) == 3
    record = store.cell_dir(first[2]["cell_id"]) / "record.json"
    record.write_text(record.read_text().replace('"invalid"', '"pass"', 1))
    os.utime(record, ns=(1, 1))
    assert rows.of(store.data, plan)[2]["verdict"] == "pass"
    assert read[3:] == [first[2]["cell_id"]]


def test_nothing_is_asked_of_before_the_run_or_the_cell(tmp_path: Path) -> None:
    store = make_run(tmp_path, NOW_NS, 1, begun_s_ago=30.0)
    store.lock()
    database = Database(NOW_NS)
    tell(store, NOW_NS, (4.0, "prepare", {}))
    database.alarm = (1, 0)
    look(tmp_path, database)
    since = {
        name: {int(t) for q in database.asked if f'"{name}"' in q for t in re.findall(r">= (\d+)", q)}
        for name in ("pq_cpu", "pq_detector")
    }
    assert since["pq_cpu"] == {NOW_NS - 30 * S}
    assert since["pq_detector"] == {NOW_NS - 30 * S, NOW_NS - 4 * S}, (
        "a score of the run, a verdict of the cell"
    )
    store.unlock()
    for moment in (lambda: None, lambda: seal(store, {"pass": 15})):
        moment()
        database.asked.clear()
        assert look(tmp_path, database)["verdicts"] == [] and database.asked == [], "no run is at work"


CANARY = ("window_start", {"window": "canary"})
FLOOD = ("timed_event", {"timed": "attack", "ok": True, "for_s": 20.0, "attack": {"kind": "forged"}})
STRAY = ("timed_event", {"timed": "attack", "ok": True, "for_s": 20.0, "attack": {"kind": "stray"}})
SHORT = ("timed_event", {"timed": "attack", "ok": True, "for_s": 3.0, "attack": {"kind": "forged"}})


@pytest.mark.parametrize(
    ("event", "alarm", "tone", "words"),
    [
        (None, (0, 0), "good", "no attack; not degraded"),
        (None, (1, 0), "bad", "ATTACK, and none is under way"),
        (None, (0, 1), "bad", "no attack; DEGRADED"),
        (CANARY, (1, 0), "good", "sees the canary"),
        (CANARY, (0, 0), "warn", "canary under way, not seen yet"),
        (FLOOD, (1, 0), "good", "the cell's own is under way or has just ended (forged)"),
        (FLOOD, (0, 0), "warn", "no attack seen, and the cell's own is under way (forged)"),
        (SHORT, (1, 0), "good", "has just ended"),
        (SHORT, (0, 0), "good", "no attack"),
        (STRAY, (1, 0), "bad", "what is under way is harmless (stray)"),
        (STRAY, (0, 0), "good", "harmless"),
    ],
)
def test_an_alarm_is_told_with_what_is_under_way(
    world: tuple[Store, Database], event: Any, alarm: tuple[int, int], tone: str, words: str
) -> None:
    store, database = world
    session = (9.5, "window_start", {"window": "traffic"})
    tell(store, NOW_NS, session, *([(6.0, *event)] if event else []))
    database.alarm = alarm
    (told,) = look(store.results, database)["verdicts"]
    assert (told["who"], told["tone"]) == ("xgboost at the drone", tone) and words in told["text"]


def test_bands_come_from_finished_cells_and_from_the_one_in_progress(world: tuple[Store, Database]) -> None:
    store, database = world
    tell(
        store,
        NOW_NS,
        (9.0, "window_start", {"window": "traffic"}),
        (7.0, *SHORT),
        (6.0, "timed_event", {"timed": "partition", "ok": True, "for_s": 1.0}),
        (5.0, "timed_event", {"timed": "attack", "ok": False}),
        (3.0, "window_end", {"window": "traffic"}),
        (2.0, *CANARY),
        (1.5, *FLOOD),
    )
    database.rekeys_s = (8.0,)
    document = look(store.results, database)
    now_s = NOW_NS / S
    told = [
        (band["kind"], round(now_s - band["from_s"], 2), round(now_s - band["to_s"], 2))
        for band in document["bands"]
    ]
    ended = [
        ("rekey", 35.02, 35.0),
        ("rekey", 25.02, 25.0),
        ("impairment", 19.0, 11.0),
        ("rekey", 15.02, 15.0),
    ]
    assert told[:4] == ended
    assert told[4:] == [
        ("attack", 7.0, 4.0),
        ("impairment", 6.0, 5.0),
        ("canary", 2.0, 0.0),
        ("rekey", 10.0, 8.0),
    ]
    assert document["run"]["window"] == "canary"


def test_moments_follow_one_another_and_no_other_run_is_taken_for_this_one(tmp_path: Path) -> None:
    database = Database(NOW_NS)
    now = [0.0]
    snapshot = Snapshot(tmp_path, database, lambda: now[0], realtime_ns=lambda: NOW_NS)

    def document() -> Any:
        now[0] += MIN_AGE_S + 0.1
        return snapshot.document()

    assert (document()["moment"], document()["newest"]) == ("none", None)
    store = make_run(tmp_path, NOW_NS, 0)
    (store.root / "status.json").rename(tmp_path / "aside")
    assert document()["moment"] == "stopped" and document()["run"]["state"] == "begun", "nobody holds it"
    store.lock()
    assert document()["moment"] == "starting"
    (tmp_path / "aside").rename(store.root / "status.json")
    assert document()["moment"] == "first"
    (tmp_path / ".work").rename(tmp_path / "aside")
    make_run(tmp_path, NOW_NS, 15, state="finishing").lock()
    store = Store(tmp_path, RUN_ID)
    held = Store(tmp_path, RUN_ID)
    held.root.joinpath("lock").touch()
    held.lock()
    assert document()["moment"] == "finishing"
    held.unlock()
    seal(store, {"pass": 14, "invalid": 1})
    after = document()
    assert (after["moment"], after["run"], len(after["cells"])) == ("ended", None, 15)
    assert after["ended"]["report"] == f"/bundle/{RUN_ID}/data/report.html"
    assert after["ended"]["verdict_counts"] == {"pass": 14, "invalid": 1}
    assert all(not panel["series"] for panel in after["panels"])
    fresh = look(tmp_path, database)
    assert (fresh["moment"], fresh["ended"], fresh["newest"]["run_id"]) == ("none", None, RUN_ID)
    assert fresh["cells"] == [], "an earlier run's cells are not this one's"


def test_an_end_that_falls_silent_is_told_with_the_next_command(world: tuple[Store, Database]) -> None:
    store, database = world
    assert look(store.results, database)["silent"] is None
    database.silent = {"drone": NOW_NS - 30 * S}
    assert look(store.results, database)["silent"].startswith(
        "No sample of the drone for 30 s: its agent is gone"
    )
    assert "./pqlab doctor --inventory" in look(store.results, database)["silent"]
    database.silent = {"drone": NOW_NS - 30 * S, "gcs": NOW_NS - 20 * S}
    assert "Telegraf stands still, or both" in look(store.results, database)["silent"]
    status = store.read_status()
    store.write_status({**status, "current": {**status["current"], "condition": "blind"}})
    assert "as this cell's condition leaves out: sampler" in look(store.results, database)["silent"]


def test_a_simulated_run_is_not_looked_up_in_the_database(tmp_path: Path) -> None:
    store, database = make_run(tmp_path, NOW_NS, 2, ring="sim"), Database(NOW_NS)
    store.lock()
    document = look(tmp_path, database)
    assert len(document["cells"]) == 2 and database.asked == []
    assert {panel["none"] for panel in document["panels"]} == {"a simulated run has no samplers"}
    store.unlock()


def test_a_disk_without_room_costs_the_view_a_line_and_the_cell_nothing(tmp_path: Path) -> None:
    store = make_run(tmp_path, NOW_NS, 0)
    store.begin_events()
    full = store.root / CELL_EVENTS
    full.unlink()
    full.symlink_to("/dev/full")
    store.tell_event({"event": "prepare", "t_ns": 1})
    full.unlink()
    assert store.told_events() == []
    full.write_text('{"event":"prepare"}\n{"event":"st')
    assert store.told_events() == [{"event": "prepare"}], "a line that is being written is left out"


def test_bundles_are_served_and_nothing_else_is(tmp_path: Path) -> None:
    bundle = seal(make_run(tmp_path, NOW_NS, 1), {"pass": 1})
    (tmp_path / "outside.txt").write_text("secret")
    (bundle / "data" / "link.txt").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "unsealed").mkdir()
    (tmp_path / "unsealed" / "a.txt").write_text("x")
    with LiveServer(0, Snapshot(tmp_path, None)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            base = f"/bundle/{RUN_ID}"
            assert asked(server, f"{base}/data/report.html") == (200, "text/html; charset=utf-8")
            assert asked(server, f"{base}/data/plan.json")[0] == 200
            for path in (
                f"{base}/data/none.html",
                f"{base}/data/link.txt",
                f"{base}/../outside.txt",
                f"{base}/%2e%2e/outside.txt",
                "/bundle/../outside.txt",
                "/bundle/unsealed/a.txt",
                "/bundle/latest/data/report.html",
                base,
                "/bundle/",
                f"{base}/data/%00",
                "/bundle//etc/passwd",
                f"{base}//etc/passwd",
            ):
                assert asked(server, path)[0] == 404, path
        finally:
            server.shutdown()
            thread.join(LIMIT_S)


def asked(server: LiveServer, path: str) -> tuple[int, str | None]:
    """Status and content type; the path goes out as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LIMIT_S)
    try:
        connection.putrequest("GET", path)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers["Content-Type"]
    finally:
        connection.close()


@pytest.mark.parametrize("port", [80000, -1, 65536])
def test_a_port_that_is_none_is_one_sentence(
    port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["live", f"--port={port}", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"--port {port} is no port" in told and "Traceback" not in told


def test_synthetic_watts_are_never_asked_for() -> None:
    (power,) = (panel for panel in PANELS if panel.id == "power")
    assert all("\"synthetic\" = 'false'" in influxql(line, 60 * 10**9, 2) for line in power.lines)
    assert all('r["synthetic"] == "false"' in dashboards.flux(line) for line in power.lines)


def test_without_a_database_the_progress_is_still_there(tmp_path: Path) -> None:
    store = Store(tmp_path, "20260301T120000Z-ab12cd")
    store.write("plan.json", {"cells": []})
    store.write_status(
        {
            "run_id": store.run_id,
            "state": "running",
            "done": 1,
            "total": 2,
            "eta_s": 9.0,
            "updated_utc": utc_text(NOW_NS),
        }
    )
    database = Database(NOW_NS)
    database.gone = True
    document = Snapshot(tmp_path, database).document()
    assert document["run"]["done"] == 1 and document["run"]["state"] == "killed", "nobody holds its lock"
    assert not (store.root / "lock").exists(), "looking makes no file"
    store.lock()
    for given, why in ((database, "refused"), (None, "names no database")):
        document = Snapshot(tmp_path, given).document()
        assert document["run"]["done"] == 1 and document["moment"] == "first"
        assert not document["influx"]["ok"] and why in document["influx"]["why"]
        assert [panel["series"] for panel in document["panels"]] == [[]] * len(PANELS)
        assert all(panel["none"] for panel in document["panels"])
    begun_ns = 1_772_366_400_000_000_000
    store.write_status({**store.read_status(), "updated_utc": utc_text(begun_ns)})
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
    assert document["run"] is None and document["moment"] == "none"
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
    _, told = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, told) == (130, "\nstopped by Ctrl-C\n")
