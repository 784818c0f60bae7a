"""BagIt 1.0 tag files (RFC 8493): write them for a finished payload, read them back.

In scope: bagit.txt, manifest-sha512.txt, tagmanifest-sha512.txt, and bag-info.txt where a bundle says who
made it. Not in scope: fetch.txt, other algorithms.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pqevidence.bundle.digest import feed
from pqevidence.errors import EXIT_CHECK, LabError

BAGIT_TXT = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
MANIFEST = "manifest-sha512.txt"
TAGMANIFEST = "tagmanifest-sha512.txt"
TAG_FILES = ("bagit.txt", MANIFEST)
INFO = "bag-info.txt"


class BagError(LabError):
    """A bag whose tag files are absent or cannot be read."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            "bag", what, why, "fetch the bundle again; a sealed bundle never changes", EXIT_CHECK
        )


def sha512_file(path: Path | str) -> str:
    """Hex SHA-512 of a file's bytes."""
    digest = hashlib.sha512()
    feed(path, digest)
    return digest.hexdigest()


def payload(root: Path) -> list[str]:
    """Every file under data/, as a sorted path relative to the bag with forward slashes.

    Raises BagError for anything that is neither a file nor a folder: a bag cannot carry a link.
    """
    found: list[str] = []
    folders = ["data"]
    while folders:
        folder = folders.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_file(follow_symlinks=False):
                    found.append(name)
                else:
                    why = "links and devices cannot be sealed"
                    raise BagError(f"{entry.name} is neither file nor folder", why)
    return sorted(found)


def encode_path(path: str) -> str:
    """Percent-encode what would break a manifest line (RFC 8493 §2.1.3)."""
    return path.replace("%", "%25").replace("\n", "%0A").replace("\r", "%0D")


def decode_path(text: str) -> str:
    """The reverse of encode_path."""
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def tag_files(root: Path) -> list[str]:
    """The tag files that the tag manifest lists: two that are always there, and bag-info.txt where it is."""
    return [*TAG_FILES, *([INFO] if (root / INFO).is_file() else [])]


def write_tags(root: Path, info: str | None = None) -> None:
    """Write the tag files for the payload that lies under data/, durable on return. info: bag-info.txt."""
    lines = [f"{sha512_file(root / name)}  {encode_path(name)}\n" for name in payload(root)]
    _write_durable(root / "bagit.txt", BAGIT_TXT)
    _write_durable(root / MANIFEST, "".join(lines))
    if info is not None:
        _write_durable(root / INFO, info)
    tags = [f"{sha512_file(root / name)}  {name}\n" for name in tag_files(root)]
    _write_durable(root / TAGMANIFEST, "".join(tags))
    fsync_folder(root)


def read_manifest(path: Path) -> dict[str, str]:
    """Path → hex digest, in file order. Raises BagError naming the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BagError(f"{path.name} is missing", "the folder is no sealed bundle") from error
    except UnicodeDecodeError as error:
        raise BagError(f"{path.name} is not UTF-8", f"byte {error.start}") from error
    if not text.endswith("\n"):
        raise BagError(f"{path.name} is damaged", "its last line is cut short")
    found: dict[str, str] = {}
    # by line feeds alone: a byte that another reader takes for a line end is damage like any other
    for number, line in enumerate(text[:-1].split("\n"), 1):
        digest, _, name = line.partition("  ")
        if len(digest) != 128 or not name:
            raise BagError(f"{path.name} is damaged", f"line {number} is not `digest  path`")
        decoded = decode_path(name)
        if decoded in found:
            raise BagError(f"{path.name} is damaged", f"line {number} repeats {decoded}")
        found[decoded] = digest
    return found


def mismatches(root: Path, digests: dict[str, str]) -> list[str]:
    """What does not fit between a bag's manifests and the sha-512 digests of its files, one line each.

    digests: relative path → hex digest of every file, tag files included. Raises BagError for manifests that
    cannot be read.
    """
    listed = {TAGMANIFEST: digests.get(TAGMANIFEST, ""), **read_manifest(root / TAGMANIFEST)}
    listed |= read_manifest(root / MANIFEST)
    expected = {*TAG_FILES, TAGMANIFEST}
    found = [f"{name} is not listed" for name in sorted({*digests, *expected} - set(listed))]
    for name, digest in sorted(listed.items()):
        if name not in digests:
            found.append(f"{name} is missing")
        elif digests[name] != digest:
            found.append(f"{name} is not as it was sealed")
    return found


def _write_durable(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())


def fsync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
