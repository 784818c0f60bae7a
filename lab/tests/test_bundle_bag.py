"""Our bags and crates, read by libraries that know nothing of us."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bundle_kit import make_sealed
from hypothesis import given
from hypothesis import strategies as st

from pqlab.bundle import bag
from pqlab.bundle.crate import crate_document


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("sealed"))


def test_the_bagit_library_validates_our_bag(sealed: Path) -> None:
    bagit = pytest.importorskip("bagit")
    found = bagit.Bag(str(sealed))
    found.validate()
    assert found.algorithms == ["sha512"]


def test_the_bagit_library_and_we_reject_the_same_damage(sealed: Path) -> None:
    bagit = pytest.importorskip("bagit")
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


def test_an_independent_reader_finds_every_file_in_the_crate(sealed: Path) -> None:
    rocrate = pytest.importorskip("rocrate.rocrate")
    crate = rocrate.ROCrate(str(sealed / "data"))
    listed = {entity.id for entity in crate.data_entities if entity.type == "File"}
    there = {p.relative_to(sealed / "data").as_posix() for p in (sealed / "data").rglob("*") if p.is_file()}
    assert listed == there - {"ro-crate-metadata.json"}
    action = crate.dereference("#campaign")
    assert action.type == "CreateAction"
    assert {"./"} == {crate.root_dataset.id}
    assert len(action["result"]) >= 3


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
