"""The ground uploads a mission, flies it and gives commands through the tunnel, link and rekeys included."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from busy import BUSY_OK

from .conftest import load_records, measured, pqlab, value

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

COMMANDS = 60
SCENARIO = f"""\
schema: pqlab/scenario/v1
name: asks
seed: 5
suites: [cs-mlkem768-aesgcm-mldsa65]
conditions:
  - name: direct
  - {{name: rekeys, rekey: {{every_s: 0.2, start_s: 1}}}}
  - {{name: lossy, overlays: [lossy-80ms-5pct]}}
handshake: {{count: 5, min_count: 5, max_s: 20}}
traffic:
  session_s: 20
  source: embedded
  workload:
    - {{kind: mission_upload, at_s: 1, waypoints: 5}}
    - {{kind: command, at_s: 2, rate_hz: 4, for_s: {COMMANDS // 4}}}
    - {{kind: auto, at_s: 12}}
    - {{kind: mode, at_s: 14, mode: GUIDED}}
    - {{kind: param_download, at_s: 3, count: 8}}
"""


@pytest.fixture(scope="module")
def bundle(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    scenario = tmp_path_factory.mktemp("missions") / "asks.yml"
    scenario.write_text(SCENARIO)
    return measured(pqlab("run", str(scenario), *BUSY_OK, "--json"))


def test_every_request_is_acknowledged_and_the_bundle_verifies(bundle: Path) -> None:
    for record in load_records(bundle):
        told = {
            name: value(record, "J", f"workload_{name}_count")
            for name in ("planned", "sent", "acknowledged", "refused", "retries")
        }
        if record["condition"] == "lossy":
            # what is lost is sent again after 1.5 s, one at a time: not all have their turn
            assert told["planned"] == COMMANDS + 4
            assert 0 < told["acknowledged"] <= told["sent"] <= told["planned"]
            continue
        assert told == {
            "planned": COMMANDS + 4,
            "sent": COMMANDS + 4,
            "acknowledged": COMMANDS + 4,
            "refused": 0,
            "retries": 0,
        }
        assert value(record, "J", "mission_upload_ms") > value(record, "J", "command_ack_p50_ms") > 0
    told_by_vehicle = json.loads((next(iter(cells_of(bundle, "direct"))) / "traffic.json").read_text())
    report = told_by_vehicle["windows"]["traffic"]["drone"]["source_report"]
    assert report["beside"]["kinds"]["COMMAND_ACK"] == COMMANDS + 2
    checked = pqlab("verify", str(bundle), "--json")
    assert checked.code in (0, 3), checked.text[-3000:]


def test_the_table_tells_commands_that_met_a_rekey(bundle: Path) -> None:
    with (bundle / "data" / "analysis" / "commands.csv").open(newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row["kind"] == "command"]
    phases = {(row["condition"], row["phase"]): row for row in rows}
    if ("rekeys", "all") in phases:  # the machine was quiet enough for the cell to count
        counts = [int(phases["rekeys", phase]["sent_count"]) for phase in ("rekey", "no rekey")]
        assert sum(counts) == int(phases["rekeys", "all"]["sent_count"]) == COMMANDS


def cells_of(bundle: Path, condition: str) -> list[Path]:
    """Folders of a condition's cells."""
    ids = [record["cell_id"] for record in load_records(bundle) if record["condition"] == condition]
    return [bundle / "data" / "cells" / cell_id for cell_id in ids]
