"""What needs no lab went on beside the tests so far; its outcome is awaited before residue is looked for."""

from __future__ import annotations

import subprocess

import pytest

from .conftest import BESIDE, BESIDE_LOG

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

#: from start to end at the lowest weight; alone it takes a fourth of it
LONGEST_S = 3000


def test_what_needs_no_lab_passed() -> None:
    if not BESIDE:
        pytest.skip("PQLAB_BESIDE is not set: run .ci/beside by itself")
    (process,) = BESIDE
    try:
        code = process.wait(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it takes longer than {LONGEST_S} s; its output is in {BESIDE_LOG}")
    assert code == 0, BESIDE_LOG.read_text(encoding="utf-8", errors="replace")[-6000:]
