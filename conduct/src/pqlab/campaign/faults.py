"""Faults that act outside the agents: a container killed and started, or frozen; a small disk filled.

Each is carried out by a process of its own session that also ends it: it heals when the controller dies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pqevidence.errors import LabError

#: never the machine's own disk: a tmpfs, and a small one
DISK_MAX_BYTES: Final = 64 << 20
FILLER: Final = ".disk-full"
_RESTART_LIMIT_S: Final = 30.0
_FILLER_ENDS_S: Final = 5.0
#: writes until the disk is full, waits, takes its file away; told to end early it does so at once
_FILL: Final = """
import os, signal, sys, time
path, for_s = sys.argv[1], float(sys.argv[2])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
try:
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
    time.sleep(for_s)
finally:
    os.unlink(path)
"""


def _begun(script: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["sh", "-c", script, "sh", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _complaint_of(process: subprocess.Popen[str], limit_s: float, error_of: Callable[[str], LabError]) -> str:
    """What it complained of by its end; its own error when that takes too long."""
    try:
        return process.communicate(timeout=limit_s)[1].strip()
    except subprocess.TimeoutExpired as error:
        raise error_of(f"waited {limit_s:g} s") from error


class Restart:
    """A container killed (SIGKILL) and started again."""

    what = "peer_kill"

    def __init__(self, container: str) -> None:
        # who lives in its network namespace (helpers of link and attacker) lives in one that is gone then
        script = (
            'docker kill "$1"; docker start "$1" || exit; docker ps -q --no-trunc | while read -r one; do '
            'case $(docker inspect -f "{{.HostConfig.NetworkMode}}" "$one") in '
            '"container:$1"*) docker restart --time 1 "$one" ;; esac; done'
        )
        self._process = _begun(script, container)
        self._container = container

    def wait(self) -> None:
        """Until the container runs again. Raises LabError when it does not."""
        complaint = _complaint_of(self._process, _RESTART_LIMIT_S, self._error)
        if self._process.returncode:
            raise self._error(complaint or f"exit code {self._process.returncode}")

    def _error(self, why: str) -> LabError:
        name = self._container
        return LabError("peer-restart", f"{name} did not come back", why, f"docker start {name}")


class Pause:
    """A container frozen for `for_s` seconds, by a process that thaws it whoever lives until then."""

    what = "ground_pause"

    def __init__(self, container: str, for_s: float) -> None:
        # The sleep must not keep the pipe open that `end` reads, nor outlive its shell. It is killed: a child
        # that was just forked loses a TERM that comes before it has put its shell's traps away.
        script = (
            'trap \'docker unpause "$1"; { kill -KILL "$!"; wait "$!"; } 2>/dev/null\' EXIT; trap exit TERM; '
            'docker pause "$1"; sleep "$2" 2>/dev/null & wait $!'
        )
        self._process = _begun(script, container, f"{for_s:g}")
        self._container, self._for_s = container, for_s

    def begun(self) -> None:
        """Until the container stands still. Raises LabError when it does not."""
        deadline_s = time.monotonic() + _RESTART_LIMIT_S
        command = ["docker", "inspect", "--format", "{{.State.Paused}}", self._container]
        while time.monotonic() < deadline_s and self._process.poll() is None:
            told = subprocess.run(
                command, capture_output=True, text=True, timeout=_RESTART_LIMIT_S, check=False
            )
            if told.stdout.strip() == "true":
                return
            time.sleep(0.05)
        self.end()
        raise self._error("it does not stand still")

    def end(self) -> None:
        """Before its time. Raises LabError when the container does not go on."""
        self._process.terminate()
        self._ended(_RESTART_LIMIT_S)

    def wait(self) -> None:
        """Until the container runs on. Raises LabError when it was not paused, or does not go on."""
        self._ended(self._for_s + _RESTART_LIMIT_S)

    def _ended(self, limit_s: float) -> None:
        if complaint := _complaint_of(self._process, limit_s, self._error):
            raise self._error(complaint)

    def _error(self, why: str) -> LabError:
        name = self._container
        return LabError("pause", f"{name} was not paused, or does not go on", why, f"docker unpause {name}")


def engine_words(command: Sequence[str]) -> list[str]:
    """What the engine's client says, word by word. Raises LabError where it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(
            "no-engine", "the container engine does not answer", str(error), "make lab-status"
        ) from error


def container_of(project: str, role: str) -> str:
    """Id of the endpoint's container. Raises LabError where this lab has none (hardware, or down)."""
    filters = [
        f"label=com.docker.compose.project={project}",
        f"label=com.docker.compose.service={role}",
    ]
    command = ["docker", "ps", "-q", *(word for f in filters for word in ("--filter", f))]
    found = engine_words(command)
    if len(found) != 1:
        raise LabError(
            "no-container",
            f"service {role} of {project} has {len(found)} containers, one is due",
            "peer_kill restarts the endpoint's container",
            "make lab-up",
        )
    return found[0]


class DiskFull:
    """A file that fills the file system of `folder` for `for_s` seconds, whoever lives until then."""

    def __init__(self, folder: Path, for_s: float) -> None:
        _refuse_real_disk(folder)
        self._file = folder / FILLER
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FILL, str(folder / FILLER), str(for_s)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> bool:
        """Give the space back now; False when its time was over. Raises LabError when it stays taken."""
        running = self._process.poll() is None
        if running:
            self._process.terminate()
        try:
            self._process.wait(timeout=_FILLER_ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            raise LabError(
                "disk-full-stays",
                f"{self._file.name} still fills the cell's disk",
                str(error),
                f"remove it: rm {self._file}",
            ) from error
        return running


def _refuse_real_disk(folder: Path) -> None:
    facts = os.statvfs(folder)
    size_bytes = facts.f_blocks * facts.f_frsize
    kind = _file_system_of(folder.resolve())
    if kind != "tmpfs" or size_bytes > DISK_MAX_BYTES:
        raise LabError(
            "disk-full-refused",
            f"{folder} is on {kind} of {size_bytes >> 20} MiB",
            f"disk_full acts on a tmpfs of at most {DISK_MAX_BYTES >> 20} MiB and never on a real disk",
            "mount -t tmpfs -o size=8m tmpfs DIR, then: ./pqlab run … --out DIR",
        )


def _file_system_of(path: Path) -> str:
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, name, *_ = line.split()
        inside = path == Path(mount) or Path(mount) in path.parents
        if inside and len(mount) >= len(best):
            best, kind = mount, name
    return kind
