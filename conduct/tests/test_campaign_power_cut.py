"""A power cut empties files that had their names: what lost its content is measured again, and kept aside."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fake_agent import FakeLab
from resume_kit import cells_by_position, interrupted, resume

from pqlab.campaign.engine import Campaign


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("record.json", b'{"verdict'),
        *((file, content) for content in (b"", b"\0" * 40)
          for file in ("record.json", "counters.json", "events.ndjson", "spans.ndjson")),
    ],
)  # fmt: skip
def test_a_cell_that_a_power_cut_emptied_is_measured_again_and_kept(
    tmp_path: Path, file: str, content: bytes
) -> None:
    lab = FakeLab(tmp_path)
    work = interrupted(lab)
    cell, whole = cells_by_position(work)[:2]
    record = json.loads((cell / "record.json").read_text())
    record["categories"] = {"D": {"handshakes": {"value": 5, "source": "spans.ndjson"}}}
    (cell / "record.json").write_text(json.dumps(record))
    (cell / file).write_bytes(content)
    before = (whole / "record.json").read_bytes()
    lab.reporter.lines.clear()
    result = resume(lab)
    assert result.verdict_counts == {"pass": 4}
    assert next(line for line in lab.reporter.lines if "attempt" in line) == "cell 0 attempt 1"
    assert sum("damaged and will be measured again" in line for line in lab.reporter.lines) == 1
    (aside,) = (lab.results / ".work" / ".damaged" / work.name).iterdir()
    assert aside.name == f"{cell.name}-1"
    assert (aside / file).read_bytes() == content
    assert (result.bundle / "data" / "cells" / whole.name / "record.json").read_bytes() == before


def test_what_may_be_empty_damages_no_cell(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    work = interrupted(lab)
    cell = cells_by_position(work)[0]
    record = json.loads((cell / "record.json").read_text())
    rests_on = {"n": {"value": 0, "source": "spans.ndjson"}, "t": {"value": 7, "source": "telemetry"}}
    record["categories"] = {"D": rests_on}
    (cell / "record.json").write_text(json.dumps(record))
    for name in ("spans.ndjson", "telemetry.gcs.lp", "logs/drone.log"):
        (cell / name).write_bytes(b"")
    assert resume(lab).verdict_counts == {"pass": 4}
    assert not (lab.results / ".work" / ".damaged").exists()


def test_whole_attempts_of_a_damaged_cell_stay_its_attempts(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path, script={0: ["invalid", "pass"]})
    work = interrupted(lab, at=4)
    cell = cells_by_position(work)[0]
    (cell / "record.json").write_bytes(b"")
    earlier = (cell / "attempt-1" / "record.json").read_bytes()
    bundle = resume(lab).bundle
    assert (bundle / "data" / "cells" / cell.name / "attempt-1" / "record.json").read_bytes() == earlier
    assert "cell 0 attempt 2" in lab.reporter.lines


def test_an_attempt_left_complete_but_emptied_is_made_again(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    work = interrupted(lab, at=1)
    cell = cells_by_position(work)[0]
    left = work / "partial" / cell.name
    (left / "record.json").write_bytes(b"")
    assert resume(lab).verdict_counts == {"pass": 4}
    assert len(list((lab.results / ".work" / ".damaged" / work.name).iterdir())) == 1


def test_a_cell_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so are the documents without which nothing can be resumed, before they have theirs."""
    steps: list[tuple[str, str]] = []
    real_sync, real_rename, real_replace = os.fsync, Path.rename, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        real_sync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        steps.append(("rename", str(self)))
        return real_rename(self, target)

    def replace_(self: Path, target: Path) -> Path:
        steps.append(("rename", str(self)))
        return real_replace(self, target)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr(Path, "replace", replace_)
    lab = FakeLab(tmp_path)
    bundle = Campaign.begin(lab.around(), lab.scenario(1)).carry_out().bundle
    work = lab.results / ".work" / bundle.name
    (cell,) = (bundle / "data" / "cells").iterdir()
    partial = work / "partial" / cell.name
    named = steps.index(("rename", str(partial)))
    for file in cell.rglob("*"):
        assert ("sync", str(partial / file.relative_to(cell))) in steps[:named]
    assert ("sync", str(partial)) in steps[:named]
    assert ("sync", str(work / "data" / "cells")) in steps[named:]
    for name in ("plan.json", "run.json", "providers.json", "scenario.effective.yml"):
        hidden = str(work / "data" / f".{name}.tmp")
        assert steps.index(("sync", hidden)) < steps.index(("rename", hidden))
    assert not any(step == "sync" and "status.json" in path for step, path in steps)
