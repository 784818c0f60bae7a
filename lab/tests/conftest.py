"""Lets the lab's tests import the helper modules that lie beside them, and makes once what takes seconds.

What these fixtures give is read by several files and changed by none: who changes something copies it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def bundle_of_all_suites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All 72 once, analysed and rendered: the root that holds data/."""
    import fixture_handshake
    import report_bundle

    from pqlab.report import render

    before = dict(fixture_handshake.TIMES)
    times = report_bundle.times_of_all_suites()
    fixture_handshake.TIMES.update(times)
    try:
        root = report_bundle.make_bundle(
            tmp_path_factory.mktemp("all") / "run",
            suites=tuple(times), handshakes=5, session_s=0.5, bulk=False,
        )  # fmt: skip
    finally:
        fixture_handshake.TIMES.clear()
        fixture_handshake.TIMES.update(before)
    render(root)
    return root


@pytest.fixture(scope="session")
def bench_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A performance folder as `pqtunnel bench` leaves it, with made-up times."""
    import benched_kit

    root = tmp_path_factory.mktemp("bench") / "run"
    benched_kit.performance_tree(root)
    return root


@pytest.fixture(scope="session")
def powered_bench(bench_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its bundle with an energy run of the sensor's model and a board's damaged log."""
    import benched_kit

    return benched_kit.powered_bundle(bench_tree, tmp_path_factory.mktemp("powered"))
