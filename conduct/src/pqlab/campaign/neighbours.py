"""What everybody on the controller's machine used of its processors, and what of it was the lab: two readings
a window, so that what is left belongs to neighbours.

Accounts are those of control groups: exact and by core under version 1, all cores together under version 2.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pqbase.documents import Json
from pqlab.campaign.cgroup import ROOT, GroupFiles, cpu_ns, group_files, throttled_ms
from pqlab.campaign.observers import ENDS, ENGINE_ERRORS, containers

NO_CONTAINERS: Final = (
    "the hosts are no containers of this machine: nobody tells the lab's programs from others"
)
#: of /proc/stat's lines by core: user, nice, system; the kernel's own work for packets is nobody's program
_TASKS: Final = (0, 1, 2)
_STEAL: Final = 7
_TICK_MS: Final = 10


class Neighbours(Protocol):
    """Reads both accounts."""

    def reading(self) -> Json:
        """So far, ms: `used_ms` by core, `lab_ms` by core (null where only `lab_total_ms` is known),
        `steal_ms`, `controller_ms`; `cores_of` and `throttled_ms` of each end. {"reason"} where nobody can
        tell the lab from others, {} where nobody asks."""
        ...


class _Nobody:
    def reading(self) -> Json:
        return {}


class _Apart:
    def reading(self) -> Json:
        return {"reason": NO_CONTAINERS}


NO_NEIGHBOURS: Final[Neighbours] = _Nobody()


@dataclass
class ComposeNeighbours:
    """Of the lab's containers on this machine. proc, root: the kernel's folders, for tests; ask: names the
    containers and their first processes."""

    project: str
    proc: Path = Path("/proc")
    root: Path = ROOT
    ask: Callable[[str], list[tuple[str, int]]] = containers
    _groups: dict[str, tuple[int, GroupFiles | None]] = field(default_factory=dict)
    _cores_of: dict[str, list[int]] = field(default_factory=dict)
    _reason: str | None = None
    _beside: frozenset[Path] = frozenset()
    #: (name, first process) → what was read last of it: ns in all, ns by core
    _seen: dict[tuple[str, int], tuple[int, list[int] | None]] = field(default_factory=dict)

    def reading(self) -> Json:
        """As `Neighbours.reading`. Of a container that ended what was last read stays: its account goes with
        it, and the lab's must not shrink. What it used after that reading is then a neighbour's; who ends one
        on purpose reads before."""
        self._look()
        silent = [name for name, (_, files) in self._groups.items() if files is None]
        if self._reason is not None or silent:
            return {"reason": self._reason or f"this host shows no control group of {', '.join(silent)}"}
        files = {name: files for name, (_, files) in self._groups.items() if files is not None}
        try:
            for name, each in files.items():
                self._seen[name, self._groups[name][0]] = (cpu_ns(each), _by_core_ns(each))
            by_core = [row for _, row in self._seen.values()]
            used_ns = _by_core_ns(GroupFiles(self.root / "cpuacct" / "cpuacct.usage", None, 1))
            lab_ms = None
            if used_ns is not None and all(row is not None for row in by_core):
                lab_ms = [sum(row[core] for row in by_core if row) / 1e6 for core in range(len(used_ns))]
            ticks = self._ticks()
            used_ms = ticks["tasks"] if used_ns is None or lab_ms is None else [ns / 1e6 for ns in used_ns]
            return {
                "used_ms": used_ms,
                "lab_ms": lab_ms,
                "steal_ms": ticks["steal"],
                "lab_total_ms": sum(total_ns for total_ns, _ in self._seen.values()) / 1e6,
                "controller_ms": _own_ms(),
                "cores_of": self._cores_of,
                "throttled_ms": {name: throttled_ms(files[name]) for name in ENDS if name in files},
            }
        except (OSError, ValueError) as error:
            self._groups = {}
            return {"reason": f"a control group of the lab cannot be read: {error}"}

    def _look(self) -> None:
        """Ask the engine once, again when a container is another one, and when one more stands beside them:
        router and attacker are started before the first cell that asks for them."""
        pids = [pid for pid, _ in self._groups.values()]
        there = all((self.proc / str(pid)).exists() for pid in pids)
        if pids and there and self._groups_beside() == self._beside:
            return
        self._groups, self._reason = {}, None
        try:
            found = self.ask(self.project)
        except ENGINE_ERRORS as error:
            self._reason = f"the container engine did not name the containers: {error}"
            return
        self._groups = {name: (pid, group_files(pid, self.proc, self.root)) for name, pid in found}
        self._cores_of = {name: allowed_cores(pid, self.proc) for name, pid in found if name in ENDS}
        self._beside = self._groups_beside()
        if not found:
            self._reason = f"no container of {self.project} runs on this machine"

    def _groups_beside(self) -> frozenset[Path]:
        """Every control group in the folders in which those of the lab's containers lie."""
        folders = {files.cpu.parent.parent for _, files in self._groups.values() if files is not None}
        return frozenset(path for folder in folders for path in folder.iterdir() if path.is_dir())

    def _ticks(self) -> Json:
        rows = [line.split() for line in (self.proc / "stat").read_text(encoding="ascii").splitlines()]
        cores = [
            [int(word) for word in row[1:]] for row in rows if row and row[0][:3] == "cpu" and row[0] != "cpu"
        ]
        return {
            "tasks": [_TICK_MS * sum(core[i] for i in _TASKS) for core in cores],
            "steal": _TICK_MS * sum(core[_STEAL] for core in cores),
        }


def allowed_cores(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """Cores that a process may run on (Cpus_allowed_list of proc_pid_status(5)); [] where it is gone."""
    try:
        lines = (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    told = next((line.partition(":")[2] for line in lines if line.startswith("Cpus_allowed_list:")), "")
    cores: list[int] = []
    for part in filter(None, told.strip().split(",")):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return cores


def _by_core_ns(files: GroupFiles) -> list[int] | None:
    """CPU time by core; None under version 2, which keeps no such account, and where it is not there."""
    path = files.cpu.with_name("cpuacct.usage_percpu")
    return [int(word) for word in path.read_text(encoding="ascii").split()] if path.is_file() else None


def _own_ms() -> float:
    """This process and what it ran and awaited (the engine's client)."""
    ran = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (time.process_time() + ran.ru_utime + ran.ru_stime)


def compose_neighbours(project: str | None) -> Neighbours:
    """Of that project; on hosts that are no containers the reading says why there is none."""
    return _Apart() if project is None else ComposeNeighbours(project)
