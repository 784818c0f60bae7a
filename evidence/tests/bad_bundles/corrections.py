"""Corrections that make claims, or hide that something was corrected."""

from __future__ import annotations

from pathlib import Path

from bad_bundles.campaigns import OLDER, take_over_first_cell
from bad_bundles.forge import Json, Registry, cells, edit, finish, load, registering, save

BAD: Registry = {}


def corrected(root: Path, **changes: object) -> Path:
    """The bundle as the correction of an earlier one, by a layer that `changes` spoil; the layer's file."""
    cell = take_over_first_cell(root)
    run = load(root / "data" / "run.json")
    (entry,) = run["lineage"]
    entry["reason"] = "corrected"
    save(root / "data" / "run.json", run)
    layer: Json = {
        "schema_version": "pqlab/correction/v1",
        "number": 1,
        "action": "remark",
        "reason": "a fan was switched on during this cell",
        "created_utc": "2026-03-01T13:00:00Z",
        "of": {"run_id": OLDER, "manifest_sha512": entry["manifest_sha512"]},
        "cells": [cell.name],
    }
    path = root / "data" / "corrections" / "1.json"
    path.parent.mkdir()
    save(path, layer | changes)
    finish(root)
    return path


@registering(BAD, "corrections")
def correction_without_a_reason(root: Path) -> None:
    """A layer whose reason is a row of dots."""
    corrected(root, reason="...")


@registering(BAD, "corrections")
def correction_withheld(root: Path) -> None:
    """The bundle was taken over as corrected; what was corrected is not said."""
    path = corrected(root)
    path.unlink()
    path.parent.rmdir()
    finish(root)


@registering(BAD, "corrections")
def correction_that_sets_a_number(root: Path) -> None:
    """A layer brings a better median along."""
    corrected(root, values={"handshake_total_duration_ms": 0.2})


@registering(BAD, "corrections")
def correction_of_another_bundle(root: Path) -> None:
    """The layer is of a bundle that this one does not hold."""
    corrected(root, of={"run_id": OLDER, "manifest_sha512": "ab" * 64})


@registering(BAD, "corrections")
def result_withdrawn_where_there_is_none(root: Path) -> None:
    """A cell that failed is withdrawn, so that it no longer counts as a failure."""
    path = corrected(root)
    failed = next(cell for cell in cells(root) if cell.name in load(path)["cells"])
    change = {"verdict": "fail", "reason": "no handshake"}
    edit(failed / "record.json", lambda record: record.update(change))
    edit(path, lambda layer: layer.update(action="withdraw"))
    finish(root)
