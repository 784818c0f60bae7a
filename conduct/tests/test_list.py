"""`pqlab list`: scenarios, overlays and bundles, for people and for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pqevidence.paths import project_root
from pqlab.cli.main import main

ROOT = project_root()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two sealed bundles, the newer one `latest`; a run in work and a folder that is none of them."""
    for run_id, scenario, counts in (
        ("20260101T000000Z-aaaaaa", "smoke", {"pass": 15}),
        ("20260102T000000Z-bbbbbb", "baseline", {"fail": 1, "pass": 71}),
    ):
        (tmp_path / run_id / "data").mkdir(parents=True)
        (tmp_path / run_id / "tagmanifest-sha512.txt").touch()
        run = {"scenario": scenario, "verdict_counts": counts, "exit_verdict": "pass"}
        (tmp_path / run_id / "data/run.json").write_text(json.dumps(run))
    (tmp_path / "latest").symlink_to("20260102T000000Z-bbbbbb")
    (tmp_path / ".work/20260103T000000Z-cccccc/data").mkdir(parents=True)
    (tmp_path / "20260104-notes").mkdir()
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["list", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    return lines


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[dict[str, Any]]]:
    assert main(["list", "--json", *words]) == 0
    loaded: dict[str, list[dict[str, Any]]] = json.loads(capsys.readouterr().out)
    return loaded


def test_everything_is_listed_with_its_title(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    lines = listed(capsys, "--out", str(results))
    names = {line.split()[0] for line in lines if line.startswith("  ")}
    shipped = {
        path.stem for folder in ("", "overlays") for path in (ROOT / "scenarios" / folder).glob("*.yml")
    }
    assert names == shipped | {"20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"}
    assert "  rekey-1s                Rekey once a second" in lines
    assert lines[-3:] == [
        "bundles  (./pqlab report NAME, ./pqlab verify NAME)",
        "  20260101T000000Z-aaaaaa  smoke  15 pass",
        "  20260102T000000Z-bbbbbb  baseline  1 fail, 71 pass  latest",
    ]


def test_one_kind_alone(capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path) -> None:
    assert len(listed(capsys, "bundles", "--out", str(results))) == 3
    (none,) = listed(capsys, "bundles", "--out", str(tmp_path / "none"))
    assert none.startswith("bundles: none") and none.endswith("make run SCENARIO=smoke")
    assert main(["list", "bundle"]) == 2


def test_scripts_get_a_document(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    told = document(capsys, "--out", str(results))
    assert list(told) == ["scenarios", "overlays", "bundles"]
    smoke = next(row for row in told["scenarios"] if row["name"] == "smoke")
    assert smoke["title"] == "Five suites, three iterations, MAVLink and one bulk step"
    assert smoke["file"].endswith("scenarios/smoke.yml")
    assert [(row["name"], row["latest"], row["verdict_counts"]) for row in told["bundles"]] == [
        ("20260101T000000Z-aaaaaa", False, {"pass": 15}),
        ("20260102T000000Z-bbbbbb", True, {"fail": 1, "pass": 71}),
    ]
    assert list(document(capsys, "overlays")) == ["overlays"]


@pytest.mark.parametrize("text", ["{", "[]", None])
def test_a_bundle_that_cannot_be_read_is_listed_with_the_reason(
    capsys: pytest.CaptureFixture[str], results: Path, text: str | None
) -> None:
    file = results / "20260101T000000Z-aaaaaa/data/run.json"
    file.unlink()
    if text is not None:
        file.write_text(text)
    lines = listed(capsys, "bundles", "--out", str(results))
    assert lines[1].startswith("  20260101T000000Z-aaaaaa  (") and len(lines) == 3
    assert document(capsys, "bundles", "--out", str(results))["bundles"][0]["why"]
