"""A playbook as a user runs it: `.venv-ansible`, from ansible/, and what it changed and said.

Changes are read from Ansible's own JSON output, never from its text.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import ended

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = ROOT / "ansible"


def interrupted_by_term() -> None:
    """A test run that is told to end (.ci/whole) takes down what its fixtures brought up, as after Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@dataclass(frozen=True)
class Played:
    """Outcome of one ansible-playbook: exit code, results by task, wall seconds."""

    code: int
    rows: list[tuple[str, str, dict[str, Any]]]
    text: str
    wall_s: float

    @property
    def changed(self) -> list[str]:
        """Names of the tasks that changed something, with their host."""
        return [f"{host}: {task}" for host, task, result in self.rows if result.get("changed")]

    def said(self, task: str) -> str:
        """Messages of the tasks of this name."""
        return "\n".join(str(result.get("msg", "")) for _, name, result in self.rows if name == task)

    @property
    def failures(self) -> str:
        bad = [result for _, _, result in self.rows if result.get("failed") or result.get("unreachable")]
        return "\n".join(str(result.get("msg", result)) for result in bad)


def environment() -> dict[str, str]:
    """What a user's shell would have, without make's own, and with output that can be read."""
    not_theirs = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ANSIBLE_CONFIG")
    kept = {name: value for name, value in os.environ.items() if name not in not_theirs}
    return {**kept, "PQLAB_YES": "1", "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_NOCOLOR": "1"}


def command(playbook: str, *words: str) -> list[str]:
    return [str(ROOT / ".venv-ansible/bin/ansible-playbook"), playbook, *words]


def begun(playbook: str, *words: str) -> subprocess.Popen[str]:
    """The same, which goes on beside the test, in a session of its own."""
    return subprocess.Popen(
        command(playbook, *words),
        cwd=ANSIBLE,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def play(playbook: str, *words: str, timeout_s: float = 900) -> Played:
    """Run a playbook to its end."""
    started = time.monotonic()
    done = ended(
        command(playbook, *words), timeout_s, cwd=ANSIBLE, env=environment(), stdin=subprocess.DEVNULL
    )
    return read(done.returncode, done.stdout, done.stderr, time.monotonic() - started)


def read(code: int, out: str, err: str, wall_s: float) -> Played:
    """What ansible-playbook printed as rows of host, task and result; text that is no JSON gives no rows."""
    rows: list[tuple[str, str, dict[str, Any]]] = []
    start = out.find('{\n    "custom_stats"')
    if start >= 0:
        for one in json.JSONDecoder().raw_decode(out[start:])[0]["plays"]:
            for task in one["tasks"]:
                for host, result in task["hosts"].items():
                    rows.append((host, task["task"]["name"].rpartition(" : ")[2], result))
    return Played(code, rows, out + err, wall_s)
