"""Corrections of a sealed bundle: layers with a reason, `data/corrections/<n>.json`. No sealed file changes.

A correction takes the result of cells back, or says something about them. It can make no claim: it sets no
number, and no cell passes by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pqevidence.errors import EXIT_CHECK, LabError
from pqevidence.record.raw import Json, read_object

FOLDER = "corrections"
SCHEMA = "pqlab/correction/v1"
#: lineage of a bundle that was made to carry a correction
REASON = "corrected"
WITHDRAW, REMARK = "withdraw", "remark"


@dataclass(frozen=True)
class Correction:
    """One layer; `cells` is empty for a remark about the whole run."""

    number: int
    action: str
    reason: str
    created_utc: str
    of_run: str
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its file, relative to data/."""
        return f"{FOLDER}/{self.number}.json"


def document(correction: Correction, manifest_sha512: str) -> Json:
    """The layer as it is written; manifest_sha512: digest of the manifest of the bundle it corrects."""
    return {
        "schema_version": SCHEMA,
        "number": correction.number,
        "action": correction.action,
        "reason": correction.reason,
        "created_utc": correction.created_utc,
        "of": {"run_id": correction.of_run, "manifest_sha512": manifest_sha512},
        "cells": list(correction.cells),
    }


def load_corrections(data_dir: Path) -> list[Correction]:
    """Every layer, oldest first; [] for a bundle that was never corrected. LabError for a damaged one."""
    found = []
    for path in (data_dir / FOLDER).glob("*.json"):
        raw = read_object(path)
        try:
            found.append(
                Correction(
                    number=int(raw["number"]),
                    action=str(raw["action"]),
                    reason=str(raw["reason"]),
                    created_utc=str(raw["created_utc"]),
                    of_run=str(raw["of"]["run_id"]),
                    cells=tuple(str(cell_id) for cell_id in raw["cells"]),
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LabError(
                "unreadable",
                f"cannot read {FOLDER}/{path.name}",
                f"{type(error).__name__}: {error}",
                "./pqlab verify names every damaged file",
                EXIT_CHECK,
            ) from error
    return sorted(found, key=lambda correction: correction.number)


def withdrawn(data_dir: Path) -> dict[str, str]:
    """Cells whose result was taken back → the reason that stands in its place."""
    return {
        cell_id: f"withdrawn by correction {correction.number}: {correction.reason}"
        for correction in load_corrections(data_dir)
        if correction.action == WITHDRAW
        for cell_id in correction.cells
    }
