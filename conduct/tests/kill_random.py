"""Campaigns killed again and again at random moments: `kill_random.py DIR SEED CAMPAIGNS`.

Each campaign is begun and resumed in children of this process, each of which is sent SIGKILL at a random one
of its operations (files, folders, renames, syncs, calls to an agent; the real seal included) until one comes
through. Every second campaign adds to a sealed bundle. Prints one JSON line a campaign.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_agent import FakeAgent, FakeLab

from pqevidence.bundle import seal
from pqevidence.bundle.sealing import point_latest
from pqevidence.scenario import Overrides, Scenario, load_scenario
from pqevidence.scenario.load import load_effective
from pqlab.campaign.engine import Campaign
from pqlab.campaign.finish import forget_marks, sealed_unnamed
from pqlab.campaign.store import Store, work_runs

SCENARIO = """\
schema: pqlab/scenario/v1
name: killed
seed: 3
suites: [cs-mlkem768-aesgcm-mldsa65, cs-hqc256-aesgcm-mldsa87]
repetitions: 2
order: {method: abba}
conditions:
  - name: a
  - name: a-again
    aa_of: a
    suites: [cs-hqc256-aesgcm-mldsa87]
handshake: {count: 5}
traffic: {session_s: 1}
"""
#: the second cell needs a second attempt, the fourth fails: both kinds of repeats are killed as well
SCRIPT = {1: ["invalid", "pass"], 3: ["fail"]}
_COUNTED = (
    (Path, "write_bytes"), (Path, "rename"), (Path, "replace"), (Path, "mkdir"), (Path, "unlink"),
    (shutil, "copyfile"), (shutil, "copytree"), (shutil, "rmtree"), (os, "fsync"), (os, "sync"),
    (FakeAgent, "call"),
)  # fmt: skip
#: what seals in this process; a child that is to be killed while sealing learns here that it began
sealed_by: Callable[..., Path] = seal
#: more kills than this in one campaign is no campaign any more
_MOST_KILLS = 6


#: run ids begin with the year, and what is looked for under results/ begins with a 2
_EPOCH_S = 1_770_000_000.0
#: operations of the end of a campaign, from the last document on
_SEALING_OPERATIONS = 10


def kill_self_at(moment: int) -> Callable[[], int]:
    """SIGKILL at the n-th operation (0: never; below 0: the n-th since sealing began), before it when n is
    odd, else after it; returns how many operations there were."""
    seen = 0
    sealing = moment >= 0

    def begin(*args: Any) -> Path:
        nonlocal sealing
        sealing = True
        return seal(*args)

    global sealed_by
    sealed_by = begin

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal seen
            seen += sealing
            mine = sealing and seen == abs(moment)
            if mine and moment % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*args, **options)
            if mine:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for owner, name in _COUNTED:
        setattr(owner, name, counted(getattr(owner, name)))
    return lambda: seen


def go_on(lab: FakeLab, scenario: Scenario, into: Path | None) -> None:
    """What a user does after a kill: resume when there is a run in work, else begin."""
    around = replace(lab.around(token=os.urandom(3).hex()), into=into)
    if not work_runs(lab.results) and (unnamed := sealed_unnamed(lab.results, None)) is not None:
        point_latest(lab.results, unnamed.name)
        forget_marks(lab.results)
        return
    if runs := work_runs(lab.results):
        store = Store(lab.results, runs[-1])
        effective = load_effective(store.data / "scenario.effective.yml")
        Campaign.resume(replace(around, into=None), store, effective).carry_out()
        return
    Campaign.begin(around, scenario).carry_out()


def in_child(job: Callable[[], None], moment: int) -> int | None:
    """Operations of a child that came through; None for one that was killed. Raises when it failed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            count = kill_self_at(moment)
            job()
            os.write(writing, str(count()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return None
    if os.WEXITSTATUS(status) != 0:
        raise RuntimeError(f"a campaign failed at moment {moment}")
    return int(text)


def new_lab(folder: Path, clock_s: float) -> FakeLab:
    """A lab whose time goes on where the dead controller's stopped, agents still in its cell."""
    lab = FakeLab(folder, script={position: list(v) for position, v in SCRIPT.items()})
    lab.outputs = replace(lab.outputs, seal=sealed_by)
    lab.clock.sleep(_EPOCH_S + clock_s)
    for agent in (lab.drone, lab.gcs):
        agent.state, agent.cell_id = "running", "of-the-dead-controller"
    return lab


def campaign(folder: Path, rng: random.Random, operations: int, *, adds: bool) -> dict[str, Any]:
    """One campaign from its first kill to its seal."""
    file = folder / "killed.yml"
    file.write_text(SCENARIO)
    few = load_scenario(str(file), Overrides(repetitions=1) if adds else None)
    whole = load_scenario(str(file))
    clock_s, into = 0.0, None
    if adds:
        in_child(lambda: go_on(new_lab(folder, 0.0), few, None), 0)
        into = (folder / "results" / "latest").resolve()
    kills: list[int] = []
    at_the_end = 0
    changed: list[str] = []
    kept: dict[str, bytes] = records(folder)
    while True:
        clock_s += 1000.0
        moment = (
            rng.randrange(1, operations // 2)
            if rng.random() < 0.6
            else -rng.randrange(1, _SEALING_OPERATIONS)
        )
        moment = moment if len(kills) < _MOST_KILLS else 0
        came_through = in_child(lambda now=clock_s: go_on(new_lab(folder, now), whole, into), moment)  # type: ignore[misc]
        now = records(folder)
        changed += [name for name, content in kept.items() if now.get(name) != content]
        kept = {**kept, **now}
        if came_through is None:
            kills.append(moment)
            at_the_end += len(kept) == whole.cell_count
            continue
        assert len(kept) == whole.cell_count
        bundle = str((folder / "results" / "latest").resolve())
        return {"bundle": bundle, "kills": kills, "at_the_end": at_the_end, "changed": changed}


def records(folder: Path) -> dict[str, bytes]:
    """Every finished record by its cell, of the newest place it lies in."""
    found: dict[str, bytes] = {}
    for pattern in ("results/2*/data/cells/*/record.json", "results/.work/2*/data/cells/*/record.json"):
        for path in sorted(folder.glob(pattern)):
            found[path.parent.name] = path.read_bytes()
    return found


def main(root: Path, seed: int, campaigns: int) -> int:
    rng = random.Random(seed)
    trial = root / "trial"
    trial.mkdir()
    file = trial / "killed.yml"
    file.write_text(SCENARIO)
    operations = in_child(lambda: go_on(new_lab(trial, 0.0), load_scenario(str(file)), None), 0)
    assert operations is not None
    for number in range(campaigns):
        folder = root / str(number)
        folder.mkdir()
        print(json.dumps(campaign(folder, rng, operations, adds=bool(number % 2))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
