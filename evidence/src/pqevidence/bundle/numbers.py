"""One hash over every number that a report may print."""

from __future__ import annotations

import hashlib
from pathlib import Path


def number_files(data_dir: Path) -> list[Path]:
    """plan.json, every cell's record.json and every analysis table, sorted by their path under data/."""
    found = [data_dir / "plan.json", *data_dir.glob("cells/*/record.json"), *data_dir.glob("analysis/*.csv")]
    return sorted(
        (path for path in found if path.is_file()), key=lambda path: path.relative_to(data_dir).as_posix()
    )


def numbers_sha256(data_dir: Path) -> str:
    """Hex SHA-256 over path length, path, content length and content of each of number_files.

    Paths are relative to data/, lengths are 8 bytes big-endian. The report embeds it, so that a page and the
    tables beside it cannot be of different runs.
    """
    digest = hashlib.sha256()
    for path in number_files(data_dir):
        for part in (path.relative_to(data_dir).as_posix().encode(), path.read_bytes()):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()
