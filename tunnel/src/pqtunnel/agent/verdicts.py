"""What a detector on this host said within a cell: read where it writes, never written here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

#: each detector has a folder of its own here, and turns its file over into `.1` before it grows
FILE: Final = "verdicts.ndjson"
_STAMP: Final = re.compile(rb'"t_ns":(\d+)')


class Verdicts:
    """Lines of every detector by time. `folder` is None where no detector may run beside this agent."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @property
    def reason(self) -> str:
        """Why there may be no line."""
        return "PQ_VERDICTS names no folder" if self._folder is None else "no verdict fell into the cell"

    def lines(self, start_ns: int, end_ns: int) -> list[str]:
        """Whole lines stamped within [start_ns, end_ns], by their stamp."""
        found: list[tuple[int, str]] = []
        for path in [] if self._folder is None else sorted(self._folder.glob(f"*/{FILE}*")):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue  # turned over between the listing and the reading; its lines stand in the other file
            for line in data.split(b"\n")[:-1]:
                stamp = _STAMP.search(line)
                if stamp is not None and start_ns <= int(stamp[1]) <= end_ns:
                    found.append((int(stamp[1]), line.decode()))
        return [line for _, line in sorted(dict.fromkeys(found))]
