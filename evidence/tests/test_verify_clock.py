"""Stamps shifted on purpose: the checks ask the same clock as the record does."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import fixtures_make
import pytest
from bundle_kit import write_records

from pqevidence.kernel.view import BundleView
from pqevidence.verify.registry import CHECKS
from pqevidence.verify.run import run_checks

MS = 1_000_000
ASKED = ("ledger_join", "record_medians", "record_rebuild")


def shifted(base: Path, *, told: bool) -> Path:
    """A run whose ground's stamps lie 40 ms back; `told`: because its agent was asked to shift them."""
    work = fixtures_make.make_work_dir(
        base / fixtures_make.RUN_ID, suites=("cs-mlkem768-aesgcm-mldsa65",), session_s=0.5, bulk=False
    )
    for folder in (work / "data" / "cells").iterdir():
        path = folder / "ledger.gcs.csv"
        with path.open(newline="") as handle:
            header, *rows = list(csv.reader(handle))
        for row in rows:
            row[4], row[5] = (str(int(row[place]) - 40 * MS) for place in (4, 5))
        with path.open("w", newline="") as handle:
            csv.writer(handle, lineterminator="\n").writerows([header, *rows])
        if told:
            events = (folder / "events.ndjson").read_text().splitlines()
            row = {"t_ns": json.loads(events[2])["t_ns"], "host": "gcs", "event": "clock_offset"}
            events.insert(3, json.dumps({**row, "offset_ms": -40}))
            (folder / "events.ndjson").write_text("\n".join(events) + "\n")
    write_records(work)
    return work


@pytest.mark.parametrize("told", [True, False])
def test_latency_below_nothing_is_expected_of_shifted_stamps_alone(tmp_path: Path, told: bool) -> None:
    work = shifted(tmp_path, told=told)
    results = run_checks(BundleView(work), [check for check in CHECKS if check.name in ASKED])
    found = {result.name: result.status for result in results}
    assert found["record_rebuild"] == "ok"
    assert found["record_medians"] == "ok", [r.observed for r in results]
    assert found["ledger_join"] == ("ok" if told else "fail")
