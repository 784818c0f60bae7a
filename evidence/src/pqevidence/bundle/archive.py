"""`RUN_ID.tar.zst`: a sealed bundle as one file, checked against its own manifests while it is read.

Equal bundles give the same tar stream anywhere, and the same file with the same version of zstd.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pqevidence.bundle.bag import TAGMANIFEST, fsync_folder, mismatches, payload, tag_files
from pqevidence.bundle.half import half_made
from pqevidence.bundle.locate import open_bundle
from pqevidence.bundle.signature import SUFFIX, sign
from pqevidence.bundle.survey import require_safe
from pqevidence.bundle.tarball import END, RUN_ID, ArchiveError, Writable, compressor, header, padding

ENDING = ".tar.zst"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Archived:
    """What was written; signature is None where none was asked for."""

    file: Path
    signature: Path | None
    files_count: int
    content_bytes: int
    archive_bytes: int
    sha512: str


def archive(root: Path, target: Path, key: Path | None = None) -> Archived:
    """Write a sealed bundle to `target`, signed with `key` beside it (target + ".sig").

    Raises ArchiveError archive-layout (not sealed), archive-fixity; LabError exists, busy; SignatureError.
    Whatever goes wrong, no file of that name appears.
    """
    require_safe(root)
    if not (root / TAGMANIFEST).is_file():
        raise ArchiveError(
            "archive-layout",
            f"{root.name} is not sealed",
            f"{TAGMANIFEST} is missing",
            "finish the run: ./pqlab resume",
        )
    run_id = open_bundle(root).run_id
    if not RUN_ID.fullmatch(run_id):
        raise ArchiveError(
            "archive-layout",
            f"{root.name} was not archived",
            f"its plan names the run {run_id[:80]!r}",
            f"see what is wrong: ./pqlab verify {root.name}",
        )
    names = sorted([*tag_files(root), TAGMANIFEST, *payload(root)])
    with half_made(target) as folder:
        half = folder / target.name
        digests, content_bytes = _write(root, run_id, names, half)
        if wrong := mismatches(root, digests):
            raise ArchiveError(
                "archive-fixity",
                f"{root.name} is not as it was sealed, so it was not archived",
                "; ".join(wrong[:3]),
                f"see what is wrong: ./pqlab verify {root.name}",
            )
        signature = None
        if key is not None:
            signature = target.with_name(target.name + SUFFIX)
            (folder / signature.name).write_bytes(sign(half, key))
            (folder / signature.name).replace(signature)
        digest = _sha512(half)
        size = half.stat().st_size
        half.replace(target)
        fsync_folder(target.parent)
    return Archived(target, signature, len(names), content_bytes, size, digest)


def _write(root: Path, run_id: str, names: list[str], half: Path) -> tuple[dict[str, str], int]:
    digests = {}
    total = 0
    with half.open("xb") as file:
        with compressor(file) as stream:
            for name in names:
                with (root / name).open("rb") as content:
                    size = os.fstat(content.fileno()).st_size
                    stream.write(header(f"{run_id}/{name}", size))
                    digests[name] = _copy(content, size, stream)
                    stream.write(padding(size))
                total += size
            stream.write(END)
        file.flush()
        os.fsync(file.fileno())
    return digests, total


def _copy(content: BinaryIO, size: int, stream: Writable) -> str:
    """Copy exactly `size` bytes and return their digest; a file that changes meanwhile fails its fixity."""
    digest = hashlib.sha512()
    missing = size
    while missing:
        piece = content.read(min(missing, _CHUNK_BYTES))
        if not piece:
            raise ArchiveError(
                "archive-fixity", "a file shrank while it was read", f"{missing} bytes missing"
            )
        digest.update(piece)
        stream.write(piece)
        missing -= len(piece)
    return digest.hexdigest()


def _sha512(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha512").hexdigest()
