"""Result bundles of strangers: one file of a good bundle replaced; `verify` answers, never with success."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from reader import Reader

from pqevidence.errors import EXIT_CHECK
from pqevidence.verify import exit_code, verify_bundle
from targets import Target

_PLACE = tempfile.TemporaryDirectory(prefix="pqfuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
# Making every table and page again is most of a verify's time; its reader is the same.
_SKIPPED = ("report_rebuild",)


@cache
def _good() -> tuple[Path, list[tuple[str, bytes]]]:
    """A small sealed bundle of synthetic data, and its files."""
    from bundle_kit import make_sealed

    root = make_sealed(Path(_PLACE.name))
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    kept = [name for name in names if not name.startswith(("data/analysis/", "data/report"))]
    return root, [(name, (root / name).read_bytes()) for name in kept]


def _edited(reader: Reader, old: bytes) -> bytes:
    out = old
    for _ in range(1 + reader.u8() % 4):
        kind, at = reader.u8() % 6, reader.u32() % (len(out) + 1)
        if kind == 0:
            out = out[:at] + reader.take(reader.u8()) + out[at:]
        elif kind == 1:
            out = out[:at] + out[at + 1 + reader.u8() :]
        elif kind == 2:
            part = reader.take(1 + reader.u8() % 32)
            out = out[:at] + part + out[at + len(part) :]
        elif kind == 3:  # another value after the next colon or comma: JSON and CSV stay what they are
            start = max(out.find(b":", at), out.find(b",", at))
            end = min(
                (p for p in (out.find(mark, start + 1) for mark in (b",", b"}", b"]", b"\n")) if p > 0),
                default=0,
            )
            if 0 < start < end:
                out = out[: start + 1] + _VALUES[reader.u8() % len(_VALUES)] + out[end:]
        elif kind == 4:
            out = reader.take(reader.u16() % 512)
        else:
            lines = out.splitlines(keepends=True)
            if lines:
                place = reader.u16() % len(lines)
                out = b"".join([*lines[:place], lines[place] * (reader.u8() % 3), *lines[place + 1 :]])
    return out


_VALUES = (
    b"null",
    b"-1",
    b"0",
    b"1e400",
    b"[]",
    b"{}",
    b'""',
    b'"x"',
    b"true",
    b"9" * 30,
    b"NaN",
    b"[[[[",
    b'"\\ud800"',
)


def bundle(data: bytes) -> None:
    """Exit code 5 for whatever was changed; no exception, whatever it was changed to."""
    reader = Reader(data)
    root, files = _good()
    name, old = files[reader.u16() % len(files)]
    new = _edited(reader, old)
    path = root / name
    try:
        if reader.u8() == 255:
            path.unlink()
            new = b""
        else:
            path.write_bytes(new)
        results = verify_bundle(root, skip=_SKIPPED)
        assert new == old or exit_code(results) == EXIT_CHECK, f"{name} was changed and verify is content"
    finally:
        path.write_bytes(old)


def _seeds() -> dict[str, bytes]:
    kinds = {f"seed-kind-{kind}": bytes((0, 20, 0, kind, 0, 0, 0, 40, 8)) + b"12345678" for kind in range(6)}
    places = {f"seed-file-{n:02}": bytes((0, n, 0, 3, 0, 0, 0, 60, n % 13)) for n in range(0, 40, 3)}
    return {**kinds, **places}


def cleanup() -> None:
    """Remove the bundle; the temporary folder goes with the process anyway."""
    shutil.rmtree(_PLACE.name, ignore_errors=True)


TARGETS = {
    "bundle": Target(
        "a result bundle with one file changed (pqlab verify)",
        bundle,
        _seeds,
        (
            "evidence/src/pqevidence/verify/*.py",
            "evidence/src/pqevidence/kernel/*.py",
            "evidence/src/pqevidence/measures/*/*.py",
            "evidence/src/pqevidence/records.py",
            "evidence/src/pqevidence/bundle/*.json",
            "evidence/src/pqevidence/record/*.py",
            "evidence/src/pqevidence/analysis/load.py",
        ),
        limit=1024,
    )
}
