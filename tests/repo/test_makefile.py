"""Targets hand OUT on: what `make run OUT=DIR` wrote is what `make verify OUT=DIR` checks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]


def typed(*words: str) -> list[str]:
    """The lines that make would have the shell run."""
    command = ["make", "--no-print-directory", "--dry-run", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    return [line.strip() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("target", ["verify", "report", "archive"])
def test_out_is_handed_on(target: str) -> None:
    assert typed(target, "OUT=/tmp/there") == [f"./pqlab {target} --out /tmp/there"]


@pytest.mark.parametrize("target", ["verify", "report", "archive"])
def test_without_it_the_newest_bundle_of_results_is_meant(target: str) -> None:
    assert typed(target) == [f"./pqlab {target}"]
