"""Detectors as containers of the lab: started by their compose profile, frozen and woken by the engine."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Final

from pqbase.documents import Json
from pqevidence.errors import LabError
from pqevidence.paths import project_root
from pqlab.campaign.cgroup import GroupFiles, cpu_ns, group_files, resident_bytes
from pqlab.campaign.command import ended

#: detector → the model it runs: of the trees the ones that won (their `default.json`; a test says so).
#: Its service and its profile are `detector-NAME`.
MODELS: Final = {"xgboost": "xgboost-5w", "tst": "tst", "cascade": "cascade"}
#: an image is built where it is not there yet
_START_LIMIT_S: Final = 1200.0
_ENGINE_LIMIT_S: Final = 30.0
#: its program loads the model's library first, which takes an emulated processor half a minute
_CARD_LIMIT_S: Final = 300.0


class ComposeDetector:
    """One detector. note: told once when it is started, which takes seconds, or minutes for its image."""

    def __init__(self, name: str, project: str, note: Callable[[str], None]) -> None:
        self._name = name
        self._service = f"detector-{name}"
        self._project = project
        self._note = note
        self._container: str | None = None
        self._files: GroupFiles | None = None
        self._frozen = False

    def start(self) -> None:
        """Up and healthy, its image built where there is none."""
        self._note(f"starting detector {self._name}")
        self._script("profile", self._service)
        found = self._containers("running")
        if len(found) != 1:
            raise self._error("it did not come up", f"{len(found)} containers run, one is due")
        self._container = found[0]
        (pid,) = self._docker("inspect", "--format", "{{.State.Pid}}", self._container)
        self._files = group_files(int(pid))
        self._frozen = False

    def freeze(self) -> None:
        """Stopped where it is: it uses no CPU until it is woken."""
        if not self._frozen:
            self._docker("pause", self._need())
            self._frozen = True

    def thaw(self) -> None:
        """Goes on."""
        if self._frozen:
            self._docker("unpause", self._need())
            self._frozen = False

    def forget(self) -> None:
        """Its history is empty from the next window on."""
        self._docker("kill", "--signal", "USR1", self._need())

    def mark(self) -> None:
        """What it sees from now to the end of this cell is not carried into the next."""
        self._docker("kill", "--signal", "USR2", self._need())

    def stop(self) -> None:
        """Gone. One that an earlier, killed controller left frozen is woken first, or it could not end."""
        if left := self._containers(None):
            for container in self._containers("paused"):
                self._docker("unpause", container)
            self._docker("stop", "--time", "2", *left)
            self._docker("rm", "--force", *left)
        self._container, self._files, self._frozen = None, None, False

    def facts(self) -> Json:
        """Image, its content id, and the card of the model in it; the image is made from this tree."""
        self._note(f"looking up the image of detector {self._name}, building it where it is not there")
        image = self._script("image", self._service)
        (image_id,) = self._docker("image", "inspect", "--format", "{{.Id}}", image)
        told = self._docker(
            "run",
            "--rm",
            "--network",
            "none",
            "--label",
            "pqlab.tool=card",
            image,
            "card",
            "--model",
            MODELS[self._name],
            limit_s=_CARD_LIMIT_S,
        )
        try:
            card: Json = json.loads("\n".join(told))
            return {
                "image": image,
                "image_id": image_id,
                "model": card["name"],
                "sha256": card["sha256"],
                "card": card,
            }
        except (ValueError, KeyError) as error:
            raise self._error("its model's card cannot be read", repr(error)) from error

    def usage(self) -> Json:
        """cpu_ns and rss_bytes of its control group, and when that was read."""
        told: Json = {
            "t_ns": time.time_ns(),
            "cpu_ns": None,
            "rss_bytes": None,
            "frozen": self._frozen,
            "reason": None,
        }
        if self._files is None:
            return {**told, "reason": "this host shows no control group of the container"}
        try:
            told["cpu_ns"] = cpu_ns(self._files)
            told["rss_bytes"] = resident_bytes(self._files)
        except (OSError, ValueError) as error:
            told["reason"] = f"the control group cannot be read: {error}"
        return told

    # ------------------------------------------------------------------ engine

    def _need(self) -> str:
        if self._container is None:
            raise self._error("it does not run", "it was never started, or has ended")
        return self._container

    def _containers(self, state: str | None) -> list[str]:
        filters = [
            f"label=com.docker.compose.project={self._project}",
            f"label=com.docker.compose.service={self._service}",
            *([] if state is None else [f"status={state}"]),
        ]
        return self._docker("ps", "-aq", *(word for f in filters for word in ("--filter", f)))

    def _script(self, *arguments: str) -> str:
        """The last line that compose/lab.sh said; raises LabError where it failed."""
        command = [str(project_root() / "compose" / "lab.sh"), *arguments]
        done = self._run(command, _START_LIMIT_S)
        if done.returncode:
            raise self._error("it does not start", " ".join(done.stdout.strip().splitlines()[-3:]))
        return (done.stdout.strip().splitlines() or [""])[-1]

    def _docker(self, *arguments: str, limit_s: float = _ENGINE_LIMIT_S) -> list[str]:
        done = self._run(["docker", *arguments], limit_s)
        if done.returncode:
            raise self._error(
                f"docker {arguments[0]} failed", done.stderr.strip() or f"code {done.returncode}"
            )
        return done.stdout.splitlines()

    def _run(self, command: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
        try:
            return ended(command, limit_s)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._error("the container engine does not answer", str(error)) from error

    def _error(self, what: str, why: str) -> LabError:
        return LabError(
            "detector", f"detector {self._name}: {what}", why, f"./compose/lab.sh profile {self._service}"
        )


def compose_detectors(project: str | None, note: Callable[[str], None]) -> dict[str, ComposeDetector]:
    """By name; {} where the lab's hosts are no containers."""
    if project is None:
        return {}
    return {name: ComposeDetector(name, project, note) for name in MODELS}
