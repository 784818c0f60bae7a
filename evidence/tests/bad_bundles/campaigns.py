"""Campaigns that were not carried out as they claim: order, A/A twins, cells taken over from earlier runs."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from fixtures_make import seed_of

from bad_bundles.forge import Json, Registry, edit, edit_field, finish, load, registering, rename_cells, save

BAD: Registry = {}
OLDER = "20260301T110000Z-01de5a"
_RUN_FILES = ("run.json", "plan.json", "scenario.effective.yml", "providers.json")


@registering(BAD, "order_kept")
def positions_made_up(root: Path) -> None:
    """Two cells of a block claim each other's place: the order looks random and was another one."""
    plan = load(root / "data" / "plan.json")
    first, second = sorted(plan["cells"], key=lambda row: row["position"])[:2]
    first["position"], second["position"] = second["position"], first["position"]
    save(root / "data" / "plan.json", plan)
    for row in (first, second):
        _place(root / "data" / "cells" / row["cell_id"], int(row["position"]))
    claimed = [row["suite_id"] for row in sorted(plan["cells"], key=lambda row: row["position"])]
    fixed = {"order": {"method": "fixed"}, "suites": claimed}
    edit(root / "data" / "scenario.effective.yml", lambda scenario: scenario.update(fixed))
    rename_cells(root)
    finish(root)


def _place(cell: Path, position: int) -> None:
    edit(cell / "record.json", lambda record: record.update(position=position))
    edit_field(cell, "A", "suite_position_count", value=position)
    edit_field(cell, "M", "policy_position_count", value=position)


@registering(BAD, "twins")
def twins_without_their_other_half(root: Path) -> None:
    """The cell of one suite is called an A/A twin: nothing was measured that it could be compared with."""
    *others, alone = sorted({row["suite_id"] for row in load(root / "data" / "plan.json")["cells"]})

    def rename(row: Json) -> None:
        if row["suite_id"] == alone:
            row["condition"] = "again"

    def claim(scenario: Json) -> None:
        (only,) = scenario["conditions"]
        scenario["conditions"] = [
            {**only, "suites": others},
            {**only, "name": "again", "aa_of": only["name"], "suites": [alone]},
        ]

    edit(root / "data" / "scenario.effective.yml", claim)

    def drawn(plan: Json) -> None:
        for row in plan["cells"]:
            rename(row)
            seed = row["seed"] = seed_of(plan["seed"], row["suite_id"], row["condition"], row["repetition"])
            traffic = load(path := root / "data" / "cells" / row["cell_id"] / "traffic.json")
            for window in traffic["windows"].values():
                window["spec"]["seed"] = seed
            save(path, traffic)

    edit(root / "data" / "plan.json", drawn)
    for record in (root / "data" / "cells").glob("*/record.json"):
        edit(record, rename)
        if load(record)["condition"] == "again":
            edit_field(record.parent, "M", "policy_state", value="again")
    rename_cells(root)
    finish(root)


def take_over_first_cell(root: Path) -> Path:
    """The first cell becomes one of an earlier run, whose documents and manifest lie beside; its folder."""
    data = root / "data"
    plan, run = load(data / "plan.json"), load(data / "run.json")
    row = min(plan["cells"], key=lambda cell: cell["position"])
    cell = data / "cells" / str(row["cell_id"])
    edit_field(cell, "A", "run_id", value=OLDER)
    over_ns = int(load(cell / "record.json")["wall"]["end_ns"]) + 1
    home = data / "lineage" / OLDER
    home.mkdir(parents=True)
    for name in _RUN_FILES:
        shutil.copyfile(data / name, home / name)
    shutil.copytree(data / "hosts", home / "hosts")
    mine = [entry for entry in run["influx"]["cells"] if entry["cell_id"] == row["cell_id"]]
    theirs = [entry for entry in run["influx"]["cells"] if entry["cell_id"] != row["cell_id"]]
    older = {**run, "run_id": OLDER, "ended_ns": over_ns, "influx": {**run["influx"], "cells": mine}}
    save(home / "run.json", older)
    save(home / "plan.json", {**plan, "run_id": OLDER})
    manifest = "".join(
        f"{hashlib.sha512(path.read_bytes()).hexdigest()}  {name}\n"
        for path, name in [
            *((p, f"data/{p.relative_to(home).as_posix()}") for p in sorted(home.rglob("*")) if p.is_file()),
            *((p, p.relative_to(root).as_posix()) for p in sorted(cell.rglob("*")) if p.is_file()),
        ]
    )
    (home / "manifest-sha512.txt").write_text(manifest, encoding="utf-8")
    entry = {
        "run_id": OLDER,
        "manifest_sha512": hashlib.sha512(manifest.encode()).hexdigest(),
        "reason": "cells added",
        "cells": [row["cell_id"]],
    }
    run.update(started_ns=over_ns, influx={**run["influx"], "cells": theirs}, lineage=[entry])
    save(data / "run.json", run)
    finish(root)
    return cell


@registering(BAD, "lineage")
def taken_over_and_touched_up(root: Path) -> None:
    """A cell said to be taken over unchanged has another log than when its run was sealed."""
    cell = take_over_first_cell(root)
    with (cell / "logs" / "drone.log").open("a", encoding="utf-8") as log:
        log.write("one line more\n")
    finish(root)


@registering(BAD, "lineage")
def taken_over_with_a_file_added(root: Path) -> None:
    """A taken-over cell holds a file that its own run did not seal."""
    cell = take_over_first_cell(root)
    (cell / "logs" / "sniffer.log").write_text("nothing seen\n", encoding="utf-8")
    finish(root)
