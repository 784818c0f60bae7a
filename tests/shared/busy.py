"""Cells of a machine that is sometimes busy: what a test of function asks, where it must not ask for quiet.

A cell whose times a neighbour disturbed is *invalid* for that reason alone; everything else in it was
measured and judged as in any other. Tests of times ask for `pass`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: options of `pqlab run` for a test of function: wait a little for quiet, then go on and have it said
BUSY_OK = ("--busy-ok", "--settle-s", "30")
FINDING = "busy_machine"


def disturbed(record: dict[str, Any]) -> bool:
    """Invalid because the machine was busy, and for no other reason."""
    findings = record["categories"]["R"]["verdict_findings"]["value"] or {}
    return record["verdict"] == "invalid" and set(findings) == {FINDING}


def amiss(bundle: Path) -> dict[str, Any]:
    """Cell → what is wrong with it; {} where every cell passed or was disturbed by a busy machine alone."""
    records = [json.loads(path.read_text()) for path in sorted((bundle / "data/cells").glob("*/record.json"))]
    assert records, f"{bundle} has no cell"
    return {
        r["cell_id"]: (r["verdict"], r["reason"])
        for r in records
        if r["verdict"] != "pass" and not disturbed(r)
    }
