"""What was found of bundles before, so that an index of many is made again in seconds.

The key is a digest of every byte of the bundle and of the program that looked at it. The files lie in the
index's own folder; where that is, or lies in, the folder of the submissions, nothing is kept: whoever sends a
bundle there could send a file that says that it is good. Only bundles that were accepted are kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pqbase.documents import Json
from pqevidence.analysis.comparison import reference_dir
from pqevidence.verify.export import OURS

FOLDER: Final = "looked-at"
SCHEMA: Final = "pqlab/index-look/v1"


@dataclass(frozen=True)
class Looks:
    """The kept looks in `folder`; None: nothing is kept."""

    folder: Path | None

    def get(self, digest: str) -> Json | None:
        """What was found of these bytes by this very program; None where nothing whole is kept."""
        if self.folder is None:
            return None
        try:
            text = self._file(digest).read_text(encoding="utf-8")
            kept = json.loads(text)
        except (OSError, ValueError, RecursionError):
            return None  # not there or torn: the bundle is looked at again, which is always right
        if not isinstance(kept, dict) or (kept.get("schema"), kept.get("key")) != (SCHEMA, _key(digest)):
            return None
        found = kept.get("found")
        return found if isinstance(found, dict) else None

    def put(self, digest: str, found: Json) -> None:
        """Keep it, whole or not at all."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self._file(digest)
        half = target.with_suffix(f".{os.getpid()}.half")
        text = json.dumps({"schema": SCHEMA, "key": _key(digest), "found": found}, separators=(",", ":"))
        try:
            half.write_text(text, encoding="utf-8")
            half.replace(target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                half.unlink()

    def _file(self, digest: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{_key(digest)}.json"


def beside(out: Path, submissions: Path) -> Looks:
    """Looks in the index's folder, or none where a submission could lie there."""
    there, sent = out.resolve(), submissions.resolve()
    return Looks(None if sent in (there, *there.parents) else there / FOLDER)


def _key(digest: str) -> str:
    return hashlib.sha256(f"{_program()} {digest}".encode()).hexdigest()


@cache
def _program() -> str:
    """Digest of every file of the packages that a check can reach, of the published tables, and of Python."""
    digest = hashlib.sha256(sys.version.encode())
    for package in OURS:
        spec = importlib.util.find_spec(package)
        for root in sorted((spec.submodule_search_locations if spec else None) or []):
            for path in sorted(Path(root).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    digest.update(f"\0{package} {path.relative_to(root).as_posix()}\0".encode())
                    digest.update(path.read_bytes())
    reference = reference_dir()
    for table in sorted(reference.iterdir(), key=lambda table: table.name) if reference is not None else ():
        if table.name.endswith(".csv"):
            digest.update(f"\0reference {table.name}\0".encode())
            digest.update(table.read_bytes())
    return digest.hexdigest()
