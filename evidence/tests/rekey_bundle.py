"""Synthetic bundles with rekeys: traffic moved to new epochs, CPU that grows with their number."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

from report_bundle import make_bundle, plan_cells

MS = 1_000_000
SUITE = "cs-mlkem768-aesgcm-mldsa65"
BASE = {"name": "none", "rekey": "none", "events": []}
RARE = {**BASE, "name": "every-400ms", "rekey": {"every_s": 0.4, "start_s": 0, "count": None, "suites": []}}
OFTEN = {**BASE, "name": "every-200ms", "rekey": {"every_s": 0.2, "start_s": 0, "count": None, "suites": []}}
#: condition → sequences at which the drone's traffic changes its epoch, CPU points added to its process
SWITCHES = {"every-400ms": ([110, 220], 4.0), "every-200ms": ([60, 120, 180, 240], 30.0)}


def edit(root: Path) -> None:
    """Give every cell of a rekeying condition its switches, events, counters and CPU."""
    for cell in plan_cells(root):
        if cell["condition"] in SWITCHES:
            switch_at, points = SWITCHES[cell["condition"]]
            _rekey(root / "data" / "cells" / cell["cell_id"], switch_at, points, cell["repetition"])


def _rekey(folder: Path, switch_at: list[int], points: float, repetition: int) -> None:
    for role in ("drone", "gcs"):
        path = folder / f"ledger.{role}.csv"
        with path.open(newline="") as handle:
            header, *rows = list(csv.reader(handle))
        for row in rows:
            if row[6] == "traffic":
                row[1] = str(int(row[1]) + sum(int(row[2]) >= limit for limit in switch_at))
        with path.open("w", newline="") as handle:
            csv.writer(handle, lineterminator="\n").writerows([header, *rows])
    counters: dict[str, Any] = json.loads((folder / "counters.json").read_text())
    count = len(switch_at)
    counters["drone"].update(rekey_started=count, rekey_completed=count, rekey_failed=0, rekey_coalesced=0)
    for role in ("drone", "gcs"):
        for name in ("hs_started", "hs_completed"):
            counters[role][name] += count
    (folder / "counters.json").write_text(json.dumps(counters))
    pause_ms = 900 // count
    with (folder / "events.ndjson").open("a") as handle:
        for number in range(count):
            start_ns = 1_000 * MS + number * pause_ms * MS
            row = {
                "t_ns": start_ns + 5 * MS,
                "host": "drone",
                "event": "rekey",
                "start_ns": start_ns,
                "end_ns": start_ns + 5 * MS,
                "result": "completed",
                "reason": "schedule",
            }
            handle.write(json.dumps(row) + "\n")
    path = folder / "telemetry.drone.lp"
    points *= 1 + 0.01 * repetition
    # the counter grows by 6 ms a tick of 100 ms, that is 6 %
    text = re.sub(
        r"process_cpu_ns=(\d+)i",
        lambda m: f"process_cpu_ns={round(int(m[1]) * (6 + points) / 6)}i",
        path.read_text(),
    )
    path.write_text(text)


def make(root: Path, **options: Any) -> Path:
    """Three conditions of one suite, three repetitions."""
    given: dict[str, Any] = {
        "suites": (SUITE,),
        "repetitions": 3,
        "conditions": (BASE, RARE, OFTEN),
        "bulk": False,
        **options,
    }
    return make_bundle(root, edit=edit, **given)
