"""A workload that both ends tell alike is no fault: what the bundles spoiled beside it were before."""

from __future__ import annotations

from pathlib import Path

from bundle_kit import make_sealed
from measures.commands.bad_bundles import _asked

from pqevidence.verify import verify_bundle

#: the record and the pages were made before anything was asked
MADE_BEFORE = {"record_rebuild", "report_rebuild"}


def test_one_command_told_alike_by_both_ends(tmp_path: Path) -> None:
    root = make_sealed(tmp_path)
    _asked(root, lambda ground, vehicle: None)
    results = verify_bundle(root, skip=MADE_BEFORE)
    assert [(r.name, r.observed) for r in results if r.status != "ok"] == []
