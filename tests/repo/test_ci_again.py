"""The second look at a test that failed: it is printed, it can fail, and it is for single tests alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools import ended
from waiting import LIMIT_S, wait_until

ROOT = Path(__file__).resolve().parents[2]

#: Fails when it runs for the first time, passes afterwards.
ONCE = """
from pathlib import Path

def test_once(n=0):
    mark = Path({mark!r})
    seen = mark.exists()
    mark.touch()
    assert seen
"""


def _checked(folder: Path, source: str, *others: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(source)
    done = ended(
        [str(ROOT / ".ci" / "pytest"), "-q", str(folder / "test_it.py"), *others],
        120,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHON": sys.executable, "TMPDIR": str(folder)},
        cwd=folder,
    )
    return done.returncode, done.stdout + done.stderr


def test_what_passes_alone_is_named_and_what_passes_at_once_is_not_run_again(tmp_path: Path) -> None:
    code, text = _checked(tmp_path, ONCE.format(mark=str(tmp_path / "mark")) + "def test_well(): pass\n")
    assert code == 0, text
    assert "1 failed, 1 passed" in text and "again: 1 tests failed at first" in text
    assert text.rstrip().endswith("test_it.py::test_once")


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    code, text = _checked(tmp_path, "def test_no(): assert False\n")
    assert code == 1 and "again: 1 tests failed" in text and text.rstrip().endswith("none")


def test_many_failures_are_no_accident(tmp_path: Path) -> None:
    others = [tmp_path / f"test_other_{n}.py" for n in range(3)]
    for file in others:
        file.write_text("def test_no(): assert False\n")
    code, text = _checked(tmp_path, "def test_no(): assert False\n", *map(str, others))
    assert code == 1 and "4 failed" in text and "again" not in text
    code, text = _checked(tmp_path, "def test_no(): assert False\n", *map(str, others[:2]))
    assert code == 1 and "again: 3 tests failed" in text


def test_a_broken_module_is_not_run_again_into_a_pass(tmp_path: Path) -> None:
    code, text = _checked(tmp_path, "import no_such_module\n")
    assert code not in (0, 1) and "again" not in text


ENDED = """
import time
from pathlib import Path
import pytest
from played import interrupted_by_term

@pytest.fixture
def lab():
    interrupted_by_term()
    Path("up").touch()
    yield
    Path("down").touch()

def test_it(lab):
    time.sleep(60)
"""


def test_what_is_told_to_end_takes_down_what_it_brought_up(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(ENDED)
    child = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    process = subprocess.Popen(command, cwd=tmp_path, env=child, stdout=subprocess.DEVNULL)
    try:
        assert wait_until((tmp_path / "up").exists)
        process.terminate()
        assert process.wait(LIMIT_S) == 2
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "down").exists()
