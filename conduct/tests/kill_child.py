"""Run a two-cell campaign again and again, each killed at its next rename: `kill_child.py DIR before|after
[again]`; with `again` it is a resumption that repeats a failed cell.

Forks from a process without threads (forking pytest itself would not be sound). Every run has its own folder
DIR/<n>; prints `<n> killed` or, when a run came through, `<n> finished` and ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_agent import FakeLab, interrupt, once

from pqevidence.errors import LabError
from pqlab.campaign.engine import Campaign
from pqlab.campaign.store import Store, work_runs

#: the first cell's first attempt is invalid, so that repeats are killed as well
SCRIPT = {0: ["invalid", "pass"]}
#: it fails, and is asked for again: two attempts more are invalid, the next passes
SCRIPT_AGAIN = {0: ["fail", "invalid", "invalid", "pass"]}
CELLS = 2
MOST_RENAMES = 400


def kill_self_at(rename: int, *, after: bool) -> None:
    """SIGKILL this process at its n-th rename, before or after it happens."""
    count = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal count
            count += 1
            if count == rename and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*args)
            if count == rename and after:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    setattr(Path, "replace", counted(Path.replace))  # noqa: B010 - a method, patched for this process
    setattr(Path, "rename", counted(Path.rename))  # noqa: B010


def stopped_in_its_second_cell(lab: FakeLab) -> Campaign:
    """A run whose first cell failed, resumed with --rerun-failed but not carried out yet."""
    lab.drone.hooks.append(once("prepare", interrupt, at=2))
    scenario = lab.scenario(CELLS)
    try:
        Campaign.begin(lab.around(), scenario).carry_out()
    except LabError:
        (run_id,) = work_runs(lab.results)
    return Campaign.resume(replace(lab.around(), rerun_failed=True), Store(lab.results, run_id), scenario)


def main(root: Path, *, after: bool, again: bool) -> int:
    # before the odd renames, after the even ones: every place between two of them, once
    for rename in range(2 if after else 1, MOST_RENAMES, 2):
        folder = root / str(rename)
        folder.mkdir()
        pid = os.fork()
        if pid == 0:
            code = 3
            try:
                script = SCRIPT_AGAIN if again else SCRIPT
                lab = FakeLab(folder, script={position: list(v) for position, v in script.items()})
                if again:
                    campaign = stopped_in_its_second_cell(lab)
                    kill_self_at(rename, after=after)
                else:
                    scenario = lab.scenario(CELLS)
                    kill_self_at(rename, after=after)
                    campaign = Campaign.begin(lab.around(), scenario)
                campaign.carry_out()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(rename, "killed" if killed else f"finished {os.WEXITSTATUS(status)}", flush=True)
        if not killed:
            return os.WEXITSTATUS(status)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), after=sys.argv[2] == "after", again="again" in sys.argv[3:]))
