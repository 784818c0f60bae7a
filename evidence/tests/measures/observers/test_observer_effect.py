"""Observers on and off: what the accounts give, and where nothing may be said."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from measures.observers.observer_files import SAMPLER, TUNNEL, VIEW, write_observers
from report_bundle import make_bundle, plan_cells
from report_page import Page

from pqevidence.pages import render

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
