"""An archive back into a bundle: entries vetted, all checked against the manifests, then renamed into place.

Nothing of a refused or interrupted archive stays, and nothing is written outside one hidden folder until the
whole bundle is there and fits its manifests.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pqevidence.bundle.bag import MANIFEST, TAGMANIFEST, BagError, fsync_folder, mismatches
from pqevidence.bundle.half import half_made
from pqevidence.bundle.survey import MAX_FILE_BYTES, MAX_FILES
from pqevidence.bundle.tarball import (
    RUN_ID,
    ArchiveError,
    Decompressed,
    Member,
    blocks,
    members,
    too_large,
)

#: all files together, unless `--max-gib` says otherwise
MAX_TOTAL_BYTES = 8 << 30


@dataclass(frozen=True)
class Unpacked:
    """The bundle that came out, with what it holds."""

    bundle: Path
    files_count: int
    content_bytes: int


class _Layout:
    """Which names came so far: one top folder, each file once, no file that is also a folder."""

    def __init__(self) -> None:
        self.top: str | None = None
        self.files: set[str] = set()
        self._folders: set[str] = set()
        self._entries = 0

    def take(self, member: Member) -> str:
        """The name within the bundle. Raises ArchiveError archive-layout, -duplicate, -too-large."""
        self._entries += 1
        if self._entries > MAX_FILES:
            raise too_large(f"more than {MAX_FILES:,} entries")
        if member.size_bytes > MAX_FILE_BYTES:
            raise ArchiveError(
                "archive-too-large",
                f"{member.name} has {member.size_bytes:,} bytes",
                f"a file of a bundle has {MAX_FILE_BYTES:,} at most",
            )
        top, _, rest = member.name.partition("/")
        if self.top is None:
            self.top = top
        if top != self.top or not RUN_ID.fullmatch(top) or not (rest or member.folder):
            raise ArchiveError(
                "archive-layout", f"the archive holds {member.name}", "one folder named as a run is expected"
            )
        self._enter(rest, member.folder)
        return rest

    def _enter(self, rest: str, folder: bool) -> None:
        parts = rest.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if rest in self.files or above & self.files or (not folder and rest in self._folders):
            raise ArchiveError(
                "archive-duplicate", f"the archive holds {rest} twice", "which of them counts is not said"
            )
        self._folders |= above
        (self._folders if folder else self.files).add(rest)


def unpack(content: BinaryIO, out: Path, max_total_bytes: int = MAX_TOTAL_BYTES) -> Unpacked:
    """Unpack an open archive into `out`/RUN_ID.

    Raises ArchiveError (its codes say which rule was broken); LabError exists when the folder is there.
    """
    stream = Decompressed(content, _stream_limit(max_total_bytes))
    layout = _Layout()
    entries = members(stream)
    first = next(entries, None)
    if first is None:
        raise ArchiveError("archive-layout", "the archive is empty", "a bundle has at least its manifests")
    rest = layout.take(first)
    target = out / str(layout.top)
    with half_made(target) as folder:
        root = folder / target.name
        root.mkdir()
        digests: dict[str, str] = {}
        member: Member | None = first
        total = 0
        while member is not None:
            total += member.size_bytes
            if total > max_total_bytes:
                raise too_large(f"its files have more than {max_total_bytes:,} bytes")
            if not member.folder:
                digests[rest] = _write(root / rest, stream, member.size_bytes)
            member = next(entries, None)
            rest = layout.take(member) if member is not None else ""
        _require_fixity(root, digests)
        os.sync()  # the bytes must not reach the disk after the name that vouches for them
        root.rename(target)
        fsync_folder(out)
    return Unpacked(target, len(digests), total)


def _stream_limit(max_total_bytes: int) -> int:
    """Decompressed bytes: the files, and a header and padding for each of as many as there may be."""
    return max_total_bytes + MAX_FILES * 1024


def _write(path: Path, stream: Decompressed, size_bytes: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha512()
    with path.open("xb") as file:
        for piece in blocks(stream, size_bytes):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _require_fixity(root: Path, digests: dict[str, str]) -> None:
    for name in (TAGMANIFEST, MANIFEST):
        if name not in digests:
            raise ArchiveError("archive-layout", "the archive holds no sealed bundle", f"{name} is missing")
    try:
        wrong = mismatches(root, digests)
    except BagError as error:
        raise ArchiveError("archive-fixity", error.what, error.why) from error
    if wrong:
        raise ArchiveError(
            "archive-fixity", "the archive's files are not as they were sealed", "; ".join(wrong[:3])
        )
