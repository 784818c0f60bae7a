"""Ten times a second: keepalives and announces, the watchdog, and counters.json for the telemetry child."""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pqbase.patience import patiently

PERIOD_S: Final = 0.1


class CountersFile:
    """counters.json, replaced whole so that a reader never sees half of it."""

    def __init__(self, path: Path, note: Callable[[str], None]) -> None:
        self.path = path
        self._temporary = path.with_name(path.name + ".new")
        self._note = note
        self._failed = False

    def write(self, content: dict[str, object]) -> None:
        """Replace the file; a full disk is said once and does not stop the tunnel."""
        try:
            self._temporary.write_bytes(json.dumps(content, separators=(",", ":")).encode())
            patiently(lambda: self._temporary.replace(self.path))
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._note(f"{self.path} cannot be written: {error.strerror or error}")
            self._failed = True


class Upkeep:
    """Runs the given jobs on an absolute schedule until closed."""

    def __init__(self, jobs: list[Callable[[], None]], note: Callable[[str], None]) -> None:
        self._jobs = jobs
        self._note = note
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def open(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._closing.set()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        next_s = time.monotonic()
        complained: set[str] = set()
        while not self._closing.is_set():
            for job in self._jobs:
                try:
                    job()
                except Exception as error:  # noqa: BLE001  one failing job must not end the keepalives
                    text = repr(error)
                    if text not in complained:
                        complained.add(text)
                        self._note(f"upkeep: defect\n{traceback.format_exc()}")
            next_s = max(next_s + PERIOD_S, time.monotonic())
            self._closing.wait(next_s - time.monotonic())
