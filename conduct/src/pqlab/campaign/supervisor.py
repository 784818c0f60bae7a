"""Containers of the lab: which of them do not run and why, and one put back before the next cell.

A cell whose container died is lost; the cells after it need not be. What the engine (docker) knows of an end
is told with its error, because "no answer" alone names nobody's fault.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from pqbase.documents import Json, part_of, whole_of
from pqevidence.errors import LabError
from pqevidence.record.raw import ROLES
from pqlab.campaign.command import ended

#: what every cell needs, in the order in which it is put back: the view first, then who sends, then the ends
WATCHED: Final = ("influxdb", "telegraf", "sitl", "mavproxy-air", "mavproxy-gcs", "gcs", "drone")
_LIMIT_S: Final = 30.0
#: how often one looks again after an end that is lost, and the pause before each
_LOOKS_OF_LOST: Final = 10
_BETWEEN_LOOKS_S: Final = 0.2
#: exit status of a program that signal 9 ended
_SIGKILLED: Final = 128 + 9
#: the engine's command line: arguments → standard output. Raises LabError.
Engine = Callable[..., str]


class Amiss(NamedTuple):
    """What is not as it was. told: a sentence each; killed: ends that somebody from outside has killed."""

    told: list[str]
    killed: list[str]


class Supervisor(Protocol):
    """What the campaign asks of whoever knows the containers. `mend`, before a cell: put back what does not
    run, remember all of them as they are then, and return what was done; raises LabError where a container
    cannot be put back. `amiss`: what happened to any of them since; lost: an end does not answer, so that
    something may have."""

    def amiss(self, *, lost: bool = False) -> Amiss: ...

    def mend(self) -> list[str]: ...


class _Nobody:
    """Hosts that are no containers of ours."""

    def amiss(self, *, lost: bool = False) -> Amiss:
        return Amiss([], [])

    def mend(self) -> list[str]:
        return []


NO_SUPERVISOR: Final[Supervisor] = _Nobody()


@dataclass(frozen=True)
class Seen:
    """One container at one moment. status: the engine's word (running, paused, exited, …)."""

    container: str
    status: str
    exit_code: int
    out_of_memory: bool
    started: str
    error: str
    network: str

    @property
    def runs(self) -> bool:
        return self.status == "running"

    @property
    def killed(self) -> bool:
        """By SIGKILL, and not for its own memory: nothing that runs in it does that to itself."""
        return self.status == "exited" and self.exit_code == _SIGKILLED and not self.out_of_memory

    def told(self, service: str) -> str:
        """What happened to it, for a reason."""
        if self.status == "paused":
            return f"container {service} is paused"
        if self.runs:
            return f"container {service} runs"
        if self.out_of_memory:
            return f"container {service} was out of memory and exited with {self.exit_code}"
        if self.status in ("exited", "dead"):
            why = f" ({self.error})" if self.error else ""
            return f"container {service} exited with {self.exit_code}{why}"
        return f"container {service} is {self.status}"


class ComposeSupervisor:
    """The containers of one compose project. note: told once where the engine lets itself not be asked, since
    a lab can do without being looked after; docker, sleep: a test's own, or the real ones."""

    def __init__(
        self,
        project: str,
        note: Callable[[str], None],
        docker: Engine | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._project = project
        self._sleep = sleep
        self._note = note
        self._docker = docker or run_docker
        self._blind = False
        self._before: dict[str, Seen] = {}

    def amiss(self, *, lost: bool = False) -> Amiss:
        """What is not as it was at the last `mend`, of one look. lost: where nothing is, looks go on for two
        seconds or a little more, since a connection ends before the engine knows that its process did."""
        found = self._amiss()
        for _ in range(_LOOKS_OF_LOST if lost else 0):
            if found.told or self._blind:
                break
            self._sleep(_BETWEEN_LOOKS_S)
            found = self._amiss()
        return found

    def _amiss(self) -> Amiss:
        now = self._seen()
        if now is None:
            return Amiss([], [])
        found = []
        for service, before in self._before.items():
            seen = now.get(service)
            if seen is None:
                found.append(f"container {service} was removed")
            elif not seen.runs:
                found.append(seen.told(service))
            elif (seen.container, seen.started) != (before.container, before.started):
                found.append(f"container {service} ended and was started again")
        killed = [role for role in ROLES if role in self._before and role in now and now[role].killed]
        return Amiss(found, killed)

    def mend(self) -> list[str]:
        """Start what has exited, let go on what is paused. Returns a sentence for each of them."""
        now = self._seen()
        if now is None:
            return []
        if gone := sorted(self._before.keys() - now.keys()):
            raise LabError(
                "container-gone",
                f"container {', '.join(gone)} was removed",
                "the lab was changed while the campaign ran",
                "make lab-down, make lab-up",
            )
        done = []
        for service in WATCHED:
            seen = now.get(service)
            if seen is None or seen.runs or seen.status == "restarting":
                continue
            self._docker("unpause" if seen.status == "paused" else "start", seen.container)
            # who lives in its network namespace lives in one that is gone
            for other in sorted(self._guests(seen.container)) if seen.status != "paused" else ():
                self._docker("restart", "--time", "1", other)
            done.append(f"{seen.told(service)}; it was put back")
        self._before = (self._seen() if done else now) or now
        return done

    def _guests(self, container: str) -> set[str]:
        running = self._docker("ps", "-q", "--no-trunc", *self._filters()).split()
        seen = self._inspected(running).values()
        return {one.container for one in seen if one.network == f"container:{container}"}

    def _filters(self) -> list[str]:
        return ["--filter", f"label=com.docker.compose.project={self._project}"]

    def _seen(self) -> dict[str, Seen] | None:
        """By service; None where the engine cannot be asked."""
        try:
            ids = self._docker("ps", "-aq", "--no-trunc", *self._filters()).split()
            return {name: one for name, one in self._inspected(ids).items() if name in WATCHED}
        except LabError as error:
            if not self._blind:
                self._note(f"nobody looks after the containers: {error.what}: {error.why}")
            self._blind = True
            return None

    def _inspected(self, ids: list[str]) -> dict[str, Seen]:
        if not ids:
            return {}
        rows: list[Json] = json.loads(self._docker("inspect", *ids))
        return {_service_of(row): _seen_of(row) for row in rows}


def _service_of(row: Json) -> str:
    return str(part_of(part_of(row, "Config"), "Labels")["com.docker.compose.service"])


def _seen_of(row: Json) -> Seen:
    state = part_of(row, "State")
    return Seen(
        container=str(row["Id"]),
        status=str(state["Status"]),
        exit_code=whole_of(state, "ExitCode", 0),
        out_of_memory=bool(state.get("OOMKilled")),
        started=str(state.get("StartedAt")),
        error=str(state.get("Error") or ""),
        network=str(part_of(row, "HostConfig", {}).get("NetworkMode") or ""),
    )


def run_docker(*arguments: str) -> str:
    """The engine's command line. Raises LabError where it fails or does not answer."""
    try:
        done = ended(["docker", *arguments], _LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(
            "no-engine", "the container engine does not answer", str(error), "make lab-status"
        ) from error
    if done.returncode:
        raise LabError(
            "engine",
            f"docker {arguments[0]} failed",
            done.stderr.strip() or f"code {done.returncode}",
            "make lab-status",
        )
    return done.stdout


def supervisor_of(project: str | None, note: Callable[[str], None]) -> Supervisor:
    """Of this lab; one that knows nothing where its hosts are no containers."""
    return NO_SUPERVISOR if project is None else ComposeSupervisor(project, note)
