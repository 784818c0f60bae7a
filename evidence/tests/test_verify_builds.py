"""Digests of libraries against the table of known builds: named, contradicted, or said to be unknown."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from bad_bundles.forge import edit, finish, rename_cells
from bundle_kit import make_sealed

from pqevidence import __version__
from pqevidence.bundle.unpack import unpack
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView
from pqevidence.verify import CheckResult, verify_bundle
from pqevidence.verify.checks_builds import LIBRARIES, builds, known

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example"
COLUMNS = {"library", "version", "os", "machine", "pqlab", "sha256"}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("builds"))


def _said(good: Path, folder: Path, **built: dict[str, Any]) -> CheckResult:
    root = folder / good.name
    shutil.copytree(good, root)

    def change(both: dict[str, Any]) -> None:
        for role in ("drone", "gcs"):
            both[role].update(json.loads(json.dumps(built)))

    edit(root / "data" / "providers.json", change)
    rename_cells(root)
    finish(root)
    return next(result for result in verify_bundle(root) if result.name == "builds_known")


def _known(library: str, machine: str = "x86_64", system: str = "linux") -> dict[str, Any]:
    row = next(
        row
        for row in builds().values()
        if (row["library"], row["machine"], row["os"]) == (library, machine, system)
    )
    return {"version": row["version"], "sha256": row["sha256"]}


def test_every_row_is_whole_and_every_place_has_every_library() -> None:
    rows = list(builds().values())
    assert all(set(row) == COLUMNS and re.fullmatch("[0-9a-f]{64}", row["sha256"]) for row in rows)
    newest = [row for row in rows if row["pqlab"] == __version__]
    places = {(row["os"], row["machine"]) for row in rows}
    assert len(newest) == len(places) * len(LIBRARIES) >= 9


def test_known_builds_need_no_word(good: Path, tmp_path: Path) -> None:
    said = _said(good, tmp_path, **{name: _known(name) for name in LIBRARIES})
    assert (said.status, said.observed) == ("ok", "6 builds")


def test_an_unknown_build_is_named_and_no_fault(good: Path, tmp_path: Path) -> None:
    said = _said(good, tmp_path, core={"version": "0.1.0", "sha256": "ab" * 32}, liboqs=_known("liboqs"))
    assert said.status == "ok" and "unknown, built here: " in said.observed
    assert "core 0.1.0 (abababababab)" in said.observed and "liboqs" not in said.observed


@pytest.mark.parametrize(
    ("library", "change", "text"),
    [
        ("liboqs", {"version": "0.15.0"}, "liboqs 0.15.0 of providers.json has the digest of liboqs 0.13.0"),
        ("core", _known("liboqs"), "has the digest of liboqs"),
        ("core", _known("core", "aarch64"), "for linux on aarch64"),
        ("core", _known("core", "AMD64", "windows"), "for windows on AMD64"),
    ],
)
def test_a_known_digest_under_another_name_fails(
    good: Path, tmp_path: Path, library: str, change: dict[str, Any], text: str
) -> None:
    said = _said(good, tmp_path, **{library: {**_known(library), **change}})
    assert said.status == "fail" and text in said.observed


def test_a_simulation_says_that_it_has_stand_ins(tmp_path: Path) -> None:
    """The shipped example is one."""
    (archive,) = EXAMPLE.glob("*.tar.zst")
    with archive.open("rb") as content:
        bundle = BundleView(unpack(content, tmp_path).bundle)
    tally = Tally(unit="builds")
    known(bundle, tally)
    said = tally.result("builds_known", "")
    assert (said.status, said.observed) == ("ok", "0 builds, stand-ins of the simulator")
