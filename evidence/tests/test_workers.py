"""Workers of Dask give what this process gives, byte for byte: one, two, four of them, and with one killed.

Every process that is killed here was started here. The studies are the shipped ones, short.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pqbase.tasks import Here, Ingredients, Task, carry_out
from pqbase.workers import Where, WorkersError, runner_of
from pqevidence.analysis import bootstrap, coverage, coverage_hosts
from waiting import LIMIT_S, wait_for

ROOT = Path(__file__).resolve().parents[2]
#: tasks of the tests' own: one holds until it is killed, or until a file is there
OWN = """
import os, time
from pathlib import Path

def held(folder, name):
    mark = Path(folder) / name
    if not mark.exists():
        mark.with_suffix(".half").write_text(str(os.getpid()))
        mark.with_suffix(".half").rename(mark)
        time.sleep(600)
    return name.encode()

def gated(folder, name):
    while not (Path(folder) / "go").exists() and name != "first":
        time.sleep(0.05)
    return name.encode()
"""
MADE_OF = Ingredients(("pqbase", "owntasks"))


def silent(_text: str) -> None:
    return


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package `owntasks`, which workers find as this process does."""
    (tmp_path / "owntasks").mkdir()
    (tmp_path / "owntasks" / "__init__.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def short(plan: Callable[[int], list[str | Task]], functions: tuple[str, ...]) -> list[str | Task]:
    """The plan's frame and the first line of each of these tables."""
    lines = plan(4)
    chosen = [
        next(one for one in lines if isinstance(one, Task) and one.inputs[1] == name) for name in functions
    ]
    return [lines[0], *chosen, lines[-1]]


PLAN = [
    *short(coverage.plan_of, ("coverage_row", "false_row", "family_row", "level_row")),
    *short(coverage_hosts.plan_of, ("coverage_row", "twins_row")),
]


def made(where: Where | None, keep: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The tables, and the digest that is told of them."""
    text = coverage.tables(PLAN, silent, where, keep)
    return text, capsys.readouterr().err.split()[-1]


@pytest.fixture(scope="module")
def here() -> list[bytes]:
    asked = [one for one in PLAN if isinstance(one, Task)]
    return list(carry_out(asked, coverage.MADE_OF, Here(), silent))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_study_is_the_same_by_any_number_of_workers(
    workers: int, here: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = bootstrap.studentised
    alone, digest = made(None, tmp_path / "keep", capsys)
    assert bootstrap.studentised is before, "the product draws as it did"
    assert made(Where(workers=workers), tmp_path / "keep", capsys) == (alone, digest)
    assert [row.encode() for row in alone.splitlines() if row.startswith("|")] == here
    assert not (tmp_path / "keep").exists()


def test_a_study_is_the_same_with_one_worker_killed(
    here: list[bytes], own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is at work, in the middle: its task is done again by another."""
    folder = own / "marks"
    folder.mkdir()
    asked = [one for one in PLAN if isinstance(one, Task)]
    mixed = [*asked[:2], Task("owntasks:held", (str(folder), "held"), "held"), *asked[2:]]
    whole = Ingredients((*coverage.MADE_OF.packages, "owntasks"), coverage.MADE_OF.libraries)
    killed: list[int] = []

    def kill() -> None:
        wait_for(lambda: (folder / "held").exists())
        pid = int((folder / "held").read_text())
        assert pid in {child.pid for child in psutil.Process().children(recursive=True)}
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    with runner_of(Where(workers=2), silent) as runner:
        got = list(carry_out(mixed, whole, runner, silent))
    killer.join(LIMIT_S)
    assert killed and killed[0] != os.getpid()
    assert got == [*here[:2], b"held", *here[2:]]


def test_a_command_says_what_was_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert coverage.main(["--workers", "0"]) == 2
    assert coverage_hosts.main(["--scheduler", "nowhere"]) == 2
    assert capsys.readouterr().err.count("next: ") == 2


# ---------------------------------------------------------------------- a scheduler that is there already


class Rack:
    """A scheduler on loopback, and workers, each of the tree that it is given."""

    def __init__(self, folder: Path, held: contextlib.ExitStack) -> None:
        self._folder, self._held = folder, held
        self._file = folder / "scheduler.json"

    def scheduler(self) -> subprocess.Popen[bytes]:
        words = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        started = self._start([*words, "--scheduler-file", str(self._file)], [])
        wait_for(lambda: self._file.exists() and self._file.read_text().endswith("}"))
        return started

    @property
    def address(self) -> str:
        found: str = json.loads(self._file.read_text())["address"]
        return found

    def worker(self, name: str, *first: Path) -> subprocess.Popen[bytes]:
        """first: folders of sources before those of the tree."""
        words = ["worker", self.address, "--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        return self._start([*words, "--host", "127.0.0.1"], list(first))

    def _start(self, words: list[str], first: list[Path]) -> subprocess.Popen[bytes]:
        path = [*first, self._folder, *ROOT.glob("*/src")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
        log = self._held.enter_context((self._folder / f"{words[0]}.log").open("ab"))
        started = subprocess.Popen(
            [sys.executable, "-m", "dask", *words], cwd=self._folder, env=env, stdout=log, stderr=log
        )
        self._held.callback(started.wait)
        self._held.callback(started.kill)
        return started


@pytest.fixture
def rack(own: Path) -> Iterator[Rack]:
    with contextlib.ExitStack() as held:
        yield Rack(own, held)


def gated(own: Path, *names: str) -> list[Task]:
    return [Task("owntasks:gated", (str(own), name), name) for name in names]


def test_a_scheduler_that_dies_loses_nothing(rack: Rack, own: Path) -> None:
    scheduler = rack.scheduler()
    rack.worker("good")
    asked = gated(own, "first", "second", "third")
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        scheduler.kill()

    with (
        pytest.raises(WorkersError) as lost,
        runner_of(Where(scheduler=rack.address), silent) as runner,
    ):
        list(carry_out(asked, MADE_OF, runner, say, own / "keep"))
    assert (lost.value.code, lost.value.exit_code) == ("scheduler-lost", 4)
    assert rack.address in lost.value.what and told == ["[1/3] first"]
    (own / "go").touch()
    told.clear()
    assert list(carry_out(asked, MADE_OF, Here(), told.append, own / "keep")) == [
        b"first",
        b"second",
        b"third",
    ]
    assert told[0] == "1 of 3 tasks were done before"


def test_a_worker_of_another_build_is_refused_by_name(rack: Rack, own: Path) -> None:
    rack.scheduler()
    stranger = own / "other"
    shutil.copytree(ROOT / "base" / "src" / "pqbase", stranger / "pqbase")
    with (stranger / "pqbase" / "text.py").open("a") as sources:
        sources.write("# another build\n")
    first = rack.worker("good")
    (own / "go").touch()
    asked = gated(own, "first", "second")
    with runner_of(Where(scheduler=rack.address), silent) as runner:
        assert list(carry_out(asked, MADE_OF, runner, silent)) == [b"first", b"second"]
        # it comes late, and is the only one
        first.kill()
        rack.worker("stranger", stranger)
        with pytest.raises(WorkersError, match="worker stranger at tcp://127") as told:
            list(carry_out(gated(own, "third"), MADE_OF, runner, silent))
    assert told.value.code == "other-build" and "sources of pqbase" in told.value.why
    with (
        pytest.raises(WorkersError, match="worker stranger at tcp://127"),
        runner_of(Where(scheduler=rack.address), silent) as runner,
    ):
        list(carry_out(asked, MADE_OF, runner, silent))


def test_nobody_there_is_told(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pqbase.workers.CONNECT_S", 1)
    monkeypatch.setattr("pqbase.workers.FIRST_WORKER_S", 1)
    with (
        pytest.raises(WorkersError, match="no scheduler answers at tcp://127") as told,
        runner_of(Where(scheduler="tcp://127.0.0.1:1"), silent),
    ):
        raise AssertionError("nobody is there")
    assert (told.value.code, told.value.exit_code) == ("no-scheduler", 4)
    rack.scheduler()
    with (
        pytest.raises(WorkersError, match="has no worker") as told,
        runner_of(Where(scheduler=rack.address), silent),
    ):
        raise AssertionError("nobody works there")
    assert rack.address in told.value.hint
