"""Playbooks as a user runs them: `.venv-ansible`, from ansible/, against containers of this machine.

A host to provision is a container of image pqlab/host, with systemd as its first process.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from busy import BUSY_OK
from played import ANSIBLE, ROOT, environment, interrupted_by_term

HOST = "pqlab-host"
ADDRESS = "198.18.9.2"
KEY = ROOT / ".state" / "host" / "id_ed25519"
LAB = ("-i", "inventories/lab.ini")
ONE_HOST = ("-i", "inventories/host.ini")
#: Ansible works on the machine that is measured: wait a little for quiet, then go on and have it said
CALM = ("-e", json.dumps({"run_scenario_options": BUSY_OK}))


def run(
    *argv: str, timeout_s: float = 300, check: bool = True, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """One command, at the root of the tree unless told otherwise."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert not check or done.returncode == 0, f"{' '.join(argv)}: {(done.stdout + done.stderr)[-3000:]}"
    return done


def campaign() -> dict[str, Any]:
    """What the campaign that a playbook began says of itself."""
    script = str(ANSIBLE / "roles/campaign/files/campaign.py")
    found: dict[str, Any] = json.loads(run("python3", script, "state", ".state/campaign").stdout)
    return found


@pytest.fixture(scope="session", autouse=True)
def ansible() -> None:
    """The controller's own Ansible."""
    interrupted_by_term()
    run("./bootstrap.sh", "ansible-venv", timeout_s=600)


@pytest.fixture(scope="session")
def lab(ansible: None) -> Iterator[None]:
    """The compose lab, up by whoever needs it first, and down at the end."""
    run("make", "lab-up", timeout_s=1200)
    try:
        yield
    finally:
        run("make", "lab-down", timeout_s=180)


def _cgroup() -> tuple[Path, str]:
    """A control group of the host's own (version 2), and where the container sees it.

    A kernel may have both versions (then 2 is under `unified`); systemd of trixie runs on version 2 alone.
    """
    root = Path("/sys/fs/cgroup")
    unified = root / "unified"
    return (unified if unified.is_dir() else root) / HOST, "/sys/fs/cgroup"


class Host:
    """A container that is a machine: the flags are what systemd needs to be its first process."""

    def __init__(self, *options: str) -> None:
        self.close()
        group, seen = _cgroup()
        group.mkdir(exist_ok=True)
        KEY.parent.mkdir(parents=True, exist_ok=True)
        (KEY.parent / "known_hosts").unlink(missing_ok=True)
        if not KEY.exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", HOST, "-f", str(KEY))
        run("docker", "network", "create", "--subnet", "198.18.9.0/24", HOST)
        run(
            "docker",
            "run",
            "-d",
            "--name",
            HOST,
            "--hostname",
            HOST,
            "--label",
            "pqlab.test=host",
            "--tmpfs",
            "/run",
            "--tmpfs",
            "/run/lock",
            "--tmpfs",
            "/tmp:exec",
            "--network",
            HOST,
            "--ip",
            ADDRESS,
            "-v",
            f"{group}:{seen}:rw",
            "--cap-add",
            "SYS_ADMIN",
            "--cap-add",
            "NET_ADMIN",
            "--security-opt",
            "apparmor=unconfined",
            *options,
            "pqlab/host:dev",
        )
        deadline = time.monotonic() + 60
        while self.sh("systemctl is-system-running", check=False).strip() not in ("running", "degraded"):
            assert time.monotonic() < deadline, run("docker", "logs", HOST, check=False).stdout[-2000:]
            time.sleep(0.3)
        public = KEY.with_suffix(".pub").read_text().strip()
        self.sh(
            "ssh-keygen -A >/dev/null && install -d -o pi -g pi -m 700 ~pi/.ssh"
            f" && echo '{public}' >~pi/.ssh/authorized_keys && chown pi: ~pi/.ssh/authorized_keys"
            " && systemctl start ssh"
        )

    def sh(self, script: str, *, check: bool = True) -> str:
        return run("docker", "exec", HOST, "sh", "-c", script, check=check).stdout

    def close(self) -> None:
        run("docker", "rm", "-f", HOST, check=False)
        run("docker", "network", "rm", HOST, check=False)
        group, _ = _cgroup()
        for folder in sorted(group.rglob("*/"), reverse=True):
            folder.rmdir()
        if group.is_dir():
            group.rmdir()


@pytest.fixture(scope="session")
def artefacts(ansible: None) -> None:
    """Image of the host, keys, and the archives of this machine's platform."""
    images = ("base", "liboqs", "ascon", "tunnel", "sitl", "host", "detector-xgboost")
    run("./images/build.sh", *images, timeout_s=900)
    if not (ROOT / "keys/complete").exists():
        run("./pqtunnel", "keys", timeout_s=120)
    run("./images/export", "tunnel", "sitl", "detector-xgboost", timeout_s=300)
