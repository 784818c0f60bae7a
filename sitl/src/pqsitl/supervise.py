"""One supervised child process: its output goes to our log, and it never outlives us."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from pqbase import children
from pqsitl.errors import ProcessError

STOP_TIMEOUT_S = 3.0


class Supervised:
    """A child in its own process group; the last lines of its output explain its death."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self._tail: deque[str] = deque(maxlen=20)
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                **children.START,
            )
            children.bind(self._process.pid)
        except OSError as error:
            raise ProcessError(
                f"{name} cannot start: {self.command[0]}: {error.strerror}",
                "check that the file is there and executable",
            ) from error
        self._reader = threading.Thread(target=self._copy_output, name=f"log-{name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def death_message(self) -> str:
        """Why it is gone, with its last words."""
        self._reader.join(timeout=0.5)
        last = " | ".join(list(self._tail)[-5:]) or "no output"
        return f"{self.name} ended with status {self.exit_status}; its last words: {last}"

    def stop(self) -> None:
        """Ask the group to end, end it after 3 s; returns when the child is reaped."""
        for step in (children.end, children.kill):
            try:
                step(self._process.pid)
            except ProcessLookupError:
                break
            try:
                self._process.wait(timeout=STOP_TIMEOUT_S)
                break
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()
        self._reader.join(timeout=0.5)

    def _copy_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for raw in pipe:
                line = raw.decode(errors="replace").rstrip()
                if line:
                    self._tail.append(line)
                    print(f"{self.name}: {line}", file=sys.stderr, flush=True)
