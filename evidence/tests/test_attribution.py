"""Who made a bundle is said once, and everything that says it agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from bundle_kit import make_ready

from pqevidence import bundle
from pqevidence.bundle.archive import archive
from pqevidence.bundle.attribution import read_config, valid_orcid
from pqevidence.bundle.unpack import unpack
from pqevidence.errors import UsageError
from pqevidence.verify import verify_bundle

GIVEN = {
    "license": "CC-BY-4.0",
    "authors": [
        {
            "given_names": "Ann", "family_names": "Author", "orcid": "0000-0002-1825-0097",
            "affiliation": "Institute of Tests",
        },
        {"family_names": "Second"},
    ],
    "citation": "Author and Second, a campaign: with a colon",
}  # fmt: skip


def config(folder: Path, **changes: Any) -> Path:
    path = folder / "attribution.yml"
    path.write_text(yaml.safe_dump({**GIVEN, **changes}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("attributed")
    work = make_ready(base)
    told = read_config(config(base))
    (work / "data" / "attribution.json").write_text(json.dumps(told), encoding="utf-8")
    return bundle.seal(work, base, [])


def attributed(root: Path) -> tuple[str, str]:
    found = next(result for result in verify_bundle(root) if result.name == "attributed")
    return found.status, found.observed


def test_one_author_in_all_three(sealed: Path) -> None:
    cff = yaml.safe_load((sealed / "data" / "CITATION.cff").read_text(encoding="utf-8"))
    info = dict(line.split(": ", 1) for line in (sealed / "bag-info.txt").read_text().splitlines())
    graph = json.loads((sealed / "data" / "ro-crate-metadata.json").read_text())["@graph"]
    names = {entity["@id"]: entity.get("name") for entity in graph}
    assert cff["authors"][0] == {
        "family-names": "Author",
        "given-names": "Ann",
        "affiliation": "Institute of Tests",
        "orcid": "https://orcid.org/0000-0002-1825-0097",
    }
    assert cff["message"] == GIVEN["citation"] and cff["license"] == info["License"] == "CC-BY-4.0"
    assert info["Source-Organization"] == names["#organisation-1"] == "Institute of Tests"
    assert names["https://orcid.org/0000-0002-1825-0097"] == "Ann Author"
    files = [path for path in (sealed / "data").rglob("*") if path.is_file()]
    assert info["Payload-Oxum"] == f"{sum(p.stat().st_size for p in files)}.{len(files)}"
    assert [(r.name, r.observed) for r in verify_bundle(sealed) if r.status != "ok"] == []


def test_a_bundle_with_it_comes_out_of_its_archive_as_it_was(sealed: Path, tmp_path: Path) -> None:
    archive(sealed, tmp_path / "a.tar.zst")
    with (tmp_path / "a.tar.zst").open("rb") as content:
        unpack(content, tmp_path / "out")
    copy = tmp_path / "out" / sealed.name
    assert (copy / "bag-info.txt").read_bytes() == (sealed / "bag-info.txt").read_bytes()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("data/CITATION.cff", "Author", "Other"),
        ("bag-info.txt", "CC-BY-4.0", "CC0-1.0"),
        ("data/ro-crate-metadata.json", "Ann Author", "Ann Other"),
    ],
)
def test_a_contradiction_is_found(sealed: Path, name: str, old: str, new: str) -> None:
    path = sealed / name
    before = path.read_bytes()
    try:
        path.write_bytes(before.replace(old.encode(), new.encode()))
        status, observed = attributed(sealed)
    finally:
        path.write_bytes(before)
    assert status == "fail" and "attribution.json" in observed


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"licence": "CC0-1.0"}, "`licence` is no key"),
        ({"license": "do as you like"}, "SPDX"),
        ({"authors": []}, "list of authors"),
        ({"authors": [{"given_names": "Ann"}]}, "family_names"),
        ({"authors": [{"family_names": "A", "orcid": "0000-0002-1825-0098"}]}, "last digit"),
        ({"title": "two\nlines"}, "one line"),
        ({"doi": "https://doi.org/10.5281/zenodo.1"}, "doi"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match="attribution") as caught:
        read_config(config(tmp_path, **changes))
    assert told in caught.value.why


def test_nobody_is_named_without_the_file(tmp_path: Path) -> None:
    assert read_config(tmp_path / "attribution.yml") is None
    assert valid_orcid("0000-0002-1694-233X") and not valid_orcid("0000-0002-1694-2330")
