"""The power sampler on a real I²C bus in an emulated machine: known joules, errors told, nothing left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.beside_computes]

ROOT = Path(__file__).resolve().parents[2]


def test_known_joules_come_out_of_the_emulated_bus(tmp_path: Path) -> None:
    out = tmp_path / "pi"
    done = subprocess.run(
        [str(ROOT / "emulated-pi/run"), str(out)], capture_output=True, text=True, timeout=600, check=False
    )
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((out / "result.json").read_text())
    assert len(result["checks"]) >= 12
    assert [check for check in result["checks"] if not check["passed"]] == []
    containers = ["docker", "ps", "-aq", "--filter", "label=pqlab.tool=emulated-pi"]
    left = subprocess.run(containers, capture_output=True, text=True, timeout=60, check=True)
    assert left.stdout == ""
