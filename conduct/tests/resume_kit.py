"""Runs that were stopped, and what takes them up again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeLab, interrupt, once

from pqevidence.errors import LabError
from pqevidence.scenario.load import load_effective
from pqlab.campaign.engine import Campaign, Result
from pqlab.campaign.store import Store, work_runs


def resume(lab: FakeLab, **options: Any) -> Result:
    (run_id,) = work_runs(lab.results)
    store = Store(lab.results, run_id)
    scenario = load_effective(store.data / "scenario.effective.yml")
    return Campaign.resume(replace(lab.around(), **options), store, scenario).carry_out()


def interrupted(lab: FakeLab, at: int = 3, cells: int = 4) -> Path:
    """A run of so many cells that was stopped in the `at`-th; returns its work folder."""
    lab.drone.hooks.append(once("prepare", interrupt, at=at))
    with pytest.raises(LabError):
        Campaign.begin(lab.around(), lab.scenario(cells)).carry_out()
    (run_id,) = work_runs(lab.results)
    return lab.results / ".work" / run_id


def cells_by_position(work: Path) -> list[Path]:
    plan = json.loads((work / "data" / "plan.json").read_text())["cells"]
    return [work / "data" / "cells" / row["cell_id"] for row in plan]
