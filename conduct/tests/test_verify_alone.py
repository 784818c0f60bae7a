"""The checker as one file: Python alone, the same answers and exit codes as `pqlab verify`.

That it answers the same on the whole corpus of bad bundles: test_verify_corpus.py.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from alone_kit import run_alone
from bundle_kit import make_sealed

from pqevidence.errors import LabError
from pqevidence.verify import CHECKS
from pqevidence.verify.export import LIBRARIES, OURS, contents, export, reachable
from pqlab.cli.main import main


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("sealed"), suites=("cs-mlkem768-aesgcm-mldsa65",))


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("alone") / "verify.pyz").file


def test_exit_codes_and_lines(
    sealed: Path, checker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = run_alone(checker, str(sealed))
    assert (good.returncode, good.stderr) == (0, "")
    assert main(["verify", str(sealed)]) == 0
    assert good.stdout == capsys.readouterr().out
    assert good.stdout.splitlines()[-1] == f"{len(CHECKS)} checks: {len(CHECKS)} ok, 0 warnings, 0 failed"
    bad = tmp_path / sealed.name
    shutil.copytree(sealed, bad)
    (bad / "data" / "report.md").write_text("better words")
    told = run_alone(checker, "--json", str(bad))
    assert told.returncode == 5
    assert main(["verify", "--json", str(bad)]) == 5
    ours = json.loads(capsys.readouterr().out)
    assert json.loads(told.stdout)["checks"] == ours["checks"]


def test_warnings_are_three_and_five_when_strict(sealed: Path, checker: Path, tmp_path: Path) -> None:
    work = tmp_path / ".work" / sealed.name
    shutil.copytree(sealed, work)
    assert run_alone(checker, str(work)).returncode == 3
    assert run_alone(checker, "--strict", str(work)).returncode == 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("folder", ["", "data", "data/cells"])
def test_what_may_not_be_read_is_five(sealed: Path, checker: Path, tmp_path: Path, folder: str) -> None:
    closed = tmp_path / "closed" / sealed.name
    shutil.copytree(sealed, closed)
    (closed / folder).chmod(0)
    try:
        told = run_alone(checker, str(closed))
        assert (told.returncode, told.stderr) == (5, ""), told.stderr
        assert main(["verify", str(closed)]) == 5
        assert main(["verify", str(closed / "data")]) == 5
    finally:
        (closed / folder).chmod(0o755)


def test_what_is_not_there_is_four_and_a_wrong_line_two(
    checker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = str(tmp_path / "gone")
    told = run_alone(checker, gone)
    assert told.returncode == 4 and told.stderr.startswith("error: no bundle ")
    assert main(["verify", gone]) == 4
    assert main(["verify", "--out", str(tmp_path)]) == 4, "no bundle at all"
    assert "make run" in capsys.readouterr().err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run_alone(checker, str(empty)).returncode == main(["verify", str(empty)]) == 5, "it is no bundle"
    too_long = str(tmp_path / ("x" * 5000))
    assert run_alone(checker, too_long).returncode == 5
    assert main(["verify", too_long]) == 5
    assert "cannot be looked into" in capsys.readouterr().err
    wrong = run_alone(checker)
    assert wrong.returncode == 2 and "\n  next: python3 verify.pyz --help" in wrong.stderr


def test_the_same_bytes_again(checker: Path, tmp_path: Path) -> None:
    assert export(tmp_path / "again.pyz").file.read_bytes() == checker.read_bytes()


def test_what_is_inside(checker: Path) -> None:
    with zipfile.ZipFile(checker) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops <= {"__main__.py", "licences", *LIBRARIES, *OURS}
    assert {name.split("/")[1] for name in names if name.startswith("licences/")} == set(LIBRARIES.values())
    assert not [name for name in names if name.endswith((".so", ".pyd", ".pyc"))]
    assert not [name for name in names if name.startswith(("pqlab/campaign/", "pqlab/cli/"))]
    assert checker.stat().st_size < 2_000_000


def test_a_library_that_cannot_come_along_is_refused() -> None:
    with pytest.raises(LabError) as caught:
        reachable("pqevidence.scenario.check")
    assert caught.value.code == "not-portable"
    assert caught.value.what == "pqevidence.scenario.check imports jsonschema"


def test_everything_reachable_is_ours() -> None:
    found = reachable("pqevidence.verify.alone")
    assert {name.partition(".")[0] for name in found} <= set(OURS)
    assert {"pqevidence.report.html", "pqevidence.analysis.claims", "pqtunnel.suites"} <= set(found)
    assert not {name for name in found if name in sys.stdlib_module_names}
    assert "pqevidence/scenario/scenario.schema.json" in contents()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "verify.pyz"
    assert main(["verify", "--export", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["size_bytes"] == target.stat().st_size
    assert main(["verify", "--export", str(target)]) == 4
    assert "never overwritten" in capsys.readouterr().err
