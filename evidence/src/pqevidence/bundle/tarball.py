"""The archive's format, read and written: a POSIX ustar stream of plain files inside zstd.

Written so that equal bundles give equal streams: names sorted, owner 0, time 0, mode 0644. Read so that a
stranger's file can do no harm: each header is looked at before a byte of its file is taken, and nothing but
plain files and folders with plain names is let through. Extended headers (pax, GNU) are refused: bundles do
not need them, and they are where archive readers disagree.
"""

from __future__ import annotations

import importlib
import re
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import BinaryIO, Protocol

from pqevidence.errors import EXIT_CHECK, LabError

BLOCK_BYTES = tarfile.BLOCKSIZE
#: compression; higher gains a few per cent and costs minutes
ZSTD_LEVEL = 10
#: memory that a frame may ask of its reader; level 22 asks for 128 MiB
MAX_WINDOW_BYTES = 1 << 27
#: zero bytes that may follow the end mark: tar fills up to a record of 10,240 bytes
MAX_PADDING_BYTES = tarfile.RECORDSIZE
#: the one folder of an archive is named as its run
RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}", re.ASCII)
_CHUNK_BYTES = 1 << 20
_NAME_CHARS_MAX = 255


class ArchiveError(LabError):
    """An archive that was not made or not unpacked; nothing of it is left behind.

    Codes: archive-path, archive-link, archive-device, archive-type, archive-duplicate, archive-too-large,
    archive-damaged, archive-layout, archive-fixity.
    """

    def __init__(self, code: str, what: str, why: str, hint: str = "") -> None:
        fallback = "fetch it again, or ask where it came from; nothing was unpacked"
        super().__init__(code, what, why, hint or fallback, EXIT_CHECK)


class Readable(Protocol):
    """Where bytes come from."""

    def read(self, size: int = -1, /) -> bytes: ...


class Writable(Protocol):
    """Where bytes go."""

    def write(self, data: bytes, /) -> object: ...


def _zstd() -> ModuleType:
    try:
        return importlib.import_module("zstandard")
    except ImportError as error:
        raise LabError(
            "no-zstd",
            "archives need the package zstandard",
            str(error),
            "make the environment again: make venv",
        ) from error


def compressor(target: BinaryIO) -> AbstractContextManager[Writable]:
    """Its frame carries its own checksum. `target` stays open."""
    made = _zstd().ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True)
    stream: AbstractContextManager[Writable] = made.stream_writer(target, closefd=False)
    return stream


class Decompressed:
    """What a zstd file holds, byte for byte, and never more than a limit of it."""

    def __init__(self, source: BinaryIO, limit_bytes: int) -> None:
        library = _zstd()
        self._damage: type[Exception] = library.ZstdError
        self._reader = library.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).stream_reader(
            source, read_across_frames=True, closefd=False
        )
        self._limit_bytes = limit_bytes
        self.count_bytes = 0

    def read(self, size: int = -1, /) -> bytes:
        """Exactly `size` bytes, fewer only at the end. Raises ArchiveError archive-damaged, -too-large."""
        pieces = []
        missing = size
        while missing > 0:
            try:
                piece: bytes = self._reader.read(min(missing, _CHUNK_BYTES))
            except self._damage as error:
                raise ArchiveError("archive-damaged", "the archive is damaged", str(error)) from error
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
            self.count_bytes += len(piece)
            if self.count_bytes > self._limit_bytes:
                raise too_large(f"it holds more than {self._limit_bytes:,} bytes")
        return b"".join(pieces)


def too_large(why: str) -> ArchiveError:
    """The refusal of an archive that would fill the disk."""
    return ArchiveError(
        "archive-too-large",
        "the archive is larger than it may be",
        why,
        "if you trust it, allow more: --max-gib N; nothing was unpacked",
    )


@dataclass(frozen=True)
class Member:
    """One entry: a plain file of `size_bytes`, or a folder."""

    name: str
    size_bytes: int
    folder: bool


