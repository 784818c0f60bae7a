"""The pairs' controllers as processes: started together, heard line by line, ended together or each alone."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TextIO

from pqbase.documents import Json

#: between two looks at what the controllers wrote: the measured machine may be this one
LOOK_S: Final = 1.0
_STOPPED: Final = 130


@dataclass
class Child:
    """One pair's controller. code: how it ended, negative for a signal; None while it runs."""

    pair: str
    process: subprocess.Popen[str]
    code: int | None = None
    _printed: list[str] = field(default_factory=list)

    @property
    def document(self) -> Json:
        """The JSON document that it ended with; {} without one."""
        for line in reversed(self._printed):
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    return found
        return {}

    def why_dead(self) -> str | None:
        """One sentence, of a controller that ended without a sealed bundle; None for another."""
        document = self.document
        if self.code is None or "bundle" in document:
            return None
        if self.code < 0:
            return f"its controller was killed by {signal.Signals(-self.code).name}"
        if self.code == _STOPPED:
            return "it was stopped"
        error = document.get("error")
        if isinstance(error, dict):
            return f"{error.get('what')}: {error.get('why')}; next: {error.get('hint')}"
        return f"its controller ended with {self.code} and no word"


class Children:
    """Started by `start`; `follow` returns when all have ended. Whatever ends the block that this opens, no
    controller outlives it: each is asked to end, and waited for."""

    def __init__(self) -> None:
        self.all: list[Child] = []
        self._heard: queue.SimpleQueue[tuple[Child, str | None]] = queue.SimpleQueue()
        self._ending = False

    def start(self, pair: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """In a session of its own: Ctrl-C on the terminal reaches this process alone, which passes it on
        once. Raises OSError."""
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        child = Child(pair, process)
        self.all.append(child)
        assert process.stdout is not None and process.stderr is not None
        keeper = threading.Thread(target=self._keep, args=(child, process.stdout), daemon=True)
        keeper.start()
        threading.Thread(target=self._hear, args=(child, process.stderr, keeper), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminate()
        for child in self.all:
            child.process.wait()

    def _terminate(self) -> None:
        for child in self.all:
            if child.process.poll() is None:
                child.process.terminate()

    def end(self) -> None:
        """Ask all to end, at the next look; may be called by a signal's handler."""
        self._ending = True

    @property
    def ending(self) -> bool:
        """Whether they were asked to."""
        return self._ending

    def follow(self, tell: Callable[[str, str], None], look: Callable[[], None]) -> None:
        """Until all have ended. tell: pair and one whole line that its controller said; look: called about
        once a second."""
        asked, due_s = False, time.monotonic() + LOOK_S
        while any(child.code is None for child in self.all):
            if self._ending and not asked:
                asked = True
                self._terminate()
            with contextlib.suppress(queue.Empty):
                child, line = self._heard.get(timeout=max(0.0, due_s - time.monotonic()))
                if line is None:
                    child.code = child.process.returncode
                else:
                    tell(child.pair, line)
            if time.monotonic() >= due_s:
                look()
                due_s = time.monotonic() + LOOK_S
        look()

    def _keep(self, child: Child, stream: TextIO) -> None:
        for line in stream:
            child._printed.append(line)

    def _hear(self, child: Child, stream: TextIO, keeper: threading.Thread) -> None:
        for line in stream:
            self._heard.put((child, line.rstrip("\n")))
        child.process.wait()
        keeper.join()
        self._heard.put((child, None))
