"""A machine with two checkouts and an engine that is a script: it has containers with the labels that compose
gives them, and notes what it is asked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELD = "0000000000000000: 00000002 00000000 00000000 0002 01 4242 @pqlab-controller/127.0.0.1:{port}\n"
OTHER = "0000000000000000: 00000002 00000000 00010000 0001 01 4343 @/containerd-shim/x\n"
ENGINE = """#!/bin/sh
printf '%s\\n' "$*" >>"$WORLD/asked"
case "$*" in
    *'status=created'*) cat "$WORLD/living" ;;
    'ps -a --filter '*'=pqlab --format {{.Label'*) cat "$WORLD/living" "$WORLD/stopped" ;;
    'ps -aq --filter label=com.docker.compose.project=pqlab') grep -n . "$WORLD/living" | cut -d: -f1 ;;
    'ps -q '*'status=running'*'health=unhealthy') cat "$WORLD/frozen" ;;
    'ps -q '*'health=unhealthy') cat "$WORLD/ill" "$WORLD/frozen" ;;
    'ps -q --filter label=com.docker.compose.project=pqlab') grep -n . "$WORLD/living" | cut -d: -f1 ;;
    'compose '*'config --services'*) printf 'drone\\ngcs\\n' ;;
    'compose '*' down '*) : >"$WORLD/living"; : >"$WORLD/stopped" ;;
    'compose '*' up '*) printf '%s/compose\\n' "$PWD" "$PWD" >"$WORLD/living"; exit "$(cat "$WORLD/up")" ;;
    'inspect -f {{if eq .State.Health.FailingStreak'*) cat "$WORLD/frozen"; : >"$WORLD/frozen" ;;
    inspect*) cat "$WORLD/rows" ;;
    'ps -a '*'{{.Names}} {{.Status}}')
        sed 's/^\\([^|]*\\)|[^|]*|\\([^|]*\\)|.*/pqlab-\\1-1 Up 4 s (\\2)/' "$WORLD/rows" ;;
    logs*) echo "last words of $4" ;;
    version*) echo 1.47 ;;
    info) [ ! -e "$WORLD/denied" ] || { cat "$WORLD/denied" >&2; exit 1; } ;;
esac
exit 0
"""
#: whoever runs these tests: nothing that a script does for root alone, such as installing, is ever tried
NOBODY = """#!/bin/sh
case ${1:-} in -un) echo somebody ;; *) echo 1000 ;; esac
"""


class World:
    """Two checkouts of one machine, and an engine that both talk to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.here = self._checkout("here")
        self.there = self._checkout("Prüfstand B")
        (folder / "bin").mkdir()
        for tool, text in (("docker", ENGINE), ("id", NOBODY)):
            (folder / "bin" / tool).write_text(text)
            (folder / "bin" / tool).chmod(0o755)
        for name in ("living", "stopped", "asked", "ill", "frozen"):
            (folder / name).write_text("")
        (folder / "up").write_text("0")
        self.services()
        (folder / "net").mkdir()
        self.campaign(runs=False)

    def _checkout(self, name: str) -> Path:
        tree = self.folder / name
        (tree / "keys").mkdir(parents=True)
        (tree / "keys/complete").touch()
        shutil.copytree(ROOT / "compose", tree / "compose")
        for script in ("bootstrap.sh", "Makefile"):
            shutil.copy(ROOT / script, tree / script)
        for marker in ("scenarios", "ansible", "evidence"):
            (tree / marker).mkdir()
        return tree

    def lab_of(self, tree: Path, *, stopped: bool = False) -> None:
        """Two containers that `tree` brought up."""
        (self.folder / ("stopped" if stopped else "living")).write_text(f"{tree}/compose\n" * 2)

    def services(self, **others: str) -> None:
        """What each service is: whole, but for those that are named, which are `state|health`."""
        states = {"drone": "running|healthy", "gcs": "running|healthy", **others}
        rows = (f"{name.replace('_', '-')}|{state}|198.18.1.20 \n" for name, state in states.items() if state)
        (self.folder / "rows").write_text("".join(rows))

    def campaign(self, *, runs: bool) -> None:
        (self.folder / "net/unix").write_text(OTHER + (HELD.format(port=48081) if runs else ""))

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        proc_net = str(self.folder / "net")
        return {**os.environ, "PATH": path, "WORLD": str(self.folder), "PQLAB_PROC_NET": proc_net}

    def lab(self, *words: str, tree: Path | None = None) -> subprocess.CompletedProcess[str]:
        """compose/lab.sh of a checkout, ours unless said otherwise."""
        tree = tree or self.here
        command = [tree / "compose/lab.sh", *words]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )

    def changed(self) -> list[str]:
        """What the engine was asked to start, stop or remove."""
        asked = (self.folder / "asked").read_text().splitlines()
        return [line for line in asked if re.search(r"^compose .* (up|down) |^(rm|unpause|image rm) ", line)]
