"""InfluxDB 2 in the place of the lab's database: points, token, dashboards, asked of the real server.

Its image is built from modules in minutes of a processor (images/influxdb2), which the whole check does not
have: asked for by PQLAB_INFLUXDB2=1, alone, because it brings up a lab of its own.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from busy import BUSY_OK
from pqlab.lab_number import lab_number

from .conftest import ROOT, load_records, measured, pqlab, run
from .influxdb2 import IMAGE, NS, TEMPLATE, Server, dashboard, live

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        os.environ.get("PQLAB_INFLUXDB2") != "1",
        reason="building InfluxDB 2 from its modules takes minutes: PQLAB_INFLUXDB2=1",
    ),
]

SHORT = ("--suite", "cs-mlkem768-aesgcm-mldsa65", "--reps", "1", "--session-s", "6")
#: panels of sensors that the container lab has not; test_57_influxdb2_alone.py gives their queries points
WITHOUT_A_SENSOR = ("temperature", "power", "detector")
NAME = f"{lab_number().project}-influxdb-1"


def server() -> Server:
    token = (ROOT / "keys" / "influxdb" / "token.secret").read_text()
    return Server(f"http://127.0.0.1:{lab_number().port(8086)}", token)


@pytest.fixture(scope="module")
def bundle(lab: None) -> Iterator[Path]:
    """A lab with InfluxDB 2 in the other one's place, brought up from nothing, and a short campaign in it."""
    built = run("./images/build.sh", "influxdb2", timeout_s=3600)
    assert built.code == 0, built.text[-3000:]
    assert run("make", "lab-down", timeout_s=180).code == 0
    up = run("make", "lab-up", timeout_s=1200, env={"INFLUXDB_IMAGE": IMAGE})
    assert up.code == 0, up.text[-4000:]
    try:
        yield measured(pqlab("run", "smoke", *SHORT, "--json", *BUSY_OK, timeout_s=600))
    finally:
        run("make", "lab-down", timeout_s=180)
        again = run("make", "lab-up", timeout_s=1200)
        assert again.code == 0, again.text[-4000:]


def test_the_database_is_of_version_2(bundle: Path) -> None:
    with urllib.request.urlopen(f"{server().url}/health", timeout=10) as reply:
        health = json.loads(reply.read())
    assert health["status"] == "pass" and re.match(r"v?2\.", health["version"]), health


def test_it_holds_exactly_the_points_of_the_files(bundle: Path) -> None:
    influx = json.loads((bundle / "data" / "run.json").read_text())["influx"]
    assert influx["available"], influx["reason"]
    rows = [row for cell in influx["cells"] for row in cell["series"]]
    assert len(rows) > 5 and sum(row["file_count"] for row in rows) > 100
    assert [row for row in rows if row["file_count"] != row["influx_count"] or not row["ok"]] == []
    checks = {check["name"]: check for check in pqlab("verify", str(bundle), "--json").json()["checks"]}
    assert checks["influx_reconcile"]["status"] == "ok", checks["influx_reconcile"]


def test_its_own_program_takes_the_dashboard_and_every_query_draws_the_campaign(bundle: Path) -> None:
    written = run(
        "docker", "exec", NAME, "sh", "-c", f"cat >/tmp/d.json <<'END'\n{TEMPLATE.read_text()}\nEND"
    )
    assert written.code == 0, written.text
    influx = ("docker", "exec", "-e", f"INFLUX_TOKEN={server().token}", NAME, "influx")
    applied = run(*influx, "apply", "--org", "pqlab", "--force", "yes", "-f", "/tmp/d.json")
    assert applied.code == 0 and "PQ-MAV Lab, live" in applied.text, applied.text[-2000:]
    walls = [record["wall"] for record in load_records(bundle)]
    start_s = min(wall["start_ns"] for wall in walls) // NS
    end_s = min(max(wall["end_ns"] for wall in walls) // NS, int(time.time()) - 5)
    drawn, expected = dashboard(server(), start_s, end_s), live(server(), start_s, end_s)
    assert len(drawn) >= 10
    empty = {name for name, values in drawn.items() if not values}
    assert all(name.startswith(WITHOUT_A_SENSOR) for name in empty), empty
    for name, values in drawn.items():
        assert values == pytest.approx(expected[name]), name


def test_the_live_view_reads_it(bundle: Path) -> None:
    assert pqlab("live", "--once").json()["influx"] == {"ok": True, "why": None}


def test_a_wrong_token_is_told_by_name_with_the_next_command_and_costs_no_cell(bundle: Path) -> None:
    done = pqlab("run", "smoke", *SHORT, "--json", *BUSY_OK, timeout_s=600, env={"INFLUXDB_TOKEN": "wrong"})
    influx = json.loads((measured(done) / "data" / "run.json").read_text())["influx"]
    assert not influx["available"] and "refuses the token of INFLUXDB_TOKEN" in influx["reason"]
    (told,) = (line for line in done.err.splitlines() if "refuses the token of INFLUXDB_TOKEN" in line)
    assert "the record is the files; next: " in told and "unset INFLUXDB_TOKEN" in told
