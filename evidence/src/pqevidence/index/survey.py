"""A bundle's folder before it is opened: kinds, names and sizes of all in it, and one digest of all bytes."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import time
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
#: a change that is younger is not told apart from one that comes now: the clocks of some file systems stand
#: still for seconds, and what is written into mapped memory shows when it goes to the disk, after 35 s
_SETTLED_NS: Final = 60 * 10**9
#: what is kept in memory of a folder, and of one file in it
_MOST_KEPT_BYTES: Final = 64 << 20
_KEPT_FILE_BYTES: Final = 4 << 20
#: of a file: device, inode, size, and when its bytes or what is told of it last changed, which nobody sets
Mark = tuple[int, int, int, int]


@dataclass(frozen=True)
class Surveyed:
    """Every file by its path below the folder, sorted: its digest, and its mark as it was before that was
    made. begun_ns: when the survey began. contents: the bytes of files that are small, while they are few."""

    files: dict[str, Hashed]
    marks: dict[str, Mark]
    begun_ns: int
    contents: dict[str, bytes]


def survey(root: Path) -> dict[str, Mark]:
    """All files, by path relative to `root`, sorted. Raises Refused member_kind, member_name, member_bounds;
    OSError for a folder that may not be read."""
    found: dict[str, Mark] = {}
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
            found[name] = about.st_dev, about.st_ino, about.st_size, about.st_ctime_ns
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
    begun_ns = time.time_ns()
    marks = survey(root)
    files: dict[str, Hashed] = {}
    contents: dict[str, bytes] = {}
    left, above = _MOST_KEPT_BYTES, f"{root}/"
    for name, (_, _, size_bytes, _) in marks.items():
        if size_bytes > min(left, _KEPT_FILE_BYTES):
            files[name] = hash_file(above + name, NO_LINK)
            continue
        contents[name] = content = read_whole(above + name, NO_LINK)
        files[name] = Hashed(hashlib.sha256(content).digest(), len(content))
        left -= len(content)
    return Surveyed(files, marks, begun_ns, contents)


def unchanged(root: Path, before: Surveyed) -> bool:
    """Does the folder hold the same bytes still? A file of the same mark, which was old when the survey
    began, has not been written to since; any other is hashed again. Raises as :func:`survey`."""
    marks = survey(root)
    if marks.keys() != before.marks.keys():
        return False
    settled_ns = before.begun_ns - _SETTLED_NS
    again = [name for name, mark in marks.items() if mark != before.marks[name] or mark[-1] > settled_ns]
    if sys.platform == "win32":  # there it is the time at which a file was made
        again = list(marks)
    above = f"{root}/"
    return all(hash_file(above + name, NO_LINK) == before.files[name] for name in again)


def digests_of(root: Path) -> dict[str, Hashed]:
    """Of every file, by its path below `root`, sorted. Raises as :func:`survey`."""
    return surveyed(root).files


def digest_of(files: dict[str, Hashed]) -> str:
    """SHA-256 over length and bytes of every path and every file's digest: equal where every file is."""
    digest = hashlib.sha256()
    for name, found in files.items():
        for part in (name.encode(), found.sha256):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()
