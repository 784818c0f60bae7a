"""What was measured again: only what was no result."""

from __future__ import annotations

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.raw import attempts_in, load_cell
from pqevidence.records import record_from_raw


def due(cell: CellView, tally: Tally) -> None:
    """No earlier attempt was a result by its own files, so that nobody chose between two. One that failed was
    followed by another only where somebody asked for failed cells again, or went on after an end."""
    sessions = cell.run.sessions
    again = len(sessions) > 1 or any(session.get("rerun_failed") for session in sessions)
    for folder in attempts_in(cell.folder):
        tally.see()
        verdict = str(record_from_raw(load_cell(folder), cell.plan, cell.run)["verdict"])
        chosen = verdict == "pass" or (verdict == "fail" and not again)
        tally.require(
            not chosen,
            f"{cell.label}: the files of {folder.name} give the verdict {verdict}, and another attempt "
            "followed",
        )
    tally.unit = "attempts"
