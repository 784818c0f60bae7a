"""Sealing: whole or not at all, and `latest` moves last."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import fixtures_make
import pytest
from bundle_kit import make_ready

from pqevidence import bundle
from pqevidence.bundle import sealing
from pqevidence.errors import LabError


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    return make_ready(tmp_path / "results", suites=("cs-mlkem768-aesgcm-mldsa65",), bulk=False)


def results_of(ready: Path) -> Path:
    return ready.parent.parent


def test_sealing_renames_and_points_latest(ready: Path) -> None:
    (ready / "data" / "status.json").write_text("{}")
    (ready / "lock").touch()
    (ready / "partial" / "cell").mkdir(parents=True)
    results = results_of(ready)
    sealed = bundle.seal(ready, results, [])
    assert sealed == results / fixtures_make.RUN_ID
    assert not ready.exists()
    assert not (sealed / "data" / "status.json").exists()
    assert (results / "latest").is_symlink() and (results / "latest").resolve() == sealed
    assert Path((results / "latest").readlink()) == Path(fixtures_make.RUN_ID)
    assert sorted(p.name for p in sealed.iterdir()) == [
        "bagit.txt",
        "data",
        "manifest-sha512.txt",
        "tagmanifest-sha512.txt",
    ]


def test_keys_are_searched_before_anything_is_renamed(ready: Path, tmp_path: Path) -> None:
    keys = fixtures_make.make_keys(tmp_path / "keys")
    log = next((ready / "data" / "cells").glob("*/logs/gcs.log"))
    log.write_bytes(log.read_bytes() + b"psk " + keys[0].read_bytes().hex().encode() + b"\n")
    with pytest.raises(bundle.SealError) as caught:
        bundle.seal(ready, results_of(ready), [tmp_path / "keys"])
    assert caught.value.code == "secret-found"
    assert "gcs.log" in caught.value.why and "psk.key" in caught.value.why
    assert ready.exists() and not (results_of(ready) / "latest").is_symlink()


def test_keys_that_are_gone_cannot_be_searched_for(ready: Path, tmp_path: Path) -> None:
    with pytest.raises(bundle.SealError) as caught:
        bundle.seal(ready, results_of(ready), [tmp_path / "keys" / "gone.secret"])
    assert caught.value.code == "keys-missing" and ready.exists()


def test_clean_files_pass_the_search(ready: Path, tmp_path: Path) -> None:
    fixtures_make.make_keys(tmp_path / "keys")
    assert bundle.seal(ready, results_of(ready), [tmp_path / "keys"]).is_dir()


def test_a_full_disk_leaves_the_work_and_latest(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_of(ready)
    (results / "20250101T000000Z-000000").mkdir()
    sealing.point_latest(results, "20250101T000000Z-000000")

    def full(root: Path, info: str | None) -> None:
        (root / "bagit.txt").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sealing, "write_tags", full)
    with pytest.raises(bundle.SealError) as caught:
        bundle.seal(ready, results, [])
    assert (caught.value.code, caught.value.exit_code) == ("disk-full", 4)
    assert "space" in caught.value.what and "resume" in caught.value.hint
    assert (ready / "data" / "plan.json").is_file()
    assert (results / "latest").resolve().name == "20250101T000000Z-000000"
    monkeypatch.undo()
    assert (
        bundle.seal(ready, results, []).name == fixtures_make.RUN_ID
    )  # what the attempt left does not hinder
    assert (results / "latest").resolve().name == fixtures_make.RUN_ID


def test_a_sealed_bundle_is_never_replaced(ready: Path) -> None:
    results = results_of(ready)
    (results / ready.name).mkdir()
    with pytest.raises(bundle.SealError) as caught:
        bundle.seal(ready, results, [])
    assert caught.value.code == "exists"


def test_a_folder_without_a_plan_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(bundle.SealError) as caught:
        bundle.seal(tmp_path, tmp_path / "results", [])
    assert caught.value.code == "no-work-dir"


def test_open_and_locate(ready: Path) -> None:
    results = results_of(ready)
    with pytest.raises(LabError) as none_yet:
        bundle.locate(None, results)
    assert none_yet.value.code == "no-bundle" and none_yet.value.exit_code == 4
    sealed = bundle.seal(ready, results, [])
    for name in (None, sealed.name, str(sealed), "latest"):
        assert bundle.locate(name, results) == sealed
    with pytest.raises(LabError) as unknown:
        bundle.locate("20200101T000000Z-ffffff", results)
    assert unknown.value.exit_code == 4 and sealed.name in unknown.value.why
    opened = bundle.open(sealed)
    assert opened.sealed and opened.run_id == sealed.name
    assert [record["verdict"] for record in opened.records()] == ["pass"]
    with pytest.raises(LabError, match="holds no bundle"):
        bundle.open(results)


def test_numbers_hash_covers_every_number_and_nothing_else(ready: Path) -> None:
    data = ready / "data"
    before = bundle.numbers_sha256(data)
    (data / "report.md").write_text("other words")
    assert bundle.numbers_sha256(data) == before
    record = next(data.glob("cells/*/record.json"))
    content = json.loads(record.read_text())
    content["position"] += 1
    record.write_text(json.dumps(content))
    changed = bundle.numbers_sha256(data)
    assert changed != before
    (data / "analysis" / "a.csv").write_text("x\n")
    assert bundle.numbers_sha256(data) not in (before, changed)
