"""A bundle of all 72 suites, made once a session: read by several files, changed by none."""

from __future__ import annotations

from pathlib import Path

import fixture_handshake
import pytest
import report_bundle

from pqevidence.pages import render


@pytest.fixture(scope="session")
def bundle_of_all_suites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All 72 once, analysed and rendered: the root that holds data/."""
    before = dict(fixture_handshake.TIMES)
    times = report_bundle.times_of_all_suites()
    fixture_handshake.TIMES.update(times)
    try:
        root = report_bundle.make_bundle(
            tmp_path_factory.mktemp("all") / "run",
            suites=tuple(times),
            handshakes=5,
            session_s=0.5,
            bulk=False,
        )
    finally:
        fixture_handshake.TIMES.clear()
        fixture_handshake.TIMES.update(before)
    render(root)
    return root