def header(name: str, size_bytes: int) -> bytes:
    """The header of a file, the same bytes for the same name and size."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size_bytes, 0o644, 0
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    except (ValueError, UnicodeEncodeError) as error:
        raise ArchiveError(
            "archive-path",
            f"{name} cannot be archived",
            str(error),
            "a bundle's names are short and plain; ./pqlab verify says what is wrong with it",
        ) from error


def padding(size_bytes: int) -> bytes:
    """Zeros up to the next block."""
    return bytes(-size_bytes % BLOCK_BYTES)


END = bytes(2 * BLOCK_BYTES)


def members(stream: Readable) -> Iterator[Member]:
    """The entries of a tar stream, each vetted; the caller takes each file's bytes by `blocks` before the
    next. Raises ArchiveError for the first that is not plain."""
    while True:
        block = stream.read(BLOCK_BYTES)
        if block == bytes(BLOCK_BYTES):
            _require_end(stream)
            return
        yield _vetted(_parsed(block))


def blocks(stream: Readable, size_bytes: int) -> Iterator[bytes]:
    """The bytes of the file whose header came last, in pieces; its padding is read too."""
    missing = size_bytes
    while missing:
        piece = stream.read(min(missing, _CHUNK_BYTES))
        if not piece:
            raise ArchiveError(
                "archive-damaged", "the archive ends inside a file", f"{missing} bytes missing"
            )
        missing -= len(piece)
        yield piece
    fill = padding(size_bytes)
    if stream.read(len(fill)) != fill:
        raise ArchiveError("archive-damaged", "the archive is damaged", "a file's padding is not zero")


def _require_end(stream: Readable) -> None:
    rest = stream.read(BLOCK_BYTES + MAX_PADDING_BYTES + 1)
    if len(rest) < BLOCK_BYTES:
        raise ArchiveError("archive-damaged", "the archive is cut short", "its end mark is missing")
    if rest.strip(b"\0") or len(rest) > BLOCK_BYTES + MAX_PADDING_BYTES:
        raise ArchiveError("archive-damaged", "the archive goes on behind its end", "nobody would see that")


def _parsed(block: bytes) -> tarfile.TarInfo:
    if len(block) < BLOCK_BYTES:
        raise ArchiveError("archive-damaged", "the archive is cut short", "its end mark is missing")
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.HeaderError, ValueError) as error:
        raise ArchiveError("archive-damaged", "a header of the archive is damaged", str(error)) from error


def _vetted(info: tarfile.TarInfo) -> Member:
    shown = repr(info.name[:80])
    if info.issym() or info.islnk():
        raise ArchiveError("archive-link", f"the archive holds a link, {shown}", "it could lead anywhere")
    if info.isdev():
        raise ArchiveError(
            "archive-device", f"the archive holds a device or a pipe, {shown}", "no file is one"
        )
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
        raise ArchiveError(
            "archive-type",
            f"the archive holds an entry of type {info.type!r}, {shown}",
            "files and folders only",
        )
    if info.size < 0 or (info.isdir() and info.size):
        raise ArchiveError("archive-damaged", f"{shown} has {info.size} bytes", "no file or folder can")
    if reason := _name_trouble(info.name):
        raise ArchiveError("archive-path", f"the archive holds the name {shown}", reason)
    return Member(info.name, info.size, info.isdir())


def _name_trouble(name: str) -> str | None:
    """Why a name must not be made, or None."""
    if name.startswith("/"):
        return "it is absolute"
    if len(name) > _NAME_CHARS_MAX:
        return f"it is longer than {_NAME_CHARS_MAX} characters"
    parts = name.split("/")
    if ".." in parts:
        return "it leads out of the folder"
    if "" in parts or "." in parts:
        return "it has an empty part"
    if "\\" in name or ":" in name or not name.isprintable():
        return "it has characters that no bundle has"
    return None
