"""Detectors on this host: found by the file that each writes beside its verdicts, moved by signals.

A detector stands still (SIGSTOP) unless a controller wakes it, so that a cell without one is measured on a
host where none runs. Signals reach it because it runs as this agent's user, in the PID namespace of this
agent; they need no right that the agent does not have. Schema `pqdetect/service/v1` is described in
docs/DETECTOR-SERVICE.md.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqtunnel.agent.params import Params, ParamsError
from pqtunnel.errors import TunnelError

FILE: Final = "service.json"
SCHEMA: Final = "pqdetect/service/v1"
#: how long a process may take to stand still, or to go on
SETTLE_S: Final = 1.0
_POLL_S: Final = 0.002
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")


class DetectorError(TunnelError):
    """No detector of that name runs here, or it cannot be moved."""

    code = "no_detector"
    hint = "name it in pqlab_detectors of this host, then: ansible-playbook provision.yml"


@dataclass(frozen=True)
class Process:
    """A detector's process: what it says of itself, and its number here."""

    pid: int
    document: dict[str, object]


class Detectors:
    """The method `detector`. `folder` is that of the verdicts; None where no detector may run here."""

    def __init__(self, folder: Path | None, proc: Path = Path("/proc")) -> None:
        self._folder = folder
        self._proc = proc

    def handle(self, params: object) -> dict[str, object]:
        """facts | wake | sleep | forget | mark | usage, of the detector `name`."""
        given = Params("detector", params)
        name, action = given.text("name"), given.text("action")
        given.done()
        actions: dict[str, Callable[[Process], dict[str, object]]] = {
            "facts": lambda process: process.document,
            "wake": self._wake,
            "sleep": self._sleep,
            "forget": self._forget,
            "mark": self._mark,
            "usage": self._usage,
        }
        if sys.platform == "win32":
            raise DetectorError(
                "detectors are moved by signals, which Windows does not have: run them on Linux"
            )
        if action not in actions:
            raise ParamsError(f"detector: no action {action!r}", hint="actions: " + ", ".join(actions))
        return actions[action](self._find(name))

    # ------------------------------------------------------------------ the process

    def _find(self, name: str) -> Process:
        """Its living process. Raises DetectorError."""
        if not _NAME.fullmatch(name):
            raise ParamsError(f"detector: {name!r} is no name of a detector")
        if self._folder is None:
            raise DetectorError("no detector runs on this host: PQ_VERDICTS names no folder")
        path = self._folder / name / FILE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            pid, started = int(document["pid"]), int(document["started_ticks"])
        except FileNotFoundError as error:
            raise DetectorError(f"detector {name!r} does not run on this host") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DetectorError(f"{path} cannot be read: {error!r}") from error
        if document.get("schema") != SCHEMA or pid <= 1:
            raise DetectorError(f"{path} is not of schema {SCHEMA}")
        # a number is given again once its process has ended
        if self._stat(pid) is None or self._stat(pid, 22) != str(started):
            raise DetectorError(
                f"detector {name!r} has ended", hint=f"on that host: systemctl status pqlab-detector-{name}"
            )
        return Process(pid, document)

    def _stat(self, pid: int, number: int = 3) -> str | None:
        """Field `number` (from 3 on) of /proc/PID/stat, see proc(5); None when it has ended."""
        try:
            text = (self._proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        return text.rpartition(")")[2].split()[number - 3]

    # ------------------------------------------------------------------ moving it

    def _wake(self, process: Process) -> dict[str, object]:
        self._tell(process, "SIGCONT")
        return self._until(process, stands=False)

    def _sleep(self, process: Process) -> dict[str, object]:
        self._tell(process, "SIGSTOP")
        return self._until(process, stands=True)

    def _forget(self, process: Process) -> dict[str, object]:
        return self._tell(process, "SIGUSR1")

    def _mark(self, process: Process) -> dict[str, object]:
        return self._tell(process, "SIGUSR2")

    def _until(self, process: Process, *, stands: bool) -> dict[str, object]:
        give_up_s = time.monotonic() + SETTLE_S
        while (state := self._stat(process.pid)) is not None:
            if (state in ("T", "t")) is stands:
                return {"asleep": stands}
            if time.monotonic() > give_up_s:
                break
            time.sleep(_POLL_S)
        raise DetectorError(
            f"process {process.pid} does not {'stand still' if stands else 'go on'}: its state is {state}",
            code="detector_stuck",
        )

    def _tell(self, process: Process, name: str) -> dict[str, object]:
        try:
            os.kill(process.pid, signal.Signals[name])
        except ProcessLookupError as error:
            raise DetectorError(f"process {process.pid} has just ended") from error
        except PermissionError as error:
            raise DetectorError(
                f"process {process.pid} belongs to another user than this agent",
                code="detector_not_ours",
                hint="both units run as the user `pqlab`; provision the host again",
            ) from error
        return {}

    # ------------------------------------------------------------------ what it costs

    def _usage(self, process: Process) -> dict[str, object]:
        """cpu_ns of all its threads and rss_bytes, read from outside: it need not run to be asked."""
        told: dict[str, object] = {
            "t_ns": time.time_ns(),
            "cpu_ns": None,
            "rss_bytes": None,
            "frozen": self._stat(process.pid) in ("T", "t"),
            "reason": None,
        }
        try:
            told["cpu_ns"] = process_cpu_ns(process.pid)
            told["rss_bytes"] = self._resident_bytes(process.pid)
        except (OSError, ValueError) as error:
            told["reason"] = f"the process's account cannot be read: {error}"
        return told

    def _resident_bytes(self, pid: int) -> int:
        """VmRSS of proc(5), which is in kB of 1,024 bytes."""
        for line in (self._proc / str(pid) / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return 1024 * int(line.split()[1])
        raise ValueError("no VmRSS in its status")


def process_cpu_ns(pid: int) -> int:
    """CPU time of another process, all its threads, user and system. Raises OSError when it has ended.

    The clock's number is made of the PID as clock_getcpuclockid(3) of Linux makes it.
    """
    if sys.platform == "win32":
        raise OSError("Windows has no clock of another process")
    return time.clock_gettime_ns((~pid << 3) | 2)
