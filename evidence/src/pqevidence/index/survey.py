"""A bundle's folder before it is opened: kinds, names and sizes of all in it, and one digest of all bytes."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqevidence.bundle.digest import NO_LINK, Hashed, hash_file, read_whole
from pqevidence.bundle.survey import MAX_FILE_BYTES, MAX_FILES, MAX_FOLDER_FILES
from pqevidence.index.rules import Refused

#: all files of a submission together; the largest bundle of the shipped scenarios has some 600 MB
MAX_TOTAL_BYTES = 2 << 30
#: in any path of a bundle: plain names, so that no reader, page or shell reads them otherwise
_MEMBER = re.compile(r"[A-Za-z0-9._+-]{1,120}", re.ASCII)
#: what is kept in memory of a folder, and of one file in it
_MOST_KEPT_BYTES: Final = 64 << 20
_KEPT_FILE_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Surveyed:
    """Every file's digest by its path below the folder, sorted. contents: the bytes of files that are small,
    while they are few."""

    files: dict[str, Hashed]
    contents: dict[str, bytes]


def survey(root: Path) -> dict[str, int]:
    """Sizes of all files in bytes, by path relative to `root`, sorted. Raises Refused member_kind,
    member_name, member_bounds; OSError for a folder that may not be read."""
    found: dict[str, int] = {}
    seen = total = 0
    folders = [""]
    while folders:
        inner = folders.pop()
        files = 0
        with os.scandir(root / inner) as entries:
            rows = sorted(entries, key=lambda entry: entry.name)
        for entry in rows:
            seen += 1
            name = f"{inner}{entry.name}"
            about = entry.stat(follow_symlinks=False)
            if not (stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)):
                raise Refused("member_kind", f"{name} is neither file nor folder")
            if not _MEMBER.fullmatch(entry.name):
                raise Refused("member_name", f"{name} is no plain name")
            if stat.S_ISDIR(about.st_mode):
                folders.append(f"{name}/")
                continue
            files += 1
            total += about.st_size
            found[name] = about.st_size
            if about.st_size > MAX_FILE_BYTES:
                raise Refused("member_bounds", f"{name} has {about.st_size:,} bytes")
        if files > MAX_FOLDER_FILES:
            raise Refused("member_bounds", f"{inner or 'the folder'} holds {files:,} files")
        if seen > MAX_FILES:
            raise Refused("member_bounds", f"it holds more than {MAX_FILES:,} entries")
        if total > MAX_TOTAL_BYTES:
            raise Refused("member_bounds", f"its files have more than {MAX_TOTAL_BYTES:,} bytes")
    return dict(sorted(found.items()))


def surveyed(root: Path) -> Surveyed:
    """Raises as :func:`survey`."""
    files: dict[str, Hashed] = {}
    contents: dict[str, bytes] = {}
    left, above = _MOST_KEPT_BYTES, f"{root}/"
    for name, size_bytes in survey(root).items():
        if size_bytes > min(left, _KEPT_FILE_BYTES):
            files[name] = hash_file(above + name, NO_LINK)
            continue
        contents[name] = content = read_whole(above + name, NO_LINK)
        files[name] = Hashed(hashlib.sha256(content).digest(), len(content))
        left -= len(content)
    return Surveyed(files, contents)


def digests_of(root: Path) -> dict[str, Hashed]:
    """Of every file, by its path below `root`, sorted. Raises as :func:`survey`."""
    above = f"{root}/"
    return {name: hash_file(above + name, NO_LINK) for name in survey(root)}


def digest_of(files: dict[str, Hashed]) -> str:
    """SHA-256 over length and bytes of every path and every file's digest: equal where every file is."""
    digest = hashlib.sha256()
    for name, found in files.items():
        for part in (name.encode(), found.sha256):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()
