"""What each container of the lab, both tunnels' processes and both samplers have used, read from outside.

Cells in which an observer stands still cannot be measured by that observer. The controller reads the kernel's
own accounts instead, on its machine, which is that of the containers: control groups and /proc, two readings
a cell, nothing in between.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pqbase.documents import Json
from pqlab.campaign.cgroup import GroupFiles, cpu_ns, group_files
from pqlab.campaign.command import ended

OBSERVERS_SCHEMA: Final = "pqlab/observers/v1"
#: both ends; each container holds the tunnel's process and, as its child, the sampler
ENDS: Final = ("drone", "gcs")
_ENGINE_LIMIT_S: Final = 30.0
#: what `containers` raises
ENGINE_ERRORS: Final = (OSError, ValueError, subprocess.SubprocessError)
#: fields of /proc/stat's first line: user, nice, system, idle, iowait, irq, softirq, steal
_BUSY: Final = (0, 1, 2, 5, 6)
_STEAL: Final = 7
_TICK_MS: Final = 10


class Observers(Protocol):
    """Reads everybody's use of the processor."""

    def usage(self) -> Json:
        """Everything used so far; {} where nobody keeps the account. What cannot be read is null with a
        reason."""
        ...


class _Nobody:
    def usage(self) -> Json:
        return {}


NO_OBSERVERS: Final[Observers] = _Nobody()


@dataclass
class ComposeObservers:
    """Of the lab's containers on this machine. proc: the kernel's process folder, for tests."""

    project: str
    proc: Path = Path("/proc")
    _files: dict[str, tuple[int, GroupFiles | None]] = field(default_factory=dict)
    _reason: str | None = None

    def usage(self) -> Json:
        """cpu_ns of every service's control group, of both tunnels' and samplers' processes; busy and steal
        time of all cores together."""
        services = self._services()
        used: dict[str, Json] = {}
        ends: dict[str, Json] = {}
        told: Json = {
            "services": used,
            "t_ns": time.time_ns(),
            "machine": self._machine(),
            "reason": self._reason,
        }
        for name, (pid, files) in services.items():
            used[name] = _group_use(files)
            if name in ENDS:
                ends[name] = self._processes(pid)
        return {**told, "ends": ends}

    def _services(self) -> dict[str, tuple[int, GroupFiles | None]]:
        """Asked of the engine once, and again when a container is another one: asking costs more."""
        if not self._files or any(not (self.proc / str(pid)).exists() for pid, _ in self._files.values()):
            try:
                found = containers(self.project)
            except ENGINE_ERRORS as error:
                self._files, self._reason = {}, f"the container engine did not name the containers: {error}"
            else:
                self._files = {name: (pid, group_files(pid, self.proc)) for name, pid in found}
                self._reason = None if found else f"no container of {self.project} runs on this machine"
        return self._files

    def _machine(self) -> Json:
        words = (self.proc / "stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
        ticks = [int(word) for word in words]
        return {"busy_ms": _TICK_MS * sum(ticks[i] for i in _BUSY), "steal_ms": _TICK_MS * ticks[_STEAL]}

    def _processes(self, init: int) -> Json:
        """The tunnel's process is the child of the container's init, its sampler the child of that one."""
        tunnel = [pid for pid in self._children(init) if "pqtunnel" in self._command(pid)]
        sampler = [
            pid for parent in tunnel for pid in self._children(parent) if "pqtelemetry" in self._command(pid)
        ]
        return {
            "tunnel_cpu_ns": self._running_ns(tunnel[0]) if len(tunnel) == 1 else None,
            "sampler_cpu_ns": self._running_ns(sampler[0]) if len(sampler) == 1 else None,
        }

    def _children(self, pid: int) -> list[int]:
        try:
            text = (self.proc / str(pid) / "task" / str(pid) / "children").read_text(encoding="ascii")
            more = [path.name for path in (self.proc / str(pid) / "task").iterdir() if path.name != str(pid)]
            texts = [text, *((self.proc / str(pid) / "task" / t / "children").read_text() for t in more)]
        except OSError:
            return []
        return [int(word) for each in texts for word in each.split()]

    def _command(self, pid: int) -> str:
        try:
            return (self.proc / str(pid) / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return ""

    def _running_ns(self, pid: int) -> int | None:
        """Time on a processor of all its living threads; None where the kernel keeps no such account."""
        try:
            tasks = list((self.proc / str(pid) / "task").iterdir())
            return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)
        except (OSError, ValueError, IndexError):
            return None


def _group_use(files: GroupFiles | None) -> Json:
    if files is None:
        return {"cpu_ns": None, "reason": "this host shows no control group of the container"}
    try:
        return {"cpu_ns": cpu_ns(files), "reason": None}
    except (OSError, ValueError) as error:
        return {"cpu_ns": None, "reason": f"the control group cannot be read: {error}"}


def containers(project: str) -> list[tuple[str, int]]:
    """(service, first process) of every container of the lab. Raises what the engine's client raises."""
    label = "com.docker.compose.service"
    ids = _docker("ps", "-q", "--filter", f"label=com.docker.compose.project={project}")
    form = '{{index .Config.Labels "' + label + '"}} {{.State.Pid}}'
    rows = [row.split() for row in _docker("inspect", "--format", form, *ids)] if ids else []
    return sorted((row[0], int(row[1])) for row in rows if len(row) == 2)


def _docker(*arguments: str) -> list[str]:
    done = ended(["docker", *arguments], _ENGINE_LIMIT_S)
    done.check_returncode()
    return done.stdout.splitlines()


def compose_observers(project: str | None) -> Observers:
    """Of that project; nobody where the lab's hosts are no containers."""
    return NO_OBSERVERS if project is None else ComposeObservers(project)
