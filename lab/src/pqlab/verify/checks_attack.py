"""Foreign traffic: where the condition says so, as it says so, counted at the ends; nowhere else."""

from __future__ import annotations

from pqlab.record.attack import FILE, account_problems, bounds_problems, foreign, sent_episodes, traffic_gate
from pqlab.scenario.attacks import attacked
from pqlab.verify.result import Tally
from pqlab.verify.view import CellView


def bounded(cell: CellView, tally: Tally) -> None:
    """attack.ndjson: the condition's episodes, each in its time, none above what is ever allowed."""
    condition = cell.run.condition(str(cell.plan["condition"]))
    if not attacked(condition):
        tally.require(cell.raw.attack is None, f"{cell.label}: {FILE} in a cell that names no attack")
        return
    tally.see()
    gate = traffic_gate(cell.raw)
    if cell.raw.attack is None or gate is None:
        tally.fail(f"{cell.label}: there is no {FILE}, or no traffic window")
        return
    for problem in bounds_problems(sent_episodes(cell.raw), condition, int(cell.plan["seed"]), gate):
        tally.fail(f"{cell.label}: {problem}")


def counted(cell: CellView, tally: Tally) -> None:
    """What was sent is what the ends refused, within the loss of its path."""
    if cell.raw.attack is None:
        return
    tally.see()
    for problem in account_problems(cell.raw, sent_episodes(cell.raw)):
        tally.fail(f"{cell.label}: {problem}")


def nothing_foreign(cell: CellView, tally: Tally) -> None:
    """In the lab nobody else is on air: where nothing foreign is sent, nothing foreign may have come."""
    if attacked(cell.run.condition(str(cell.plan["condition"]))) or cell.run.scenario.get("ring") != "lab":
        return
    tally.see()
    for what, count in foreign(cell.raw).items():
        tally.fail(f"{cell.label}: {what} {count}, and its condition names no attack")
