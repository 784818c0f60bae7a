"""images/windows/station: words reach wine whole, and what ends the container arrives as Ctrl-C."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STATION = Path(__file__).resolve().parents[2] / "images" / "windows" / "station"

#: says what it was called with, then ends by the second word: a number, or after so many interrupts with 7
FAKE_WINE = """
import os, signal, subprocess, sys, time
heard = []
signal.signal(signal.SIGINT, lambda *_: (heard.append(1), print("Ctrl-C", flush=True)))
print(os.environ["WINEPREFIX"], *sys.argv[1:], sep="|", flush=True)
if sys.argv[2] == "hear":
    while len(heard) < int(sys.argv[3]):
        time.sleep(0.01)  # a pause() could begin just after the signal, and last for ever
    sys.exit(7)
if sys.argv[2] == "served":  # by a server that dies after so many seconds; what waits for it waits for ever
    subprocess.run([sys.argv[4], sys.argv[3]])
    time.sleep(600)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A prefix of this user, and a `wine` of ours first on the path."""
    prefix = tmp_path / "prefix"
    (prefix / "drive_c").mkdir(parents=True)
    for name in ("system.reg", "user.reg", ".update-timestamp"):
        (prefix / name).touch()
    (tmp_path / "fake.py").write_text(FAKE_WINE)
    wine = tmp_path / "bin" / "wine"
    wine.parent.mkdir()
    wine.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/fake.py" "$@"\n')
    wine.chmod(0o755)
    return {**os.environ, "PATH": f"{wine.parent}:{os.environ['PATH']}", "WINEPREFIX": str(prefix)}


def start(environment: dict[str, str], *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["sh", str(STATION), *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_words_arrive_whole_and_the_status_comes_back(environment: dict[str, str]) -> None:
    program = r"C:\Program Files\a b.exe"
    run = start(environment, program, "5", 'x "y"', "")
    out, _ = run.communicate(timeout=60)
    assert out.rstrip("\n").split("|") == [environment["WINEPREFIX"], program, "5", 'x "y"', ""]
    assert run.returncode == 5


def test_term_is_ctrl_c_and_its_own_end_is_waited_for(environment: dict[str, str]) -> None:
    run = start(environment, "x", "hear", "1")
    assert run.stdout is not None
    run.stdout.readline()
    run.send_signal(signal.SIGTERM)
    assert run.stdout.readline() == "Ctrl-C\n"
    assert run.wait(timeout=60) == 7
    run.communicate()


def test_a_second_term_kills(environment: dict[str, str]) -> None:
    run = start(environment, "x", "hear", "2")
    assert run.stdout is not None
    run.stdout.readline()
    run.send_signal(signal.SIGTERM)
    run.stdout.readline()
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=60) == 128 + signal.SIGKILL
    run.communicate()


def test_it_does_not_outlive_wineserver(environment: dict[str, str], tmp_path: Path) -> None:
    server = tmp_path / "wineserver64"
    shutil.copy(shutil.which("sleep") or "", server)
    run = start(environment, r"C:\venv\x.exe", "served", "3", str(server))
    _, err = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGKILL
    assert err.startswith("error: wineserver has died") and r"C:\venv\x.exe was killed" in err.splitlines()[0]


def test_nothing_to_run_is_one_sentence(environment: dict[str, str]) -> None:
    run = start(environment)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 2
    assert err.startswith("error: station has nothing to run") and err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root's are the folders of root")
def test_a_prefix_of_another_user_is_shared_but_for_the_registry(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """The folder of another user here: /usr, whose registry is not there, so the copy must fail loudly."""
    run = start({**environment, "WINEPREFIX": "/usr"}, "x", "0")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 2 and "/usr/" in err
