"""A simulated campaign on several machines: the same bytes here and by workers, merged in order."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from rack_kit import SIM, SUITES, TEXT

from pqbase.workers import INSTALL
from pqevidence.paths import project_root
from pqevidence.verify import verify_bundle
from pqlab.cli.main import main
from pqlab.sim import shares
from pqlab.sim.same import differences

LAB = ["--inventory", str(project_root() / "ansible" / "inventories" / "lab.ini")]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("scenario") / "rack.yml"
    file.write_text(TEXT.format(seed=5, suites=SUITES[0], repetitions=3), encoding="utf-8")
    return str(file)


def run(scenario: str, out: Path, *words: str) -> int:
    return main(["run", scenario, *SIM, "--out", str(out), *words])


def digests(results: Path) -> dict[str, str]:
    """Every file of a results folder."""
    return {
        path.relative_to(results).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(results.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def alone(scenario: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three machines, in this process."""
    out = tmp_path_factory.mktemp("alone")
    assert run(scenario, out, "--host-seed", "1-3") == 0
    return out


def test_shares_are_of_every_machine_and_merged(
    alone: Path, capsys: pytest.CaptureFixture[str], scenario: str
) -> None:
    bundles = sorted(path for path in alone.iterdir())
    merges = [path for path in bundles if (path / "data" / "parts").is_dir()]
    assert len(bundles) == 4 and len(merges) == 1
    plans = [json.loads((path / "data/plan.json").read_text()) for path in bundles if path not in merges]
    assert {(one["pair"], one["share"]["number"], one["share"]["of"]) for one in plans} == {
        ("sim-1", 1, 3),
        ("sim-2", 2, 3),
        ("sim-3", 3, 3),
    }
    assert len({one["campaign"] for one in plans}) == 1
    assert not [r for r in verify_bundle(merges[0]) if r.status == "fail"]
    run_json = json.loads((next(p for p in bundles if p not in merges) / "data/run.json").read_text())
    command = run_json["command"]
    assert command[:3] == ["pqlab", "run", "rack.yml"] and command[-6] == "--share"
    assert not {"--out", "--workers"} & set(command) and str(project_root()) not in " ".join(command)


def test_workers_and_a_killed_one_give_the_same_bytes(
    scenario: str,
    alone: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that is at work with a share is killed; all of a results folder is compared."""
    killed: list[int] = []
    ended = threading.Event()
    work = tmp_path_factory.mktemp("work")
    monkeypatch.setenv("TMPDIR", str(work))

    def kill() -> None:
        while not ended.wait(0.02):
            # a share is begun where its first cell is; who has worked most has begun it
            if not any(work.glob("pqlab-sim-*/results/**/events.ndjson")):
                continue
            workers = [
                (child.cpu_times().user, child.pid)
                for child in psutil.Process().children(recursive=True)
                if "spawn_main" in " ".join(child.cmdline())
            ]
            _, pid = max(workers)
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert run(scenario, tmp_path, "--host-seed", "1-3", "--workers", "2") == 0
    finally:
        ended.set()
        killer.join()
    assert killed
    assert digests(tmp_path) == digests(alone)


def test_one_machine_by_a_worker_is_the_run_of_this_process(scenario: str, tmp_path: Path) -> None:
    assert run(scenario, tmp_path / "here", "--host-seed", "7") == 0
    assert run(scenario, tmp_path / "there", "--host-seed", "7", "--workers", "1") == 0
    (one,), (other,) = ((path / "latest").resolve().parent.glob("2*") for path in tmp_path.iterdir())
    assert differences(one, other) == []


def test_the_same_again_is_there_already(
    scenario: str, alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bundles that lie there are the same ones; another one under that name is not taken for it."""
    assert run(scenario, tmp_path, "--host-seed", "1,2") == 0
    before = digests(tmp_path)
    assert run(scenario, tmp_path, "--host-seed", "1,2") == 0
    assert digests(tmp_path) == before
    capsys.readouterr()
    part = next(path for path in tmp_path.glob("2*") if not (path / "data" / "parts").exists())
    (part / "tagmanifest-sha512.txt").write_text("another\n")
    assert run(scenario, tmp_path, "--host-seed", "1,2") == 4
    assert "is another bundle" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host-seed", "1-4"], "4 simulated machines for 3 blocks"),
        (["--host-seed", "1-2", "--share", "1/2"], "--share does not go with several simulated machines"),
        (["--host-seed", "1-2", "--max-fail", "1"], "--max-fail does not go with"),
        (["--workers", "2", "--junit", "x.xml"], "--junit does not go with workers"),
        (["--workers", "2", "--scheduler", "tcp://a:1"], "--workers does not go with --scheduler"),
        (["--workers", "0"], "--workers 0 is no number of workers"),
        (["--scheduler", "a:1"], "--scheduler a:1 is no address"),
        (["--host-seed", "1-x"], "is no seed"),
        (["--host-seed", "1,1"], "names a machine twice"),
        (["--host-seed", "1-1000000"], "is no seed, and no range"),
    ],
)
def test_what_cannot_be_shared_is_refused_in_one_sentence(
    words: list[str], said: str, scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(scenario, tmp_path / "out", *words) == 2
    assert said in capsys.readouterr().err.splitlines()[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["--workers", "2"], ["--scheduler", "tcp://127.0.0.1:8786"]])
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_measurement_refuses_workers(
    words: list[str], more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "smoke", *LAB, "--out", str(tmp_path), *words, *more]) == 2
    what, why, following = capsys.readouterr().err.splitlines()
    assert what == f"error: {words[0]} does not go with ring lab" and "measured once, alone" in why
    assert "leave it out" in following and "sim.ini --workers 2" in following
    assert not list(tmp_path.iterdir())


def test_without_dask_it_says_how_to_install_it(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run(scenario, tmp_path, "--workers", "2") == 4
    assert INSTALL in capsys.readouterr().err


def test_a_share_depends_on_these_packages_alone(scenario: str, tmp_path: Path) -> None:
    """What a share imports of this tree is in its key."""
    program = (
        "import sys\n"
        "from pqlab.cli.main import main\n"
        f"code = main(['run', {scenario!r}, *{SIM!r}, '--out', {str(tmp_path)!r}, '--host-seed', '1,2'])\n"
        "print(code, *sorted({n.partition('.')[0] for n in sys.modules if n.startswith('pq')}))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, project_root().glob("*/src")))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    code, *imported = done.stdout.splitlines()[-1].split()
    assert code == "0" and set(imported) == set(shares.MADE_OF.packages)
