"""Find a bundle by path, run id or `latest`, and open what every reader needs of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pqbase.documents import Json, rows_of
from pqevidence.bundle.flown import refuse_flown
from pqevidence.errors import EXIT_CHECK, EXIT_ENVIRONMENT, LabError
from pqevidence.paths import shown
from pqevidence.record.raw import RawRun, load_run, read_object


@dataclass(frozen=True)
class Bundle:
    """A bundle (or a run in progress): its root, its data folder and its run-level files."""

    root: Path
    raw: RawRun

    @property
    def data(self) -> Path:
        """The payload folder, which is the RO-Crate."""
        return self.root / "data"

    @property
    def run_id(self) -> str:
        """Name of the run in its plan."""
        return str(self.raw.plan["run_id"])

    @property
    def sealed(self) -> bool:
        """True with a tag manifest: the last file that sealing writes before the rename."""
        return (self.root / "tagmanifest-sha512.txt").is_file()

    @property
    def plan_cells(self) -> list[Json]:
        """Planned cells in plan order."""
        return [dict(cell) for cell in rows_of(self.raw.plan, "cells", [])]

    def cell_dir(self, cell_id: str) -> Path:
        """Folder of one cell."""
        return self.data / "cells" / cell_id

    def records(self) -> Iterator[Json]:
        """record.json of every planned cell that has one, in plan order."""
        for cell in self.plan_cells:
            path = self.cell_dir(str(cell["cell_id"])) / "record.json"
            if path.is_file():
                yield read_object(path)


def open_bundle(path: Path) -> Bundle:
    """Open a bundle folder. Raises LabError `not-a-bundle`, or RawDataError for a damaged run-level file."""
    root = path.resolve()
    if not (root / "data" / "plan.json").is_file():
        raise LabError(
            "not-a-bundle",
            f"{path} holds no bundle",
            "data/plan.json is missing",
            "name a folder under results/, or run one: make run SCENARIO=smoke",
            EXIT_CHECK,
        )
    return Bundle(root, load_run(root / "data"))


def locate(name: str | None, results_dir: Path) -> Path:
    """A path, a run id under results_dir, or (None) results/latest. Raises LabError `no-bundle` (exit 4),
    `no-access` where what is there may not be looked into, or `flown` (exit 5)."""
    candidates = [results_dir / "latest"] if name is None else [Path(name), results_dir / name]
    for candidate in candidates:
        try:
            if candidate.is_dir():
                refuse_flown(candidate)
                return candidate.resolve()
        except OSError as error:  # a folder that is not ours to enter, a name too long for any disk
            raise LabError(
                "no-access",
                f"{name or shown(candidate)} cannot be looked into",
                error.strerror or str(error),
                "name another path, or get the right to read this one",
                EXIT_ENVIRONMENT,
            ) from error
    what = "there is no sealed bundle yet" if name is None else f"no bundle {name}"
    near = (
        sorted(path.name for path in results_dir.glob("2*") if path.is_dir()) if results_dir.is_dir() else []
    )
    why = f"newest here: {near[-1]}" if near else f"{results_dir.name}/ holds none"
    hint = "name that one, or another folder under results/" if near else "make one: make run SCENARIO=smoke"
    raise LabError("no-bundle", what, why, hint, EXIT_ENVIRONMENT)
