"""A folder that `pqlab fly` left is no bundle: every reader of bundles refuses it in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pqevidence.errors import EXIT_CHECK, LabError

#: the file that marks a folder as flown
MARK: Final = "flown.json"


def refuse_flown(folder: Path) -> None:
    """Raises LabError `flown` (exit 5, as for any folder that is no bundle) for one that a session left."""
    if (folder / MARK).is_file():
        raise LabError(
            "flown",
            f"{folder.name} was flown, not measured",
            "what ./pqlab fly leaves holds nothing that could be checked, reported or compared",
            "name a bundle under results/, or measure one: make run SCENARIO=smoke",
            EXIT_CHECK,
        )
