"""A bundle that took over cells of earlier ones: unchanged, as their own manifest says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pqbase.documents import rows_of
from pqevidence.bundle import bag
from pqevidence.bundle.corrections import FOLDER as CORRECTIONS
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import LINEAGE, Ancestor, BundleView

#: documents of a run, which lie under data/lineage/<run_id> once it is an ancestor
_RUN_FILES = ("run.json", "plan.json", "scenario.effective.yml", "providers.json", "hosts/", "attestation/")


def lineage(bundle: BundleView, tally: Tally) -> None:
    """Every file of a taken-over cell has the digest of the bundle it came from; each of these cells is of
    one run; that run planned it at the same place with the same builds."""
    tally.note = "made in one run"
    folder = bundle.data / LINEAGE
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    told = [ancestor.run_id for ancestor in bundle.ancestors]
    for name in sorted(there ^ set(told)):
        tally.fail(f"{LINEAGE}/{name} and the lineage of run.json do not agree")
    owners = Counter(cell_id for ancestor in bundle.ancestors for cell_id in ancestor.cells)
    for cell_id, count in sorted(owners.items()):
        tally.require(count == 1, f"{cell_id} is of {count} runs")
    planned = {str(row["cell_id"]): row for row in bundle.plan_cells}
    for ancestor in bundle.ancestors:
        tally.note = f"{len(owners)} cells taken over from {len(told)} earlier runs"
        _unchanged(bundle, ancestor, tally)
        named = {str(ancestor.raw.run.get("run_id")), str(ancestor.raw.plan.get("run_id"))}
        tally.require(named == {ancestor.run_id}, f"{LINEAGE}/{ancestor.run_id} is of another run")
        before = {str(row["cell_id"]): row for row in rows_of(ancestor.raw.plan, "cells")}
        for cell_id in sorted(ancestor.cells):
            tally.see()
            tally.require(cell_id in before, f"{cell_id} is not of run {ancestor.run_id}")
            same = before.get(cell_id) == planned.get(cell_id)
            tally.require(same, f"{cell_id} stands at another place than in run {ancestor.run_id}")
        for role in ("drone", "gcs"):
            equal = ancestor.raw.providers[role] == bundle.raw.providers[role]
            tally.require(equal, f"run {ancestor.run_id} had other builds at the {role}")


def _unchanged(bundle: BundleView, ancestor: Ancestor, tally: Tally) -> None:
    manifest = ancestor.folder / bag.MANIFEST
    digest = bag.sha512_file(manifest)
    claimed = ancestor.entry.get("manifest_sha512")
    tally.require(digest == claimed, f"the manifest of {ancestor.run_id} is not the one run.json names")
    sealed = bag.read_manifest(manifest)
    kept = {f"data/cells/{cell_id}" for cell_id in ancestor.cells}
    now = _files(bundle.root, kept)
    due: dict[str, str] = {}
    for name, sha512 in sealed.items():
        if (place := _place(name, ancestor.run_id, kept)) is not None:
            due[place] = sha512
    for place in sorted(now - set(due)):
        tally.fail(f"{place} was added to a cell of {ancestor.run_id}")
    for place, sha512 in due.items():
        path = bundle.root / place
        if not path.is_file():
            tally.fail(f"{place} of {ancestor.run_id} is gone")
        elif bag.sha512_file(path) != sha512:
            tally.fail(f"{place} is not as {ancestor.run_id} sealed it")


def _place(name: str, run_id: str, kept: set[str]) -> str | None:
    """Where a file of the earlier bundle lies in this one; None for what was made again."""
    parts = name.split("/")
    if "/".join(parts[:3]) in kept or parts[1] in (LINEAGE, CORRECTIONS):
        return name
    if name.removeprefix("data/").startswith(_RUN_FILES):
        return f"data/{LINEAGE}/{run_id}/{name.removeprefix('data/')}"
    return None


def _files(root: Path, folders: set[str]) -> set[str]:
    return {
        path.relative_to(root).as_posix()
        for folder in folders
        for path in (root / folder).rglob("*")
        if path.is_file()
    }
