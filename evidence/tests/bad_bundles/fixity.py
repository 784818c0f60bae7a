"""Bags that are not as they were sealed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bad_bundles.forge import Registry, cells, edit, rebag, registering

BAD: Registry = {}


@registering(BAD, "manifest_fixity")
def flipped_byte(root: Path) -> None:
    """One bit of one log has changed since sealing."""
    path = cells(root)[0] / "logs" / "gcs.log"
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)


@registering(BAD, "manifest_fixity")
def dropped_file(root: Path) -> None:
    """A log has gone."""
    (cells(root)[0] / "logs" / "gcs.log").unlink()


@registering(BAD, "manifest_fixity")
def added_file(root: Path) -> None:
    """A file was put into the sealed payload."""
    (root / "data" / "better-numbers.csv").write_text("suite,ms\n", encoding="utf-8")


@registering(BAD, "manifest_fixity")
def edited_digest(root: Path) -> None:
    """One digest of the manifest was edited, and the tag manifest made to fit."""
    path = root / "manifest-sha512.txt"
    text = path.read_text(encoding="utf-8")
    at = text.index("  data/plan.json") - 1
    path.write_text(text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :], encoding="utf-8")
    tags = [f"{hashlib.sha512((root / n).read_bytes()).hexdigest()}  {n}\n" for n in ("bagit.txt", path.name)]
    (root / "tagmanifest-sha512.txt").write_text("".join(tags), encoding="utf-8")


@registering(BAD, "tagmanifest_fixity")
def flipped_byte_and_its_digest(root: Path) -> None:
    """One bit of one log has changed, and its line in the manifest with it."""
    path = cells(root)[0] / "logs" / "gcs.log"
    before = hashlib.sha512(path.read_bytes()).hexdigest()
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    manifest = root / "manifest-sha512.txt"
    place = f"  {path.relative_to(root).as_posix()}\n"
    text = manifest.read_text(encoding="utf-8")
    after = hashlib.sha512(path.read_bytes()).hexdigest()
    assert before + place in text
    manifest.write_text(text.replace(before + place, after + place), encoding="utf-8")


@registering(BAD, "tagmanifest_fixity")
def edited_manifest(root: Path) -> None:
    """The manifest was written again (its lines are sorted the other way round)."""
    path = root / "manifest-sha512.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(reversed(lines)), encoding="utf-8")


@registering(BAD, "bagit_structure")
def file_beside_data(root: Path) -> None:
    """A file lies beside data/ that no tag file knows."""
    (root / "notes.txt").write_text("ran twice, kept the better one\n", encoding="utf-8")


@registering(BAD, "bagit_structure")
def no_tag_manifest(root: Path) -> None:
    """The last file that sealing writes is not there: a half-written bundle."""
    (root / "tagmanifest-sha512.txt").unlink()


@registering(BAD, "ro_crate")
def crate_forgets_a_file(root: Path) -> None:
    """The metadata does not list one cell's log."""
    name = f"cells/{cells(root)[0].name}/logs/gcs.log"

    def forget(document: dict[str, list[dict[str, str]]]) -> None:
        document["@graph"] = [entity for entity in document["@graph"] if entity["@id"] != name]

    edit(root / "data" / "ro-crate-metadata.json", forget)
    rebag(root)
