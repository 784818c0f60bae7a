"""The bench leaves nothing behind, however its driver ends: no container, no interface, no process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import ROOT, run

pytestmark = pytest.mark.e2e

IMAGE = "pqlab/bench-alone:dev"
"""The bench without the peers, whose compilers would take minutes."""
LIMIT_S = 15.0


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def containers() -> str:
    return output("docker", "ps", "-aq", "--filter", "label=pqlab.tool=bench")


def interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def programs() -> set[str]:
    """Processes of the bench, wherever on this machine they run."""
    found = set()
    for path in Path("/proc").iterdir():
        try:
            words = (path / "cmdline").read_bytes().split(b"\0") if path.name.isdigit() else []
        except OSError:  # it ended meanwhile
            continue
        if any(word in (b"pqbench", b"pqbench.end") or word.startswith(b"/opt/peers/") for word in words):
            found.add(path.name)
    return found


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    direct = [int(word) for word in text.split()]
    return direct + [below for child in direct for below in children(child)]


def wait_for(what: str, limit_s: float, condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.2)
    pytest.fail(f"not within {limit_s} s: {what}")


def docker_client(driver: int) -> int:
    clients = [
        pid
        for pid in children(driver)
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"docker\0run\0")
    ]
    assert len(clients) == 1
    return clients[0]


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    done = run("./images/build.sh", "base", "liboqs", "ascon", "tunnel", "bench-alone", timeout_s=900)
    assert done.code == 0, done.text


@pytest.mark.parametrize("victim", ["driver", "docker client"])
def test_a_killed_driver_leaves_nothing(victim: str) -> None:
    if containers() or programs():
        pytest.skip("another bench runs on this machine")
    before = interfaces()
    results = ROOT / "results" / "bench"
    kept = set(results.iterdir()) if results.exists() else set()
    driver = subprocess.Popen(
        [str(ROOT / "bench" / "run"), "tiny"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "BENCH_IMAGE": IMAGE},
    )
    try:
        wait_for("both ends of the tunnel run", 60, lambda: len(programs()) >= 3)
        assert interfaces() == before, "nothing of the bench may show in the machine's own namespace"
        os.kill(driver.pid if victim == "driver" else docker_client(driver.pid), signal.SIGKILL)
        driver.wait(LIMIT_S)  # a zombie would still count as a driver that lives
        wait_for("the container is gone", LIMIT_S, lambda: not containers())
        wait_for("its processes are gone", LIMIT_S, lambda: not programs())
        assert interfaces() == before
    finally:
        if driver.poll() is None:
            driver.kill()
        driver.wait(LIMIT_S)
        for folder in (set(results.iterdir()) if results.exists() else set()) - kept:
            shutil.rmtree(folder)
