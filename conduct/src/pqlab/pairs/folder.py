"""`results/pairs/<id>`: what was begun on the pairs, and what each of them still has to do.

Each pair has a results folder in it. A campaign is open until all its blocks are in a merged bundle; the same
command goes on with an open one, pair by pair, and a share never moves to another pair.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pqbase.documents import Json, texts_of
from pqevidence.errors import LabError
from pqevidence.paths import shown
from pqlab.campaign.lock import Lock
from pqlab.campaign.store import WORK_FOLDER, disk_errors, read_json, work_runs, write_json

FOLDER: Final = "pairs"
DOCUMENT: Final = "campaign.json"
STATUS: Final = "status.json"
#: of a pair: nothing is there; a run is in work, or was sealed and not named; its bundle is there
Todo = Literal["run", "resume", "nothing"]


@dataclass
class PairsFolder:
    """One campaign's folder; `document`: what it was begun with, and the merged bundle once it is whole."""

    root: Path
    document: Json

    def __post_init__(self) -> None:
        self._lock = Lock(self.root)

    @classmethod
    def begin(cls, results: Path, name: str, document: Json) -> PairsFolder:
        """A new one. Raises LabError where it cannot be written."""
        found = cls(results / FOLDER / name, document)
        found.write()
        return found

    def write(self) -> None:
        """What was begun, on the disk when this returns."""
        write_json(self.root / DOCUMENT, self.document, durable=True)

    def lock(self) -> None:
        """Hold it for this process. Raises LabError where another one does."""
        with disk_errors(self.root):
            taken = self._lock.take()
        if not taken:
            raise LabError(
                "campaign-busy",
                f"the campaign in {shown(self.root)} is being carried out by another pqlab",
                "each pair has one controller",
                "./pqlab status shows how far it is",
            )

    def held(self) -> bool:
        """Does a process carry it out?"""
        return self._lock.is_held()

    @property
    def pairs(self) -> list[str]:
        return texts_of(self.document, "pairs")

    @property
    def whole(self) -> bool:
        """Are all blocks in a merged bundle?"""
        return self.document.get("merged") is not None

    def results_of(self, pair: str) -> Path:
        """The results folder of one pair."""
        return self.root / pair

    def bundle_of(self, pair: str) -> Path | None:
        """Its sealed share; None while there is none."""
        latest = self.results_of(pair) / "latest"
        return latest.resolve() if latest.is_dir() else None

    def todo(self, pair: str) -> Todo:
        """What the same command does for this pair."""
        results = self.results_of(pair)
        if work_runs(results):
            return "resume"
        if self.bundle_of(pair) is not None:
            return "nothing"
        sealed = any((path / "bagit.txt").is_file() for path in results.glob("*"))
        return "resume" if sealed else "run"

    def forget_unfinished(self, pair: str) -> None:
        """Of a simulated pair: its virtual time ended with its process, so nothing in work there goes on."""
        shutil.rmtree(self.results_of(pair) / WORK_FOLDER, ignore_errors=True)


def campaigns(results: Path) -> Iterator[PairsFolder]:
    """Those in this results folder, oldest first. Raises LabError for a document that cannot be read."""
    for file in sorted((results / FOLDER).glob(f"*/{DOCUMENT}")):
        yield PairsFolder(file.parent, read_json(file))


def open_campaign(results: Path, campaign: str, pairs: list[str]) -> PairsFolder | None:
    """The newest of this digest on these pairs that is not whole yet."""
    same = (
        found
        for found in campaigns(results)
        if found.document["campaign"] == campaign and found.pairs == pairs and not found.whole
    )
    return max(same, key=lambda found: found.root.name, default=None)
