"""A bundle that an earlier version sealed still opens: unpacked, verified, reported, compared, audited.

`bundles/bundle-0.1.0.tar.zst` is the synthetic fixture of this folder as version 0.1.0 made and sealed it.
"""

from __future__ import annotations

import json
from pathlib import Path

import fixtures_make
import pytest
from bad_bundles.forge import cells, edit_field, finish
from bundle_kit import make_sealed

from pqevidence.bundle import open_bundle
from pqevidence.bundle.unpack import unpack
from pqevidence.errors import EXIT_CHECK, EXIT_WARNING
from pqevidence.verify import exit_code, verify_bundle
from pqlab.cli.main import main

OLDER = Path(__file__).with_name("bundles") / "bundle-0.1.0.tar.zst"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    with OLDER.open("rb") as content:
        return unpack(content, tmp_path / "results").bundle


def test_it_opens_and_verifies_with_warnings_alone(older: Path) -> None:
    assert open_bundle(older).raw.run["pqlab_version"] == "0.1.0"
    results = verify_bundle(older)
    assert exit_code(results) == EXIT_WARNING
    told = {r.name: r.observed for r in results if r.status != "ok"}
    assert set(told) == {"record_schema", "record_rebuild", "report_rebuild"}
    assert all("made by pqlab 0.1.0" in text for text in told.values())


def test_its_numbers_are_compared_all_the_same(older: Path) -> None:
    edit_field(cells(older)[0], "N", "cpu_usage_mean_pct", value=1.5)
    finish(older)
    results = {r.name: r for r in verify_bundle(older)}
    assert exit_code(list(results.values())) == EXIT_CHECK
    assert "N.cpu_usage_mean_pct: 1.5, the raw files give" in results["record_rebuild"].observed


def test_a_field_that_it_worked_out_otherwise_is_left_out(older: Path) -> None:
    edit_field(cells(older)[0], "C", "suite_deactivated_offset_ms", value=1.5)
    finish(older)
    results = {r.name: r for r in verify_bundle(older)}
    assert results["record_rebuild"].status == "warn"


def test_every_other_reader_takes_it(
    older: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert main(["report", str(older), "--out", str(out)]) == 0
    assert (out / "report.html").stat().st_size > 50_000
    monkeypatch.setattr(fixtures_make, "RUN_ID", "20260302T120000Z-ab12cd")
    now = make_sealed(tmp_path / "now", suites=("cs-mlkem768-aesgcm-mldsa65",), session_s=0.5, bulk=False)
    assert main(["compare", str(older), str(now), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert main(["audit", str(older)]) == 0
    assert main(["archive", str(older), "--out", str(tmp_path / "again.tar.zst")]) == 0
    assert (tmp_path / "again.tar.zst").stat().st_size > 10_000
    words = ["--remark", "--reason", "sealed by an earlier version"]
    assert main(["correct", str(older), "--out", str(tmp_path / "corrected"), *words]) == 0
    assert exit_code(verify_bundle(tmp_path / "corrected" / "latest")) == EXIT_WARNING
