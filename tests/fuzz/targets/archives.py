"""Archives of strangers (`pqlab unpack`): entries of any kind, damaged streams, damaged compression.

Whatever comes, nothing appears outside the one folder, nothing stays of a refused archive, and what is let
through is byte for byte what its manifests say.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import zstandard
from reader import Reader, altered

from pqevidence.bundle import unpack as unpacking
from pqevidence.bundle.tarball import BLOCK_BYTES, END, ArchiveError, blocks, members, padding
from pqevidence.errors import LabError
from targets import Target, either, scene

_PLACE = tempfile.TemporaryDirectory(prefix="pqfuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
_RUN = "20260101T000000Z-abcdef"
_MAX_BYTES = 1 << 20
_NAMES = ("data/a", "data/b/c", "manifest-sha512.txt", "..", "/etc/x", "", "a" * 98, "data", ".", "a\\b", "é")
_KINDS = (b"0", b"5", b"0", b"\0", b"0", b"1", b"2", b"3", b"6", b"x", b"g", b"L", b"S", b"7")
# It asks the whole machine to write its caches, for every archive that is whole.
unpacking.os = SimpleNamespace(sync=lambda: None)  # type: ignore[attr-defined,assignment]


def _header(name: bytes, size: int, kind: bytes = b"0") -> bytearray:
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT))
    block[0:100] = name[:100].ljust(100, b"\0")
    block[124:136] = b"%011o\0" % size
    block[156:157] = kind
    return block


def _summed(block: bytearray) -> bytes:
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _stream(files: Iterable[tuple[str, bytes]]) -> bytes:
    """A tar stream of plain files under the run's folder."""
    parts = []
    for name, content in files:
        parts += [
            _summed(_header(f"{_RUN}/{name}".encode(), len(content))),
            content,
            padding(len(content)),
        ]
    return b"".join(parts) + END


def _bag(files: dict[str, bytes]) -> list[tuple[str, bytes]]:
    """`files` (names below data/) with the tag files that fit them."""

    def listed(rows: Iterable[tuple[str, bytes]]) -> bytes:
        return b"".join(b"%s  %s\n" % (hashlib.sha512(c).hexdigest().encode(), n.encode()) for n, c in rows)

    tags = [("bagit.txt", b"BagIt-Version: 1.0\n"), ("manifest-sha512.txt", listed(files.items()))]
    return [*files.items(), *tags, ("tagmanifest-sha512.txt", listed(tags))]


_GOOD = _bag({"data/a": b"one", "data/b/c": bytes(range(256)) * 3})
_GOOD_STREAM = _stream(_GOOD)
_GOOD_FRAME = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(_GOOD_STREAM)


def entries(data: bytes) -> None:
    """Headers with right sums and any fields: what passes is a plain file or folder with a plain name."""
    reader = Reader(data)
    parts = []
    while reader.left:
        size, shape = reader.u16() % 1500, reader.u8()
        name = _NAMES[reader.u8() % len(_NAMES)].encode() if shape & 1 else reader.take(reader.u8() % 101)
        block = _header(
            _RUN.encode() + b"/" + name if shape & 2 else name, size, _KINDS[(shape >> 4) % len(_KINDS)]
        )
        if shape & 4:
            at = reader.u16() % BLOCK_BYTES
            field = reader.take(reader.u8() % 16)
            block[at : at + len(field)] = field
        parts += [
            _summed(block)[:BLOCK_BYTES],
            bytes(size),
            padding(size) if not shape & 8 else reader.take(4),
        ]
    stream = io.BytesIO(b"".join(parts) + END)
    try:
        for member in members(stream):
            assert not member.name.startswith("/") and "\\" not in member.name
            assert not {"", ".", ".."} & set(member.name.split("/"))
            assert member.size_bytes >= 0 and not (member.folder and member.size_bytes)
            assert sum(map(len, blocks(stream, member.size_bytes))) == member.size_bytes
    except ArchiveError as error:
        assert error.code.startswith("archive-") and error.hint


def whole(data: bytes) -> None:
    """A good archive, changed before or after it was compressed: the same files come out, or none."""
    reader = Reader(data)
    shape = reader.u8()
    if shape & 1:
        content = altered(reader, _GOOD_FRAME)
    else:
        files = list(_GOOD)
        for _ in range(shape >> 4):
            place = reader.u8() % (len(files) + 1)
            change = reader.u8() % 4
            if change == 0:
                files.insert(place, (_NAMES[reader.u8() % len(_NAMES)], reader.take(reader.u8())))
            elif change == 1 and files:
                files.insert(place, files[place - 1])
            elif change == 2:
                del files[place : place + 1]
            elif files:
                name, old = files[place - 1]
                files[place - 1] = (name, altered(reader, old))
        stream = altered(reader, _stream(files)) if shape & 2 else _stream(files)
        content = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(stream)
    out = Path(tempfile.mkdtemp(dir=_PLACE.name))
    try:
        try:
            done = unpacking.unpack(io.BytesIO(content), out / "here", _MAX_BYTES)
        except LabError as error:
            assert error.what and error.hint and error.exit_code in (2, 4, 5)
            left = list((out / "here").rglob("*")) if (out / "here").exists() else []
            assert not left, f"of a refused archive stay {left}"
        else:
            found = {
                p.relative_to(done.bundle).as_posix(): p.read_bytes()
                for p in done.bundle.rglob("*")
                if p.is_file()
            }
            assert found == dict(_GOOD), "another bundle came out, and its manifests fit"
        assert {p.name for p in out.iterdir()} <= {"here"}, "something lies outside the folder"
    finally:
        shutil.rmtree(out)


def _entry_seeds() -> dict[str, bytes]:
    plain = b"\x00\x03\x03\x00"
    kinds = {f"seed-kind-{kind}": b"\x00\x00" + bytes((3 | kind << 4, 0)) for kind in range(14)}
    names = {f"seed-name-{place}": b"\x00\x00\x03" + bytes((place,)) for place in range(len(_NAMES))}
    return {
        "seed-two": plain * 2,
        "seed-field": b"\x00\x00\x07\x00\x00\x7c\x04\xff\xff\xff\xff",
        **kinds,
        **names,
    }


def _whole_seeds() -> dict[str, bytes]:
    kept = bytes((0,))
    return {
        "seed-good": kept,
        "seed-frame": b"\x01\x03\x00\x30\x01",
        "seed-cut": b"\x01\x04\x00\x80",
        "seed-twice": b"\x10\x01\x01",
        "seed-less": b"\x10\x00\x02",
        "seed-other": b"\x10\x01\x03\x03\x00\x01\x02",
        "seed-more": b"\x10\x05\x00\x01\x04more",
        "seed-stream": b"\x02\x03\x00\x30\x01",
    }


TARGETS = {
    "archive": Target(
        "archives (pqlab unpack): tar entries, zstd frames, manifests",
        either(entries, whole),
        lambda: scene(0, _entry_seeds()) | scene(1, _whole_seeds()),
        (
            "evidence/src/pqevidence/bundle/tarball.py",
            "evidence/src/pqevidence/bundle/unpack.py",
            "evidence/src/pqevidence/bundle/bag.py",
            "evidence/src/pqevidence/bundle/half.py",
        ),
        limit=2048,
    )
}
