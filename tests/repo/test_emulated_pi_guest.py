"""The emulated Pi's guest has a bare Python and the files that `emulated-pi/gather` copies: what it imports
must be among them. Without this a new import is noticed only by a machine that boots."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def gathered(folder: Path) -> Path:
    subprocess.run(["sh", str(ROOT / "emulated-pi" / "gather"), str(ROOT), str(folder)], check=True)
    return folder


def imports_alone(folder: Path, module: str) -> subprocess.CompletedProcess[str]:
    """Import `module` by a Python without site packages or environment that sees `folder` alone."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import {module}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("module", ["joules", "pqtelemetry.power.rawfile", "player"])
def test_what_the_guest_runs_is_copied_whole(tmp_path: Path, module: str) -> None:
    done = imports_alone(gathered(tmp_path / "guest"), module)
    assert done.returncode == 0, done.stderr


def test_a_file_left_out_is_noticed(tmp_path: Path) -> None:
    folder = gathered(tmp_path / "guest")
    (folder / "pqbase" / "stats.py").unlink()
    done = imports_alone(folder, "joules")
    assert done.returncode != 0
    assert "pqbase" in done.stderr
