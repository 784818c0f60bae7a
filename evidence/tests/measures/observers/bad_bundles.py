"""Observers that were said to stand still and did not, or whose account is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from bad_bundles.forge import Json, Registry, cells, edit, finish, registering, rename_cells
from measures.observers.observer_files import write_observers

BAD: Registry = {}


def _left_out(root: Path, left_out: list[str], spoil: Callable[[Path], None]) -> None:
    """Every cell of the bundle is of a condition without those; `spoil` does its work in each cell."""
    edit(root / "data" / "scenario.effective.yml", lambda s: s["conditions"][0].update(without=left_out))
    rename_cells(root)
    for cell in cells(root):
        write_observers(cell, tuple(left_out))
        spoil(cell)
    finish(root)


def _edit_observers(change: Callable[[Json], object]) -> Callable[[Path], None]:
    def spoil(cell: Path) -> None:
        path = cell / "observers.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return spoil


@registering(BAD, "observers_still")
def telegraf_ran_on(root: Path) -> None:
    """Telegraf was to stand still and used 40 ms in the window."""

    def awake(document: Json) -> None:
        document["after"]["services"]["telegraf"]["cpu_ns"] += 40_000_000

    _left_out(root, ["telegraf"], _edit_observers(awake))


@registering(BAD, "observers_still")
def database_ran_on(root: Path) -> None:
    """Telegraf stood still and its database did not."""

    def awake(document: Json) -> None:
        document["after"]["services"]["influxdb"]["cpu_ns"] += 25_000_000

    _left_out(root, ["telegraf"], _edit_observers(awake))


@registering(BAD, "observers_still")
def no_account_of_who_stood_still(root: Path) -> None:
    """The condition leaves Telegraf out and nothing shows that it did."""
    _left_out(root, ["telegraf"], lambda cell: (cell / "observers.json").unlink())


@registering(BAD, "observers_still")
def an_account_of_part_of_the_window(root: Path) -> None:
    """Both readings lie within the window: a part of it says nothing of the rest."""

    def shorter(document: Json) -> None:
        document["before"]["t_ns"] += 400_000_000

    _left_out(root, ["telegraf"], _edit_observers(shorter))


@registering(BAD, "observers_still")
def more_than_all_cores(root: Path) -> None:
    """A tunnel that used a thousand cores."""

    def impossible(document: Json) -> None:
        took_ns = document["after"]["t_ns"] - document["before"]["t_ns"]
        document["after"]["ends"]["gcs"]["tunnel_cpu_ns"] += 2000 * took_ns

    _left_out(root, ["telegraf"], _edit_observers(impossible))


@registering(BAD, "observers_still")
def a_sampler_that_never_ran(root: Path) -> None:
    """The ground's sampler is not left out, and used nothing."""

    def asleep(document: Json) -> None:
        before = document["before"]["ends"]["gcs"]["sampler_cpu_ns"]
        document["after"]["ends"]["gcs"]["sampler_cpu_ns"] = before

    _left_out(root, ["telegraf"], _edit_observers(asleep))
