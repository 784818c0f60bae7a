"""A bundle that an earlier version sealed still opens: unpacked, verified, reported, compared, audited.

`bundles/` holds the synthetic fixture of these tests as each earlier version made and sealed it.
"""

from __future__ import annotations

import json
from pathlib import Path

import fixtures_make
import pytest
from bad_bundles.forge import cells, edit, edit_field, finish
from bundle_kit import make_sealed

from pqevidence import __version__
from pqevidence.bundle import open_bundle
from pqevidence.bundle.unpack import unpack
from pqevidence.errors import EXIT_CHECK, EXIT_WARNING
from pqevidence.verify import exit_code, verify_bundle
from pqevidence.versions import KNOWN
from pqlab.cli.main import main

FOLDER = Path(__file__).with_name("bundles")
OLDER = FOLDER / "bundle-0.1.0.tar.zst"
#: of each version, the checks that warn
WARNED = {
    "0.1.0": {"versions_known", "record_rebuild", "report_rebuild"},
    "0.2.0": {"versions_known"},
}


def of_version(version: str, results: Path) -> Path:
    with (FOLDER / f"bundle-{version}.tar.zst").open("rb") as content:
        return unpack(content, results).bundle


@pytest.fixture
def older(tmp_path: Path) -> Path:
    return of_version("0.1.0", tmp_path / "results")


def test_each_version_that_sealed_bundles_has_one_here() -> None:
    kept = {path.name.removeprefix("bundle-").removesuffix(".tar.zst") for path in FOLDER.iterdir()}
    assert kept == set(WARNED) == set(KNOWN) - {__version__}


@pytest.mark.parametrize("version", WARNED)
def test_it_opens_and_verifies_with_warnings_alone(version: str, tmp_path: Path) -> None:
    older = of_version(version, tmp_path / "results")
    assert open_bundle(older).raw.run["pqlab_version"] == version
    results = verify_bundle(older)
    assert exit_code(results) == EXIT_WARNING
    told = {r.name: r.observed for r in results if r.status != "ok"}
    assert set(told) == WARNED[version]
    assert all(f"pqlab {version}" in text for text in told.values())


def test_of_the_later_one_every_witness_is_still_asked_for(tmp_path: Path) -> None:
    older = of_version("0.2.0", tmp_path / "results")
    edit(older / "data" / "plan.json", lambda plan: plan["cells"][0].update(seed=1))
    (cells(older)[0] / "logs" / "controller.log").write_text("", encoding="utf-8")
    (older / "data" / "analysis" / "fingerprints.csv").unlink()
    finish(older, logs=False)
    failed = {result.name for result in verify_bundle(older) if result.status == "fail"}
    assert {"seeds_drawn", "log_told", "raw_fingerprints"} <= failed


@pytest.mark.parametrize("version", WARNED)
def test_its_numbers_are_compared_all_the_same(version: str, tmp_path: Path) -> None:
    older = of_version(version, tmp_path / "results")
    edit_field(cells(older)[0], "N", "cpu_usage_mean_pct", value=1.5)
    finish(older)
    results = {r.name: r for r in verify_bundle(older)}
    assert exit_code(list(results.values())) == EXIT_CHECK
    said = results["record_rebuild"].observed
    assert "cpu_usage_mean_pct" in said and "1.5, the raw files give" in said


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


@pytest.mark.parametrize("version", WARNED)
@pytest.mark.parametrize("told", ["Certified by nobody at all.", "A median of 987.654 ms."])
def test_what_its_page_says_is_read(version: str, told: str, tmp_path: Path) -> None:
    older = of_version(version, tmp_path / "results")
    page = older / "data" / "report.html"
    page.write_text(page.read_text("utf-8").replace("</main>", f"<p>{told}</p></main>"), encoding="utf-8")
    finish(older)
    results = {r.name: r for r in verify_bundle(older)}
    assert results["report_rebuild"].status == "fail"
    assert "which nothing in the bundle gives" in results["report_rebuild"].observed


@pytest.mark.parametrize("version", WARNED)
def test_a_table_of_it_is_compared_cell_by_cell(version: str, tmp_path: Path) -> None:
    older = of_version(version, tmp_path / "results")
    path = older / "data" / "analysis" / "sizes.csv"
    path.write_text(path.read_text("utf-8").replace("1184", "1185"), encoding="utf-8")
    finish(older)
    observed = next(r.observed for r in verify_bundle(older) if r.name == "report_rebuild")
    assert "public_key_bytes 1185, the files beneath it give 1184" in observed
