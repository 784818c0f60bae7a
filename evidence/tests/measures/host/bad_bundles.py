"""Accounts of hosts that their own files contradict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bad_bundles.forge import Registry, cell_of, edit, finish, load, registering

BAD: Registry = {}
SUITE = "mlkem768"


@registering(BAD, "sample_accounting")
def half_of_the_samples(root: Path) -> None:
    """Every other tick of the drone's sampler is gone, from the file and from the view's count alike."""
    cell = cell_of(root, SUITE)
    path = cell / "telemetry.drone.lp"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    times = sorted({line.rsplit(" ", 1)[1] for line in lines})
    kept = [line for line in lines if times.index(line.rsplit(" ", 1)[1]) % 2 == 0]
    path.write_text("".join(kept), encoding="utf-8")

    def recount(run: Any) -> None:
        for entry in run["influx"]["cells"]:
            if entry["cell_id"] == cell.name:
                for row in entry["series"]:
                    if "host=drone" in row["series"]:
                        count = sum(line.startswith(row["series"] + " ") for line in kept)
                        row["file_count"] = row["influx_count"] = count

    edit(root / "data" / "run.json", recount)
    finish(root)


@registering(BAD, "ticks_between")
def an_attempt_cut_out_and_its_place_closed(root: Path) -> None:
    """The last cell followed the one before it at once; by the kernel's account 20 s lay between."""
    plan = load(root / "data" / "plan.json")["cells"]
    last = root / "data" / "cells" / max(plan, key=lambda row: row["position"])["cell_id"]
    for role in ("drone", "gcs"):
        path = last / f"telemetry.{role}.lp"
        text = path.read_text(encoding="utf-8")
        later = re.sub(r"system_total_ms=(\d+)i", lambda m: f"system_total_ms={int(m[1]) + 40_000}i", text)
        path.write_text(later, encoding="utf-8")
    finish(root)
