"""Whatever moment a campaign is killed at: one verified bundle in the end, each cell in it once, no finished
record changed. Many moments, drawn from a seed; the files are real, the agents are in memory."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from pqevidence.kernel.view import BundleView
from pqevidence.verify.registry import CHECKS
from pqevidence.verify.run import run_checks
from tools import ended
from waiting import LIMIT_S

#: what a bundle of agents that measure nothing can be held to
HELD = (
    "bagit_structure", "tagmanifest_fixity", "manifest_fixity", "ro_crate", "scenario_schema", "plan_schema",
    "cells_accounted", "cell_ids", "verdict_counts", "attempts_kept", "wall_clock", "order_kept", "lineage",
    "twins",
)  # fmt: skip
CAMPAIGNS = 40


@pytest.mark.parametrize("seed", [20260501])
def test_random_kills_end_in_a_verified_bundle_with_each_cell_once(tmp_path: Path, seed: int) -> None:
    done = ended(
        [
            sys.executable,
            str(Path(__file__).with_name("kill_random.py")),
            str(tmp_path),
            str(seed),
            str(CAMPAIGNS),
        ],
        4 * LIMIT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == CAMPAIGNS
    assert sum(len(campaign["kills"]) for campaign in told) >= CAMPAIGNS
    # some of them when every cell was done: between the last record and the name that vouches for all
    assert sum(campaign["at_the_end"] for campaign in told) >= 3
    for campaign in told:
        bundle = Path(campaign["bundle"])
        assert campaign["changed"] == []
        results = run_checks(BundleView(bundle), [check for check in CHECKS if check.name in HELD])
        assert [(r.name, r.observed) for r in results if r.status != "ok"] == [], campaign
        assert len(results) == len(HELD)
        plan = json.loads((bundle / "data" / "plan.json").read_text())["cells"]
        assert len(plan) == 2 * 2 + 2
        assert sorted(p.name for p in bundle.iterdir()) == [
            "bagit.txt",
            "data",
            "manifest-sha512.txt",
            "tagmanifest-sha512.txt",
        ]
