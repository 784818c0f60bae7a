"""Durations that cannot be."""

from __future__ import annotations

from pathlib import Path

from bad_bundles.forge import Registry, cells, edit, finish, load_lines, registering, rename_cells, save_lines

BAD: Registry = {}


@registering(BAD, "session_duration")
def one_second_called_110(root: Path) -> None:
    """The scenario claims sessions of 110 s; the traffic lasted one."""
    edit(root / "data" / "scenario.effective.yml", lambda scenario: scenario["traffic"].update(session_s=110))
    rename_cells(root)
    finish(root)


@registering(BAD, "wall_clock")
def run_shorter_than_its_cells(root: Path) -> None:
    """The run ends a second after it started, its cells take seven."""
    edit(root / "data" / "run.json", lambda run: run.update(ended_ns=run["started_ns"] + 1_000_000_000))
    finish(root)


@registering(BAD, "window_sum")
def overlapping_windows(root: Path) -> None:
    """The traffic window is labelled until the end of the bulk window, so that the two overlap."""
    for cell in cells(root):
        rows = load_lines(cell / "events.ndjson")
        last = max(int(row["t_ns"]) for row in rows if row["event"] == "window_end")
        for row in rows:
            if row["event"] == "window_end" and row["window"] == "traffic":
                row["t_ns"] = last
        save_lines(cell / "events.ndjson", rows)
    finish(root)
