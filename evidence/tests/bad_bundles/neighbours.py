"""Runs that call a busy machine quiet, or whose account of who used the processors is not whole."""

from __future__ import annotations

import json
from pathlib import Path

from bad_bundles.forge import Json, Registry, cells, edit, finish, registering

BAD: Registry = {}
QUIET: Json = {
    "pieces_count": 100, "piece_median_ns": 500_000, "waited_median_ns": 2_000, "waited_mean_ns": 4_000,
    "reason": None, "quiet": True,
}  # fmt: skip


def _settled(root: Path, drone: Json) -> None:
    """Every session says that it found quiet, by these probes."""

    def found(run: Json) -> None:
        known = {key: run[key] for key in ("started_ns", "ended_ns", "command")}
        for session in run.setdefault("sessions", [known]):
            session["settle"] = {
                "asked": True,
                "quiet": True,
                "why": None,
                "waited_s": 1.5,
                "limit_s": 60.0,
                "busy_ok": False,
                "probes": {"drone": drone, "gcs": QUIET},
            }

    edit(root / "data" / "run.json", found)


def _reading(window: str, edge: str, t_ns: int) -> Json:
    """A reading of a machine whose neighbours slept."""
    return {
        "t_ns": t_ns,
        "host": "controller",
        "event": "processors",
        "window": window,
        "edge": edge,
        "mono_s": t_ns / 1e9,
        "used_ms": [0.0, 0.0],
        "lab_ms": [0.0, 0.0],
        "lab_total_ms": 0.0,
        "controller_ms": 0.0,
        "steal_ms": 0.0,
        "cores_of": {"drone": [0, 1], "gcs": [0, 1]},
        "throttled_ms": {"drone": 0.0, "gcs": 0.0},
    }


def _write(path: Path, rows: list[Json]) -> None:
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))


def _before_alone(cell: Path) -> None:
    """A reading before each labelled window, and none after it."""
    path = cell / "events.ndjson"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    more = [
        _reading(row["window"], "before", row["t_ns"])
        for row in rows
        if row.get("host") == "controller" and row.get("event") == "window_start"
    ]
    _write(path, sorted([*more, *rows], key=lambda row: int(row["t_ns"])))


@registering(BAD, "quiet_before")
def busy_and_called_quiet(root: Path) -> None:
    """A thread waited 0.9 ms for half a millisecond of work, and the run calls that quiet."""
    _settled(root, {**QUIET, "waited_mean_ns": 900_000})
    for cell in cells(root):
        _framed(cell)
    finish(root)


def _framed(cell: Path) -> None:
    """Nothing to be read on this host, and that is said before and after each window."""
    path = cell / "events.ndjson"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    edges = {"window_start": "before", "window_end": "after"}
    framed: list[Json] = []
    for row in rows:
        edge = edges.get(str(row.get("event"))) if row.get("host") == "controller" else None
        told = {"t_ns": row["t_ns"], "host": "controller", "event": "processors"}
        told |= {"window": row.get("window"), "edge": edge, "reason": BEFORE}
        framed += [told] if edge == "before" else []
        framed.append(row)
        framed += [told] if edge == "after" else []
    _write(path, framed)


#: the reason that a record gives where there is no reading, so that no record changes
BEFORE = "recorded before this was counted"


@registering(BAD, "processors_framed")
def readings_left_out(root: Path) -> None:
    """The run asked for quiet, and no cell tells who used its processors."""
    _settled(root, QUIET)
    finish(root)


@registering(BAD, "processors_framed")
def readings_after_left_out(root: Path) -> None:
    """Each window has a reading before it, and what came later is gone."""
    _settled(root, QUIET)
    for cell in cells(root):
        _before_alone(cell)
    finish(root)
