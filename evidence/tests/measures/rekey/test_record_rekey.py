"""Category F over a synthetic cell whose traffic was moved to two new epochs on the way."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fixtures_make
import pytest

from pqevidence.records import build_record, load_context

MS = 1_000_000
Json = dict[str, Any]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    yield fixtures_make.make_work_dir(tmp_path / fixtures_make.RUN_ID)


def record_of(work: Path) -> tuple[Path, Json]:
    context = load_context(work / "data")
    row = context.plan["cells"][0]
    folder = work / "data" / "cells" / row["cell_id"]
    fields: Json = build_record(folder, row, context)["categories"]["F"]
    return folder, fields


def rewrite(path: Path, change: Any) -> list[list[str]]:
    with path.open(newline="") as handle:
        header, *rows = list(csv.reader(handle))
    rows = [row for row in map(change, rows) if row is not None]
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])
    return rows


def rekeyed(work: Path, switch_at: list[int]) -> Path:
    """From sequence `switch_at[n]` on, traffic rows carry epoch + n + 1 at both ends."""
    folder, _ = record_of(work)

    def move(row: list[str]) -> list[str]:
        if row[6] == "traffic":
            row[1] = str(int(row[1]) + sum(int(row[2]) >= limit for limit in switch_at))
        return row

    for role in ("drone", "gcs"):
        rewrite(folder / f"ledger.{role}.csv", move)
    counters = json.loads((folder / "counters.json").read_text())
    counters["drone"].update(
        rekey_started=3,
        rekey_completed=2,
        rekey_failed=1,
        rekey_coalesced=4,
        hs_started=counters["drone"]["hs_started"] + 3,
        hs_completed=counters["drone"]["hs_completed"] + 2,
    )
    (folder / "counters.json").write_text(json.dumps(counters))
    with (folder / "events.ndjson").open("a") as handle:
        for start_ms, end_ms, result in (
            (1000, 1004, "completed"),
            (1500, 1501, "failed"),
            (2000, 2006, "completed"),
        ):
            row = {
                "t_ns": end_ms * MS,
                "host": "drone",
                "event": "rekey",
                "start_ns": start_ms * MS,
                "end_ns": end_ms * MS,
                "result": result,
                "reason": "schedule",
            }
            handle.write(json.dumps(row) + "\n")
    return folder


def value(fields: Json, name: str) -> Any:
    return fields[name]["value"]


def test_a_cell_without_rekeys_says_so(work: Path) -> None:
    _, fields = record_of(work)
    assert {row["reason"] for row in fields.values()} == {"no rekey in this cell"}


def test_counts_pace_and_the_model_beside_the_measured_blackout(work: Path) -> None:
    rekeyed(work, [100, 200])
    _, fields = record_of(work)
    names = ("attempts", "success", "failure", "coalesced")
    assert [value(fields, f"rekey_{name}_count") for name in names] == [3, 2, 1, 4]
    assert value(fields, "rekey_interval_ms") == 1000
    assert value(fields, "rekey_duration_ms") == 5
    assert value(fields, "rekey_share_model_pct") == pytest.approx(100 * 5 / 1005, abs=1e-6)
    assert fields["rekey_share_model_pct"]["validity"] == "model"
    assert value(fields, "rekey_trigger_reason") == "schedule"
    assert value(fields, "rekey_lost_packets_count") == value(fields, "rekey_late_packets_count") == 0
    gap, sent = value(fields, "rekey_gap_ms"), value(fields, "rekey_send_gap_ms")
    added = value(fields, "rekey_blackout_duration_ms")
    assert gap > 0 and sent > 0 and 0 <= added <= gap
    assert fields["rekey_blackout_duration_ms"]["n"] >= 2


def test_a_pause_and_a_loss_around_a_switch_are_found(work: Path) -> None:
    folder = rekeyed(work, [100])
    _, before = record_of(work)

    def later(row: list[str]) -> list[str] | None:
        if row[0] == "rx" and row[6] == "traffic" and int(row[2]) in (100, 101):
            return None  # lost at the switch
        if row[0] == "rx" and row[6] == "traffic" and int(row[2]) >= 100:
            row[5] = str(int(row[5]) + 200 * MS)
        return row

    rewrite(folder / "ledger.gcs.csv", later)
    _, after = record_of(work)
    assert value(after, "rekey_lost_packets_count") == 2
    assert value(after, "rekey_blackout_duration_ms") >= value(before, "rekey_blackout_duration_ms") + 150
    assert value(after, "rekey_gap_ms") >= value(before, "rekey_gap_ms") + 100
    assert value(after, "rekey_blackout_share_pct") > value(before, "rekey_blackout_share_pct")


def test_a_direction_that_saw_no_switch_does_not_halve_the_share(work: Path) -> None:
    folder = rekeyed(work, [])

    def down_alone(row: list[str], own: str) -> list[str]:
        if row[0] == own and row[6] == "traffic" and int(row[2]) >= 100:
            row[1] = str(int(row[1]) + 1)
            row[5] = str(int(row[5]) + (200 * MS if own == "rx" else 0))
        return row

    rewrite(folder / "ledger.drone.csv", lambda row: down_alone(row, "tx"))
    rewrite(folder / "ledger.gcs.csv", lambda row: down_alone(row, "rx"))
    _, fields = record_of(work)
    assert fields["rekey_blackout_share_pct"]["n"] == 1
    added_ms = value(fields, "rekey_blackout_duration_ms")
    assert added_ms >= 150
    assert value(fields, "rekey_blackout_share_pct") == pytest.approx(100 * added_ms / 1e3 / 1.0, rel=1e-3)


def test_without_ledgers_the_blackout_is_unknown_not_zero(work: Path) -> None:
    folder = rekeyed(work, [100])
    for role in ("drone", "gcs"):
        (folder / f"ledger.{role}.csv").unlink()
    _, fields = record_of(work)
    assert fields["rekey_blackout_duration_ms"]["reason"] == "no ledger of both ends"
    assert value(fields, "rekey_lost_packets_count") is None
