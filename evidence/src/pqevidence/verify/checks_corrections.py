"""Corrections: each a layer on a bundle whose manifest is here, with a reason; none makes a claim."""

from __future__ import annotations

import json
from importlib import resources

from pqbase.documents import rows_of, texts_of
from pqevidence.bundle.corrections import FOLDER, REASON, WITHDRAW
from pqevidence.kernel.result import Tally
from pqevidence.kernel.schema import schema_errors
from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import Json, read_object


def corrections(bundle: BundleView, tally: Tally) -> None:
    """Layers 1, 2, … are valid; each is of the bundle that its lineage names, in the order of the lineage;
    no bundle was taken over as corrected without one. Only cells that passed in an earlier run are withdrawn.
    """
    layers = _layers(bundle, tally)
    tally.note = f"{len(layers)} corrections" if layers else "never corrected"
    taken_over = [dict(entry) for entry in rows_of(bundle.raw.run, "lineage", [])]
    corrected = [entry for entry in taken_over if entry.get("reason") == REASON]
    told = [(layer["of"]["run_id"], layer["of"]["manifest_sha512"]) for layer in layers]
    due = [(entry.get("run_id"), entry.get("manifest_sha512")) for entry in corrected]
    for run_id, _ in due:
        tally.require(run_id in [name for name, _ in told], f"{run_id} was corrected, and no layer says why")
    tally.require(
        told == due or len(told) < len(due), "the layers are not of the bundles that were corrected"
    )
    earlier = {str(cell_id) for entry in taken_over for cell_id in texts_of(entry, "cells")}
    planned = {str(row["cell_id"]) for row in bundle.plan_cells}
    verdicts = {cell.cell_id: cell.verdict for cell in bundle.cells} if layers else {}
    gone: set[str] = set()
    for layer in layers:
        where = f"{FOLDER}/{layer['number']}.json"
        for cell_id in layer["cells"]:
            tally.require(cell_id in planned, f"{where}: {cell_id} is not in the plan")
            if layer["action"] != WITHDRAW:
                continue
            tally.require(cell_id in earlier, f"{where}: {cell_id} was measured after the correction")
            tally.require(cell_id not in gone, f"{where}: {cell_id} was withdrawn before")
            passed = verdicts.get(cell_id) == "pass"
            tally.require(passed, f"{where}: {cell_id} has no result that could be withdrawn")
            gone.add(cell_id)


def _layers(bundle: BundleView, tally: Tally) -> list[Json]:
    """The valid ones, oldest first; what is wrong with the others is told."""
    folder = bundle.data / FOLDER
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    text = resources.files("pqevidence.bundle").joinpath("correction.schema.json").read_text(encoding="utf-8")
    schema: Json = json.loads(text)
    due = {f"{number}.json" for number in range(1, len(names) + 1)}
    found = []
    for name in names:
        tally.see()
        if name not in due:
            tally.fail(f"{FOLDER}/{name}: layers are numbered from 1 on")
            continue
        layer = read_object(folder / name)
        problems = schema_errors(layer, schema)
        if layer.get("number") != int(name.removesuffix(".json")):
            problems.append(f"it says number {layer.get('number')!r}")
        for problem in problems:
            tally.fail(f"{FOLDER}/{name}: {problem}")
        if not problems:
            found.append(layer)
    return sorted(found, key=lambda layer: int(layer["number"]))
