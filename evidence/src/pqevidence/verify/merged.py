"""A merged bundle: its fixity, every check over every part, the rules of a merge, and all of it made again.

Nothing in a merged bundle but its parts says anything of its own: lineage file, tables, page and crate are
made of them, and here once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pqevidence
from pqbase.documents import rows_of
from pqevidence.analysis.merged import DOCUMENT, PARTS, MergedData
from pqevidence.kernel.result import CheckResult, Tally
from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import read_object
from pqevidence.verify import checks_bag

_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}", re.ASCII)
#: versions of pqlab that merged bundles
MERGED_BY = ("1.0.0", pqevidence.__version__)
#: how a part is checked: its folder → its results
Verify = Callable[[Path], list[CheckResult]]


def structure(root: Path, tally: Tally, _: Verify) -> None:
    """As of any bag."""
    checks_bag.structure(BundleView(root), tally)


def tag_fixity(root: Path, tally: Tally, _: Verify) -> None:
    """As of any bag."""
    checks_bag.tag_fixity(BundleView(root), tally)


def payload_fixity(root: Path, tally: Tally, _: Verify) -> None:
    """As of any bag."""
    checks_bag.payload_fixity(BundleView(root), tally)


def parts_verified(root: Path, tally: Tally, verify: Verify) -> None:
    """Every part is a bundle of its own, and every check holds of it; nothing in it was measured in another
    part. Warnings stay warnings."""
    folder = root / "data" / PARTS
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        tally.see()
        if not path.is_dir() or not _RUN_ID.fullmatch(path.name):
            tally.fail(f"{path.name} is no part")
            continue
        for result in verify(path):
            told = f"{path.name}: {result.name}: {result.observed}"
            if result.status == "fail":
                tally.fail(told)
            elif result.status == "warn":
                tally.warn(told)


def merge_allowed(root: Path, tally: Tally, _: Verify) -> None:
    """The parts may stand in one bundle: one campaign, ring and build; no block, cell or part twice."""
    from pqevidence.merge.rules import require_mergeable

    data = MergedData(root)
    tally.looked = len(data.parts)
    for part in data.parts:
        tally.require(part.root.name == part.run_id, f"{part.root.name} holds run {part.run_id}")
    require_mergeable(data.parts)


def blocks_told(root: Path, tally: Tally, _: Verify) -> None:
    """Every block of the campaign is in a part; what is missing is a warning."""
    data = MergedData(root)
    tally.looked = data.blocks_count
    for number in data.missing:
        tally.warn(f"repetition {number} is missing: no part holds it")


def lineage_told(root: Path, tally: Tally, _: Verify) -> None:
    """merge.json names each part, its digest, pair, share, hosts and signatures as the parts have them."""
    from pqevidence.merge.document import document

    told = read_object(root / "data" / DOCUMENT)
    due = document(MergedData(root))
    tally.looked = len(rows_of(due, "parts"))
    for key in dict.fromkeys([*due, *told]):
        if key == "pqlab_version":
            continue  # of the merge: which tables and page it made is for merge_rebuild
        tally.require(told.get(key) == due.get(key), f"{key} of {DOCUMENT} is not what the parts give")


def merge_rebuild(root: Path, tally: Tally, _: Verify) -> None:
    """Tables, page, lineage file and crate are what the parts give, byte for byte, and nothing lies beside
    them. Those of another version of pqlab that merged are not made again; a warning says so."""
    from pqevidence.merge.compose import derived

    made_by = read_object(root / "data" / DOCUMENT).get("pqlab_version")
    if made_by not in MERGED_BY:
        tally.fail(f"made by pqlab {made_by}, which merged nothing")
        return
    if made_by != pqevidence.__version__:
        tally.warn(f"made by pqlab {made_by}, this is {pqevidence.__version__}: not made again")
        return
    due = derived(root)
    present = {
        path.relative_to(root / "data").as_posix() for path in (root / "data").rglob("*") if path.is_file()
    }
    for name in sorted(name for name in present - set(due) if not name.startswith(f"{PARTS}/")):
        tally.fail(f"{name} is no file of a merge")
    for name, text in due.items():
        tally.see()
        if name not in present:
            tally.fail(f"{name} is missing")
        elif (root / "data" / name).read_bytes() != text.encode():
            tally.fail(f"{name} is not what the parts give")


#: name → function, what is expected, what is counted
MERGED_CHECKS: dict[str, tuple[Callable[[Path, Tally, Verify], None], str, str]] = {
    "bagit_structure": (structure, "a BagIt 1.0 bag of sha-512", "tag files"),
    "tagmanifest_fixity": (tag_fixity, "every tag file as sealed, none added", "tag files"),
    "manifest_fixity": (payload_fixity, "every file as sealed, none added or dropped", "files"),
    "parts_verified": (
        parts_verified,
        "parts of which every check holds, none with times of another",
        "parts",
    ),
    "merge_allowed": (merge_allowed, "parts of one campaign, no block and no host twice", "parts"),
    "blocks_told": (blocks_told, "every block of the campaign", "blocks"),
    "lineage_told": (lineage_told, "parts as the lineage file names them", "parts"),
    "merge_rebuild": (merge_rebuild, "the tables and page that the parts give", "files"),
}
