"""Archives that must be refused, written with tarfile and zstandard alone: no code under test makes them.

Each starts from the files of a good bundle and breaks one rule. `HOSTILE` maps a name to the error code that
must stop it and to a function that writes the archive.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import zstandard

Entry = tuple[tarfile.TarInfo, bytes]
Make = Callable[[Path, Path], None]


def file_entry(name: str, content: bytes = b"x\n") -> Entry:
    """A plain file."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, content


def odd_entry(name: str, kind: bytes, target: str = "") -> Entry:
    """An entry of another kind."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def good_entries(bundle: Path) -> list[Entry]:
    """Every file of a bundle under the bundle's name."""
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    return [
        file_entry(f"{bundle.name}/{path.relative_to(bundle).as_posix()}", path.read_bytes())
        for path in files
    ]


def tar_of(entries: list[Entry], form: int = tarfile.USTAR_FORMAT) -> bytes:
    """An uncompressed stream."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def packed(stream: bytes) -> bytes:
    """One zstd frame."""
    return zstandard.ZstdCompressor(level=1, write_checksum=True).compress(stream)


def _with(*extra: Callable[[str], Entry]) -> Make:
    def make(bundle: Path, target: Path) -> None:
        entries = [*good_entries(bundle), *(one(bundle.name) for one in extra)]
        target.write_bytes(packed(tar_of(entries)))

    return make


def _edited(edit: Callable[[str, bytes], tuple[str, bytes] | None]) -> Make:
    def make(bundle: Path, target: Path) -> None:
        kept = []
        for info, content in good_entries(bundle):
            changed = edit(info.name, content)
            if changed is not None:
                kept.append(file_entry(*changed))
        target.write_bytes(packed(tar_of(kept)))

    return make


def _bytes(change: Callable[[bytes], bytes], *, inside: bool) -> Make:
    """Change the tar stream, or (inside false) the compressed file."""

    def make(bundle: Path, target: Path) -> None:
        stream = tar_of(good_entries(bundle))
        target.write_bytes(packed(change(stream)) if inside else change(packed(stream)))

    return make


def _pax(bundle: Path, target: Path) -> None:
    info, content = file_entry(f"{bundle.name}/data/more.txt")
    info.pax_headers = {"path": "../../outside.txt"}
    target.write_bytes(packed(tar_of([*good_entries(bundle), (info, content)], tarfile.PAX_FORMAT)))


def _gnu_name(bundle: Path, target: Path) -> None:
    entry = file_entry(f"{bundle.name}/data/" + "n" * 300)
    target.write_bytes(packed(tar_of([*good_entries(bundle), entry], tarfile.GNU_FORMAT)))


def _declared(*sizes: int, filled: int = 0) -> Make:
    """Headers that promise so many bytes, and `filled` zeros behind the last: a bomb of a few kilobytes."""

    def make(bundle: Path, target: Path) -> None:
        stream = b""
        for number, size in enumerate(sizes):
            info = tarfile.TarInfo(f"{bundle.name}/data/zeros-{number}.bin")
            info.size = size
            stream += info.tobuf(tarfile.USTAR_FORMAT)
        target.write_bytes(packed(stream + bytes(filled)))

    return make


def zeros(top: str, files: int, size: int) -> bytes:
    """An archive of real zeros, a thousandth of their size."""
    return packed(
        tar_of([file_entry(f"{top}/data/zeros-{number}.bin", bytes(size)) for number in range(files)])
    )


def _window(bundle: Path, target: Path) -> None:
    """A frame whose reader would need 512 MiB of memory."""
    settings = zstandard.ZstdCompressionParameters(window_log=29, compression_level=1)
    squeeze = zstandard.ZstdCompressor(compression_params=settings).compressobj()  # size unknown: window kept
    target.write_bytes(squeeze.compress(tar_of(good_entries(bundle))) + squeeze.flush())


def _negative_size(bundle: Path, target: Path) -> None:
    header = bytearray(file_entry(f"{bundle.name}/data/less.bin", b"")[0].tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b"\xff" * 11 + b"\x00"  # base 256, −256
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    stream = tar_of(good_entries(bundle))
    target.write_bytes(packed(bytes(header) + stream))


def _flipped(name: str, content: bytes) -> tuple[str, bytes]:
    return (name, content[:-1] + bytes([content[-1] ^ 1])) if name.endswith("plan.json") else (name, content)


def _forged(name: str, content: bytes) -> tuple[str, bytes]:
    """The manifest made to fit an edit of the plan; only the tag manifest still knows."""
    if name.endswith("/manifest-sha512.txt"):
        return name, content.replace(content[:8], hashlib.sha512(b"").hexdigest()[:8].encode(), 1)
    return name, content


def _without(ending: str) -> Callable[[str, bytes], tuple[str, bytes] | None]:
    return lambda name, content: None if name.endswith(ending) else (name, content)


def _renamed(top: str) -> Callable[[str, bytes], tuple[str, bytes] | None]:
    return lambda name, content: (top + "/" + name.partition("/")[2], content)


HOSTILE: dict[str, tuple[str, Make]] = {
    "traversal": ("archive-path", _with(lambda top: file_entry(f"{top}/../../outside.txt"))),
    "traversal-first": ("archive-path", _edited(lambda name, content: (f"../{name}", content))),
    "absolute": ("archive-path", _with(lambda top: file_entry("/tmp/outside.txt"))),
    "dot-part": ("archive-path", _with(lambda top: file_entry(f"{top}/./data/more.txt"))),
    "empty-part": ("archive-path", _with(lambda top: file_entry(f"{top}//data/more.txt"))),
    "backslash": ("archive-path", _with(lambda top: file_entry(f"{top}/..\\outside.txt"))),
    "line-break": ("archive-path", _with(lambda top: file_entry(f"{top}/data/a\nb"))),
    "not-utf8": ("archive-damaged", _bytes(lambda s: _raw_name(s, b"\xff\xfe"), inside=True)),
    "symlink": ("archive-link", _with(lambda top: odd_entry(f"{top}/data/l", tarfile.SYMTYPE, "/etc"))),
    "symlink-folder": (
        "archive-link",
        _with(
            lambda top: odd_entry(f"{top}/data/l", tarfile.SYMTYPE, "../.."),
            lambda top: file_entry(f"{top}/data/l/outside.txt"),
        ),
    ),
    "hard-link": (
        "archive-link",
        _with(lambda top: odd_entry(f"{top}/data/h", tarfile.LNKTYPE, "/etc/passwd")),
    ),
    "character-device": ("archive-device", _with(lambda top: odd_entry(f"{top}/data/d", tarfile.CHRTYPE))),
    "block-device": ("archive-device", _with(lambda top: odd_entry(f"{top}/data/d", tarfile.BLKTYPE))),
    "pipe": ("archive-device", _with(lambda top: odd_entry(f"{top}/data/p", tarfile.FIFOTYPE))),
    "pax-header": ("archive-type", _pax),
    "gnu-long-name": ("archive-type", _gnu_name),
    "sparse": ("archive-type", _with(lambda top: odd_entry(f"{top}/data/s", tarfile.GNUTYPE_SPARSE))),
    "duplicate": ("archive-duplicate", _with(lambda top: file_entry(f"{top}/data/plan.json"))),
    "file-as-folder": ("archive-duplicate", _with(lambda top: file_entry(f"{top}/data/plan.json/x"))),
    "folder-as-file": ("archive-duplicate", _with(lambda top: file_entry(f"{top}/data/cells"))),
    "bomb": ("archive-too-large", _declared((1 << 30) + 1, filled=1 << 20)),
    "window": ("archive-damaged", _window),
    "negative-size": ("archive-damaged", _negative_size),
    "no-end-mark": ("archive-damaged", _bytes(lambda s: s.rstrip(b"\0"), inside=True)),
    "cut-short": ("archive-damaged", _bytes(lambda s: s[: len(s) // 2], inside=False)),
    "behind-the-end": ("archive-damaged", _bytes(lambda s: s + b"more" * 128, inside=True)),
    "second-archive": ("archive-damaged", _bytes(lambda s: s + packed(b"more"), inside=False)),
    "garbage-behind": ("archive-damaged", _bytes(lambda s: s + b"garbage!", inside=False)),
    "bit-flip": ("archive-damaged", _bytes(lambda s: s[:-9] + bytes([s[-9] ^ 1]) + s[-8:], inside=False)),
    "no-zstd": ("archive-damaged", _bytes(lambda s: b"PK\x03\x04" + s, inside=False)),
    "not-a-tar": ("archive-damaged", _bytes(lambda s: b"hello " * 1000, inside=True)),
    "empty-tar": ("archive-layout", _bytes(lambda s: bytes(10240), inside=True)),
    "empty-file": ("archive-damaged", _bytes(lambda s: b"", inside=False)),
    "two-folders": ("archive-layout", _with(lambda top: file_entry("20260301T120000Z-ffffff/data/x"))),
    "called-latest": ("archive-layout", _edited(_renamed("latest"))),
    "called-work": ("archive-layout", _edited(_renamed(".work"))),
    "no-folder": ("archive-layout", _edited(lambda name, content: (name.partition("/")[2], content))),
    "no-manifest": ("archive-layout", _edited(_without("/manifest-sha512.txt"))),
    "no-tag-manifest": ("archive-layout", _edited(_without("tagmanifest-sha512.txt"))),
    "edited-file": ("archive-fixity", _edited(_flipped)),
    "forged-manifest": ("archive-fixity", _edited(_forged)),
    "file-missing": ("archive-fixity", _edited(_without("data/plan.json"))),
    "file-added": ("archive-fixity", _with(lambda top: file_entry(f"{top}/data/more.txt"))),
    "beside-data": ("archive-fixity", _with(lambda top: file_entry(f"{top}/install.sh"))),
}


def _raw_name(stream: bytes, name: bytes) -> bytes:
    """The stream with another name in its first header, checksum made to fit."""
    header = bytearray(stream[:512])
    header[: len(name)] = name
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + stream[512:]
