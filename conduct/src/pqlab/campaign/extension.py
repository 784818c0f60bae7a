"""Adding to a sealed bundle: a new bundle that holds its cells unchanged, byte for byte, and some more.

The earlier run's own documents and manifest come along under data/lineage/<run_id>/, so that its records can
still be made from what they were made from, and so that "unchanged" can be checked.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from pqbase.documents import Json, part_of, rows_of, texts_of
from pqevidence.bundle import bag
from pqevidence.bundle.corrections import FOLDER as CORRECTIONS
from pqevidence.bundle.survey import require_safe
from pqevidence.errors import EXIT_CHECK, LabError, UsageError
from pqevidence.paths import shown
from pqevidence.plan import Cell, cells_of
from pqevidence.record.link_ledger import TRACES
from pqevidence.scenario.model import Scenario
from pqlab.campaign.attest import FOLDER as ATTESTATION
from pqlab.campaign.hosts import different_builds
from pqlab.campaign.settle import same_detectors
from pqlab.campaign.store import Store, disk_errors, read_json

LINEAGE = "lineage"
#: documents of a run that its records were made from; hosts/ beside them
RUN_DOCUMENTS = ("run.json", "plan.json", "scenario.effective.yml", "providers.json")


def taken_over(run: Json) -> set[str]:
    """Ids of the cells of a run (its run.json) that earlier runs measured."""
    return {cell_id for entry in rows_of(run, "lineage", []) for cell_id in texts_of(entry, "cells")}


class Extension:
    """A sealed bundle whose cells a new run takes over."""

    def __init__(self, root: Path, cells: list[Cell], run: Json) -> None:
        self.root = root
        self._cells = {str(cell.cell_id): cell for cell in cells}
        self._run = run

    @classmethod
    def of(cls, root: Path, scenario: Scenario, providers: Json) -> Extension:
        """Raises LabError when the bundle is damaged, of other builds, or no part of this scenario."""
        data = root / "data"
        check_whole(root)
        before = read_json(data / "providers.json")
        for role in ("drone", "gcs"):
            changed = different_builds(
                part_of(before, role), part_of(providers, role), binaries=True, named=("there", "now")
            )
            if changed:
                raise LabError(
                    "builds-changed",
                    f"the {role} is another build than in {root.name}: " + ", ".join(changed),
                    "cells of different builds do not belong in one bundle",
                    "bring the former images back, or begin anew without --into",
                )
        then, now = part_of(before, "detectors", {}), part_of(providers, "detectors", {})
        # one that none of its cells had is no change of it
        same_detectors(before, {name: part_of(now, name) for name in now if name in then}, root.name)
        return cls(root, cells_of(read_json(data / "plan.json")), read_json(data / "run.json"))

    @property
    def cell_ids(self) -> set[str]:
        """Ids of the cells that are taken over."""
        return set(self._cells)

    @property
    def size_bytes(self) -> int:
        """What they take on the disk."""
        return sum(path.stat().st_size for path in (self.root / "data").rglob("*") if path.is_file())

    def renumbered(self, cells: list[Cell]) -> list[Cell]:
        """The plan of the new bundle: the earlier cells at their places, the new ones after them."""
        asked = {str(cell.cell_id): cell for cell in cells}
        strangers = [cell for cell_id, cell in self._cells.items() if cell_id not in asked]
        if strangers:
            first = strangers[0]
            raise UsageError(
                "other-scenario",
                f"{self.root.name} holds {len(strangers)} cells that this scenario does not have",
                f"the first is {first.suite_id} under {first.condition} #{first.repetition}: other suites, "
                "conditions or settings",
                "give the scenario and options it was made with, and more --reps, suites or conditions",
            )
        moved = [c for i, c in self._cells.items() if asked[i].seed != c.seed]
        if moved:
            raise UsageError(
                "other-seed",
                f"{self.root.name} was made with another campaign seed",
                "its cells would not be those of this scenario",
                "set `seed` as it was there",
            )
        fresh = [cell for cell in cells if str(cell.cell_id) not in self._cells]
        if not fresh:
            raise UsageError(
                "nothing-to-add",
                f"{self.root.name} holds every cell of this scenario already",
                "there is nothing to run",
                "ask for more --reps, suites or conditions",
            )
        first_free = 1 + max(cell.position for cell in self._cells.values())
        new = [replace(cell, position=first_free + place) for place, cell in enumerate(fresh)]
        return sorted(self._cells.values(), key=lambda cell: cell.position) + new

    def lineage(self, reason: str = "cells added") -> list[Json]:
        """The `lineage` of run.json: whose each taken-over cell is, oldest run first; why the newest is."""
        older = list(rows_of(self._run, "lineage", []))
        mine = sorted(set(self._cells) - taken_over(self._run))
        entry: Json = {
            "run_id": str(self._run["run_id"]),
            "manifest_sha512": bag.sha512_file(self.root / bag.MANIFEST),
            "reason": reason,
            "cells": mine,
        }
        return [*older, entry]

    def copy_into(self, store: Store) -> None:
        """Cells, run documents and manifest, as they are. Raises LabError when the disk is full."""
        data, home = self.root / "data", store.data / LINEAGE / str(self._run["run_id"])
        with disk_errors(home):
            home.mkdir(parents=True)
            for name in RUN_DOCUMENTS:
                shutil.copyfile(data / name, home / name)
            shutil.copytree(data / "hosts", home / "hosts")
            shutil.copyfile(self.root / bag.MANIFEST, home / bag.MANIFEST)
            if (data / LINEAGE).is_dir():
                shutil.copytree(data / LINEAGE, store.data / LINEAGE, dirs_exist_ok=True)
            if (data / ATTESTATION).is_dir():
                shutil.copytree(data / ATTESTATION, home / ATTESTATION)
            if (data / CORRECTIONS).is_dir():
                shutil.copytree(data / CORRECTIONS, store.data / CORRECTIONS)
            if (data / TRACES).is_dir():
                shutil.copytree(data / TRACES, store.data / TRACES, dirs_exist_ok=True)
            for cell_id in sorted(self._cells):
                shutil.copytree(data / "cells" / cell_id, store.cell_dir(cell_id))
            os.sync()  # the plan, which makes the run one that is resumed, must not be there before its cells


def check_whole(root: Path) -> None:
    """Every file as sealed and none beside them: what is taken over is vouched for again by the new bundle.
    Raises LabError not-sealed, damaged; BagError for entries and tag files that cannot be read."""
    if not (root / "bagit.txt").is_file():
        raise LabError(
            "not-sealed",
            f"{shown(root)} is no sealed bundle",
            "only sealed cells can be taken over",
            "finish it first: ./pqlab resume",
        )
    require_safe(root)
    tags = [name for name in (*bag.TAG_FILES, bag.INFO, bag.TAGMANIFEST) if (root / name).is_file()]
    digests = {name: bag.sha512_file(root / name) for name in (*tags, *bag.payload(root))}
    if wrong := bag.mismatches(root, digests):
        raise LabError(
            "damaged",
            f"{shown(root)} is not as it was sealed",
            f"{'; '.join(wrong[:3])}; a damaged cell must not enter another bundle",
            f"./pqlab verify {shown(root)}",
            EXIT_CHECK,
        )
