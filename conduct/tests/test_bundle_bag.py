"""Our bags and crates, read by libraries that know nothing of us."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import bagit
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqevidence.bundle import bag
from pqevidence.bundle.crate import crate_document
from pqlab.cli.main import main
from tools import ended


def test_the_bagit_library_validates_our_bag(sealed: Path) -> None:
    found = bagit.Bag(str(sealed))
    found.validate()
    assert found.algorithms == ["sha512"]


def test_the_bagit_library_and_we_reject_the_same_damage(sealed: Path) -> None:
    path = next((sealed / "data" / "cells").glob("*/spans.ndjson"))
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-2] + b"0\n")
        with pytest.raises(bagit.BagValidationError):
            bagit.Bag(str(sealed)).validate()
        name = path.relative_to(sealed).as_posix()
        assert bag.sha512_file(path) != bag.read_manifest(sealed / bag.MANIFEST)[name]
    finally:
        path.write_bytes(content)


def judged(data: Path) -> tuple[int, str]:
    """Exit code and issues of the public validator, in its own Python."""
    script = Path(__file__).with_name("crate_validator.py")
    done = ended(["/opt/crate/bin/python", str(script), str(data)], 100)
    assert "profiles: process-run-crate-0.5, ro-crate-1.1;" in done.stderr, done.stderr[-2000:]
    return done.returncode, done.stdout


def test_the_public_validator_accepts_our_crate(sealed: Path, tmp_path: Path) -> None:
    """And one that carries a correction, with the run it took its cells from."""
    assert judged(sealed / "data") == (0, "\n")
    words = ["--remark", "--reason", "the room was warm on that day"]
    assert main(["correct", str(sealed), "--out", str(tmp_path), *words]) == 0
    assert judged(tmp_path / "latest" / "data") == (0, "\n")


@pytest.mark.parametrize(
    ("entity", "key", "says"),
    [
        ("./", "datePublished", "datePublished"),
        ("#campaign", "instrument", "instrument"),
        ("./", "conformsTo", "versioned permalink of the profile"),
    ],
)
def test_the_public_validator_can_say_no(
    sealed: Path, tmp_path: Path, entity: str, key: str, says: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(sealed / "data", data)
    file = data / "ro-crate-metadata.json"
    document = json.loads(file.read_text())
    next(row for row in document["@graph"] if row["@id"] == entity).pop(key)
    file.write_text(json.dumps(document))
    code, told = judged(data)
    assert code == 1 and says in told


def test_the_crate_is_a_pure_function_of_the_files(sealed: Path) -> None:
    written = json.loads((sealed / "data" / "ro-crate-metadata.json").read_text())
    assert crate_document(sealed / "data") == written
    assert written["@graph"][1]["identifier"] == "20260301T120000Z-ab12cd"


def test_every_reference_in_the_crate_has_an_entity(sealed: Path) -> None:
    graph = crate_document(sealed / "data")["@graph"]
    known = {entity["@id"] for entity in graph}
    outside = {"https://w3id.org/ro/crate/1.1", "http://schema.org/CompletedActionStatus"}

    def references(value: object) -> set[str]:
        if isinstance(value, dict):
            if set(value) == {"@id"}:
                return {str(value["@id"])}
            return set().union(*(references(inner) for inner in value.values()))
        if isinstance(value, list):
            return set().union(*(references(inner) for inner in value)) if value else set()
        return set()

    assert set().union(*(references(entity) for entity in graph)) <= known | outside


@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=40))
def test_paths_survive_the_manifest(name: str) -> None:
    assert bag.decode_path(bag.encode_path(name)) == name
    assert "\n" not in bag.encode_path(name) and "\r" not in bag.encode_path(name)


@pytest.mark.parametrize(
    "text", ["abc  data/x\n", "0" * 128 + " data/x\n", ("0" * 128 + "  data/x\n") * 2, "\n"]
)
def test_a_damaged_manifest_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifest-sha512.txt"
    path.write_text(text)
    with pytest.raises(bag.BagError, match="damaged"):
        bag.read_manifest(path)


def test_links_cannot_be_sealed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "keys").symlink_to(tmp_path)
    with pytest.raises(bag.BagError, match="neither file nor folder"):
        bag.payload(tmp_path)
