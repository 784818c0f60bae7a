"""Latency shares and time lines: counts, bins and bands worked out again from the raw files."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import detector_bundle
import pytest
import rekey_bundle
import report_bundle
from detector_files import gate_of
from report_page import Page

from pqevidence.analysis.latency import LatencyShares
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.table import read_rows
from pqevidence.analysis.timeline import BINS_COUNT, Span, timeline_tables
from pqevidence.pages import render

Rows = list[dict[str, str]]
LOST_COUNT = 7
MS = 1_000_000


def ledger(folder: Path, end: str) -> Rows:
    with (folder / f"ledger.{end}.csv").open(newline="", encoding="ascii") as handle:
        return list(csv.DictReader(handle))


def table(root: Path, name: str) -> Rows:
    return read_rows(root / "data" / "analysis" / f"{name}.csv")


def shown(root: Path) -> dict[str, Any]:
    """The cell that is drawn: the first of the run that passed."""
    passed = {cell.cell_id for cell in BundleData(root).cells if cell.verdict == "pass"}
    return min(
        (c for c in report_bundle.plan_cells(root) if c["cell_id"] in passed), key=lambda c: c["position"]
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_bundle.make_bundle(
        tmp_path_factory.mktemp("time") / "run", bulk=False, handshakes=5, session_s=4.0
    )


def test_shares_are_counts_of_delays(root: Path) -> None:
    rows = [row for row in table(root, "latency_shares") if row["direction"] == "down"]
    delays = []
    for cell in report_bundle.plan_cells(root):
        folder = root / "data" / "cells" / cell["cell_id"]
        came = {r["sequence"]: int(r["t_out_ns"]) for r in ledger(folder, "gcs") if r["direction"] == "rx"}
        for row in ledger(folder, "drone"):
            if (row["direction"], row["window"]) == ("tx", "traffic"):
                delays.append((came[row["sequence"]] - int(row["t_in_ns"])) / 1e6)
    assert len(rows) > 5
    assert {row["sent_count"] for row in rows} == {str(len(delays))}
    for row in rows:
        within = sum(delay <= float(row["within_ms"]) for delay in delays)
        assert float(row["share_pct"]) == pytest.approx(100 * within / len(delays), rel=1e-8)
    assert float(rows[-1]["share_pct"]) == 100.0


def test_what_is_lost_never_arrives(root: Path) -> None:
    cell = BundleData(root).cells[0]
    shares = LatencyShares()
    shares.take(cell, "down", 10, [1.0, 2.0, 2.0, 500.0])
    shares.take(cell, "down", 10, [0.00001])
    rows = shares.table().rows
    assert rows[0]["share_pct"] == 5.0 and rows[-1]["share_pct"] == 25.0
    assert (rows[0]["n_cells"], rows[0]["sent_count"], rows[0]["received_count"]) == (2, 20, 5)
    within = {float(str(row["within_ms"])): row["share_pct"] for row in rows}
    assert within[1.0] == 10.0
    assert next(share for ms, share in within.items() if ms > 2.0) == 20.0


def test_bins_hold_every_datagram_of_the_session_once(root: Path) -> None:
    cell = shown(root)
    folder = root / "data" / "cells" / cell["cell_id"]
    open_ns, close_ns = gate_of(folder)
    sent = [r for r in ledger(folder, "drone") if (r["direction"], r["window"]) == ("tx", "traffic")]
    rows = table(root, "timeline")
    assert {row["cell_id"] for row in rows} == {cell["cell_id"]}
    assert sum(int(row["sent_count"]) for row in rows) == len(sent)
    assert float(rows[-1]["to_s"]) == pytest.approx((close_ns - open_ns) / 1e9)
    for row in rows:
        low, high = (open_ns + float(row[name]) * 1e9 for name in ("from_s", "to_s"))
        due = [r for r in sent if low <= int(r["t_in_ns"]) < high]
        assert int(row["sent_count"]) == len(due)
        assert float(row["rate_hz"]) == pytest.approx(len(due) / (high - low) * 1e9, rel=1e-6)
        assert row["loss_pct"] == "0"
        assert float(row["cpu_drone_pct"]) > 0 and float(row["cpu_gcs_pct"]) > 0


def test_a_lost_datagram_is_lost_in_its_bin(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(root, copy)
    folder = copy / "data" / "cells" / shown(copy)["cell_id"]
    path = folder / "ledger.gcs.csv"
    lines = path.read_text(encoding="ascii").splitlines(keepends=True)
    came = [n for n, line in enumerate(lines) if line.startswith("rx")]
    gone = set(came[-LOST_COUNT:])
    path.write_text("".join(line for n, line in enumerate(lines) if n not in gone), encoding="ascii")
    bins = timeline_tables(BundleData(copy))[0]
    lost = [int(str(row["lost_count"])) for row in bins.rows]
    assert sum(lost) == LOST_COUNT and sum(lost[:-2]) == 0


def test_without_a_ledger_there_is_no_rate_and_a_reason(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(root, copy)
    for path in copy.glob("data/cells/*/ledger.*.csv"):
        path.unlink()
    tables = timeline_tables(BundleData(copy))
    assert all(row["rate_hz"] is None and row["loss_pct"] is None for row in tables[0].rows)
    for made in tables:
        made.write(copy / "data" / "analysis")
    page = Page(render(copy)[0].read_text(encoding="utf-8"))
    assert "not measured: no ledger of both ends" in page.text_of["over-time"]


def test_spans_of_any_length_have_few_bins() -> None:
    for seconds in (0.05, 0.9, 45.0, 3600.0, 1e12):
        span = Span(0, round(seconds * 1e9), round(seconds * 1e9))
        assert span.bin_s >= 0.2
        assert seconds / span.bin_s <= BINS_COUNT * 1.001


def test_rekeys_links_and_attacks_are_bands(tmp_path: Path) -> None:
    root = rekey_bundle.make(tmp_path / "run")
    _with_events(root)
    bands = timeline_tables(BundleData(root))[1].rows
    often = [row for row in bands if row["condition"] == "every-200ms"]
    kinds = [str(row["kind"]) for row in often]
    assert kinds.count("rekey") == 4 and kinds.count("impairment") == 1 and kinds.count("attack") == 1
    (link,) = [row for row in often if row["kind"] == "impairment"]
    assert (link["from_s"], link["to_s"]) == pytest.approx((0.2, 0.5), abs=1e-6)
    (attack,) = [row for row in often if row["kind"] == "attack"]
    assert (attack["from_s"], attack["to_s"]) == pytest.approx((0.6, 0.7), abs=1e-6)
    assert not [row for row in bands if row["condition"] == "none" and row["kind"] == "rekey"]


def _with_events(root: Path) -> None:
    """Rekeys by the wall clock, a change of the link and an attack in every cell."""
    for cell in report_bundle.plan_cells(root):
        folder = root / "data" / "cells" / cell["cell_id"]
        open_ns, _ = gate_of(folder)
        path = folder / "events.ndjson"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if row["event"] == "rekey":  # the kit counts from the boot
                row["start_ns"] += open_ns - 1_000 * MS
                row["end_ns"] += open_ns - 1_000 * MS
        rows.append(
            {
                "t_ns": open_ns + 200 * MS,
                "host": "controller",
                "event": "timed_event",
                "timed": "link",
                "ok": True,
                "at_s": 0.2,
                "for_s": 0.3,
            }
        )
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        truth = [
            {"schema": "pqattack/truth/v1", "cell_id": cell["cell_id"], "bin_ns": 20 * MS},
            {
                "episode": 1,
                "kind": "forged",
                "benign": False,
                "t_on_ns": open_ns + 600 * MS,
                "t_off_ns": open_ns + 700 * MS,
            },
        ]
        (folder / "attack.ndjson").write_text("".join(json.dumps(row) + "\n" for row in truth))


def test_scores_and_the_canary_are_drawn(tmp_path: Path) -> None:
    root = detector_bundle.make(tmp_path / "run")
    scores = table(root, "detector_scores")
    assert {row["condition"] for row in scores} == {"xgboost", "tst"}
    cell = next(row["cell_id"] for row in scores)
    lines = [
        json.loads(line)
        for line in (root / "data" / "cells" / cell / "detector.ndjson").read_text().splitlines()
    ]
    told = {row["attack_score"] for row in scores if row["cell_id"] == cell}
    assert told <= {str(line["attack_score"]) for line in lines} and len(told) == 2
    bands = [row for row in table(root, "timeline_bands") if row["cell_id"] == cell]
    assert [row["kind"] for row in bands] == ["canary"]
    raised = [float(row["t_s"]) for row in scores if row["cell_id"] == cell and row["attack"] == "true"]
    assert raised and min(raised) >= float(bands[0]["from_s"])
    page = Page(render(root)[0].read_text(encoding="utf-8"))
    for name in ("det-fig-score-1", "det-fig-score-2", "fig-over-time-1", "fig-latency"):
        assert page.why_empty(name) is None, name
    assert "canary" in page.text_of["det-fig-score-1"]
