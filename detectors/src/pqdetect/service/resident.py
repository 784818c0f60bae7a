"""A detector that lives on its host and stands still between its cells: where it is, and what it is made of.

The agent beside it finds it by this file, and moves it by signals. Schema `pqdetect/service/v1`:
docs/DETECTOR-SERVICE.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Final

import pqdetect
from pqbase.documents import Json

FILE: Final = "service.json"
SCHEMA: Final = "pqdetect/service/v1"


class Resident:
    """This process as others find it, in the folder of its verdicts."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def lie_down(self, card: Json, name: str) -> None:
        """Say where this is, and stand still until SIGCONT. Raises OSError when that cannot be written."""
        document = {
            "schema": SCHEMA,
            "name": name,
            "pid": os.getpid(),
            "started_ticks": started_ticks(),
            "model": card["name"],
            "sha256": card["sha256"],
            "code_sha256": code_sha256(),
            "card": card,
        }
        new = self._path.with_name(f"{FILE}.new")
        new.write_text(json.dumps(document, sort_keys=True) + "\n", encoding="utf-8")
        new.replace(self._path)
        os.kill(os.getpid(), signal.SIGSTOP)

    def leave(self) -> None:
        """It ends: nobody shall look for it."""
        self._path.unlink(missing_ok=True)


def started_ticks() -> int:
    """When this process began, in clock ticks since boot: field 22 of /proc/self/stat, see proc(5)."""
    text = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    return int(text.rpartition(")")[2].split()[19])


def code_sha256() -> str:
    """Checksum over names and contents of this package's modules: which build judges here."""
    root = Path(pqdetect.__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return total.hexdigest()
