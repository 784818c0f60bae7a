"""Plans and scenarios that do not fit what was done."""

from __future__ import annotations

import shutil
from pathlib import Path

from bad_bundles.forge import Registry, cells, edit, finish, registering, rename_cells

BAD: Registry = {}


@registering(BAD, "scenario_schema")
def scenario_with_an_unknown_key(root: Path) -> None:
    """The effective scenario has a key that no scenario has."""
    edit(root / "data" / "scenario.effective.yml", lambda scenario: scenario.update(cool_down_s=30))
    rename_cells(root)
    finish(root)


@registering(BAD, "scenario_schema")
def plan_of_other_bytes(root: Path) -> None:
    """The plan names the hash of another scenario file than the one beside it."""
    edit(root / "data" / "plan.json", lambda plan: plan.update(scenario_sha256="0" * 64))
    finish(root)


@registering(BAD, "plan_schema")
def plan_without_budget(root: Path) -> None:
    """The plan lacks its budget."""
    edit(root / "data" / "plan.json", lambda plan: plan.pop("budget"))
    finish(root)


@registering(BAD, "plan_schema")
def plan_of_another_seed(root: Path) -> None:
    """The plan names another campaign seed than its scenario: the order was drawn until it suited."""
    edit(root / "data" / "plan.json", lambda plan: plan.update(seed=plan["seed"] + 1))
    finish(root)


@registering(BAD, "cells_accounted")
def unplanned_cell(root: Path) -> None:
    """A cell was run again on the quiet and lies beside the planned one."""
    shutil.copytree(cells(root)[0], root / "data" / "cells" / "0123456789abcdef")
    finish(root)


@registering(BAD, "cells_accounted")
def missing_cell(root: Path) -> None:
    """A planned cell left no folder."""
    shutil.rmtree(cells(root)[0])
    finish(root)


@registering(BAD, "cell_ids")
def other_library(root: Path) -> None:
    """Both ends name a newer liboqs than the cells were measured with."""

    def change(providers: dict[str, dict[str, dict[str, str]]]) -> None:
        for role in ("drone", "gcs"):
            providers[role]["liboqs"]["version"] = "0.14.0"

    edit(root / "data" / "providers.json", change)
    finish(root)


@registering(BAD, "verdict_counts")
def counts_one_more(root: Path) -> None:
    """run.json counts four passed cells of three."""
    edit(root / "data" / "run.json", lambda run: run.update(verdict_counts={"pass": 4}))
    finish(root)


@registering(BAD, "share_owned")
def share_of_another_campaign(root: Path) -> None:
    """The plan calls its run the one share of a campaign that its scenario is not."""
    _share(root, 1, 1)


@registering(BAD, "share_owned")
def share_without_a_pair(root: Path) -> None:
    """The plan names a share, and neither the campaign nor the pair that carried it out."""
    edit(root / "data" / "plan.json", lambda plan: plan.update(share={"number": 1, "of": 1}))
    finish(root)


@registering(BAD, "cells_accounted")
def share_of_more_than_there_is(root: Path) -> None:
    """The plan calls itself the second share of a campaign that has a single block."""
    _share(root, 2, 2)


def _share(root: Path, number: int, of: int) -> None:
    named = {"campaign": "0" * 64, "share": {"number": number, "of": of}, "pair": "bench"}
    edit(root / "data" / "plan.json", lambda plan: plan.update(named))
    finish(root)
