"""A merged bundle read as one: parts whole, each measured by one pair of hosts, cells side by side.

Nothing is pooled here. A cell keeps the run and the pair that measured it, so that pairs of cells, steps
between repetitions and floors are made within one part, as in a bundle of one run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from pqbase.documents import Json, whole_of
from pqevidence.analysis.load import BundleData, Cell, read_json
from pqevidence.analysis.table import Table
from pqevidence.errors import EXIT_CHECK, EXIT_USAGE, LabError
from pqevidence.record.rings import weakest
from pqevidence.share import Share

#: the lineage file, by which a merged bundle is known, and the folder of its parts
DOCUMENT, PARTS = "merge.json", "parts"


def is_merged(root: Path) -> bool:
    """Is the folder a merged bundle?"""
    return (root / "data" / DOCUMENT).is_file()


class Part:
    """One bundle of the merge: its data and the share that it carried out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bundle = BundleData(root)
        self.run_id = str(self.bundle.plan["run_id"])
        try:
            share = Share.of_plan(self.bundle.plan)
        except (ValueError, AttributeError) as error:
            raise _not_a_share(self.run_id, str(error)) from error
        if share is None:
            raise _not_a_share(self.run_id, "its plan names no share, campaign and pair")
        self.share = share

    @property
    def pair(self) -> str:
        """Name of the pair of hosts that measured it."""
        return self.share.pair

    @property
    def ring(self) -> str:
        """Weakest ring of its cells."""
        rings = {cell.ring for cell in self.bundle.cells}
        return weakest(rings)

    @property
    def repetitions(self) -> list[int]:
        """Repetitions that it holds, in order."""
        return sorted({cell.repetition for cell in self.bundle.cells})

    def host(self, role: str) -> Json:
        """What the end says of the machine under it."""
        return dict(self.bundle.host(role))


def _not_a_share(run_id: str, why: str) -> LabError:
    return LabError(
        "no-share",
        f"{run_id} is no share of a campaign",
        why,
        "run it as one: ./pqlab run SCENARIO --share K/N --pair NAME",
        EXIT_USAGE,
    )


class MergedData(BundleData):
    """A merged bundle with the members of one run's bundle; `parts` in the order of pairs, then of runs."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        folder = self.data / PARTS
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        if not names:
            raise LabError(
                "not-a-bundle",
                f"{root} holds no merged bundle",
                f"data/{PARTS} is empty",
                "make one: ./pqlab merge BUNDLE BUNDLE",
                EXIT_CHECK,
            )
        parts = [Part(folder / name) for name in names]
        self.parts = sorted(parts, key=lambda part: (part.pair, part.run_id))
        first = self.parts[0].bundle
        path = self.data / DOCUMENT
        document = read_json(path) if path.is_file() else {}
        self.run = {"run_id": document.get("run_id"), "pqlab_version": first.run.get("pqlab_version")}
        self.plan = {
            **{key: first.plan.get(key) for key in ("scenario", "scenario_sha256", "seed", "conditions")},
            "run_id": document.get("run_id"),
            "campaign": first.plan.get("campaign"),
            "created_utc": document.get("created_utc"),
        }
        self.scenario: dict[str, object] = first.scenario
        self.providers = {}
        self.hosts = {}
        self.pairs: dict[str, str] = {}
        self.cells: list[Cell] = []
        for part in self.parts:
            for cell in part.bundle.cells:
                cell.earlier_run = part.run_id
                self.pairs[cell.cell_id] = part.pair
                self.cells.append(cell)

    @cached_property
    def untimed(self) -> tuple[str, ...]:
        """Why no time of this bundle is a claim: what any part says."""
        told = [f"pair {part.pair}: {reason}" for part in self.parts for reason in part.bundle.untimed]
        return tuple(dict.fromkeys(told))

    @cached_property
    def blocks_count(self) -> int:
        """Blocks of the whole campaign."""
        return whole_of(self.scenario, "repetitions")

    @cached_property
    def missing(self) -> list[int]:
        """Repetitions of the campaign that no part holds."""
        there = {repetition for part in self.parts for repetition in part.repetitions}
        return [number for number in range(1, self.blocks_count + 1) if number not in there]

    @cached_property
    def boards(self) -> dict[str, str]:
        """Pair → the host that it counts as: pairs that share a machine (one boot of it) are one host, named
        after all of them. Two such pairs are no two witnesses of what hosts do."""
        boots: dict[str, set[str]] = {}
        for part in self.parts:
            told = (part.host(role).get("boot_id") for role in ("drone", "gcs"))
            boots.setdefault(part.pair, set()).update(str(boot) for boot in told if boot)
        groups: list[tuple[set[str], set[str]]] = []
        for pair, mine in boots.items():
            alike = [group for group in groups if group[1] & mine]
            groups = [group for group in groups if group not in alike]
            groups.append(
                (
                    {pair}.union(*(names for names, _ in alike)),
                    mine.union(*(theirs for _, theirs in alike)),
                )
            )
        return {pair: "+".join(sorted(names)) for names, _ in groups for pair in names}


def joined(bundle: BundleData, make: Callable[[BundleData], Table]) -> Table:
    """A table of one bundle; of a merged one the rows of all parts, each made of its part alone."""
    if not isinstance(bundle, MergedData):
        return make(bundle)
    tables = [make(part.bundle) for part in bundle.parts]
    return Table(tables[0].name, tables[0].columns, [row for table in tables for row in table.rows])


def open_data(root: Path) -> BundleData:
    """A bundle, or a merged one, as its readers take it."""
    return MergedData(root) if is_merged(root) else BundleData(root)
