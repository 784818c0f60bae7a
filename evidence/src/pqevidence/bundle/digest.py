"""The bytes of a file, given to a digest: in pieces, for there are files larger than any memory."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final, NamedTuple, Protocol

#: a larger piece is memory that is mapped and given back for each file, which takes longer than to read it
_PIECE_BYTES: Final = 1 << 18
_BINARY: Final = getattr(os, "O_BINARY", 0)
NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


class Hashed(NamedTuple):
    """What was found of a file: SHA-256 of its bytes, and how many there are."""

    sha256: bytes
    size_bytes: int


class Digest(Protocol):
    """What takes bytes: a hash of hashlib."""

    def update(self, data: bytes, /) -> object: ...


def feed(path: Path | str, digest: Digest, flags: int = 0) -> int:
    """All bytes of the file go into `digest`; returns how many. flags: of os.open, beside reading."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY | flags)
    try:
        # one more than there are, so that most files end with the first piece
        most = min(os.fstat(descriptor).st_size + 1, _PIECE_BYTES)
        size = 0
        while piece := os.read(descriptor, most):
            digest.update(piece)
            size += len(piece)
        return size
    finally:
        os.close(descriptor)


def read_whole(path: str, flags: int = 0) -> bytes:
    """All bytes of the file, at less than half of what `Path.read_bytes` takes for a small one. flags: of
    os.open, beside reading."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY | flags)
    try:
        most = os.fstat(descriptor).st_size + 1
        pieces = [os.read(descriptor, most)]
        while pieces[-1]:  # a piece may be shorter than what is left
            pieces.append(os.read(descriptor, most))
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def hash_file(path: Path | str, flags: int = 0) -> Hashed:
    """Of the file's bytes. flags: of os.open, beside reading."""
    digest = hashlib.sha256()
    size = feed(path, digest, flags)
    return Hashed(digest.digest(), size)
