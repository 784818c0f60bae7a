"""Everything a report reads of a bundle: records, plan, hosts and the analysis CSVs, with link helpers.

Links are relative to data/, where report.html lies inside the bundle.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from pqbase.documents import Json
from pqbase.text import utc_page
from pqevidence import __version__
from pqevidence.analysis.conditions import scenario_order
from pqevidence.analysis.load import BundleData, Cell, read_json
from pqevidence.analysis.table import read_rows
from pqevidence.record.rings import weakest
from pqevidence.report import blocks

RawRow = dict[str, str]
VERDICTS = ("pass", "fail", "unsupported", "invalid", "not-run")
RAW_FILES = (
    "record.json", "spans.ndjson", "ledger.drone.csv", "ledger.gcs.csv", "counters.json", "traffic.json",
    "events.ndjson", "telemetry.drone.lp", "telemetry.gcs.lp",
    "power.drone.csv", "power.gcs.csv", "mavlink.gcs.tlog", "detector.ndjson", "detectors.json",
    "observers.json", "bins.ndjson",
    "logs/drone.log", "logs/gcs.log", "logs/controller.log",
)  # fmt: skip


class Source:
    """A bundle with its analysis tables as text rows."""

    def __init__(
        self, root: Path, bundle: BundleData | None = None, tables: Mapping[str, list[RawRow]] | None = None
    ) -> None:
        """bundle: what lies at root, where it was read already. tables: rows by table, in place of those that
        lie there."""
        self.root = root
        self.bundle = BundleData(root) if bundle is None else bundle
        self._analysis: dict[str, list[RawRow]] = dict(tables or {})
        self._made = None if tables is None else frozenset(tables)

    def rows(self, name: str) -> list[RawRow]:
        """Rows of data/analysis/<name>.csv; none of a table that an earlier version did not make yet."""
        if not self.has(name) and self.bundle.run.get("pqlab_version") != __version__:
            return []
        if name not in self._analysis:
            self._analysis[name] = read_rows(self.bundle.data / "analysis" / f"{name}.csv")
        return self._analysis[name]

    def has(self, name: str) -> bool:
        """Does the bundle hold data/analysis/<name>.csv? Some exist only where there is something to say."""
        if self._made is not None:
            return name in self._made
        return (self.bundle.data / "analysis" / f"{name}.csv").is_file()

    @cached_property
    def measured(self) -> Json:
        """run.json of the run that measured: of a corrected bundle, the one that it corrects."""
        run, home = self.bundle.run, self.bundle.data / "lineage"
        earlier = {path.name for path in home.iterdir()} if home.is_dir() else set()
        while (name := run.get("corrects")) in earlier:
            earlier.discard(str(name))  # a lineage that names itself must end
            run = read_json(home / str(name) / "run.json")
        return run

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """Cells by id."""
        return {cell.cell_id: cell for cell in self.bundle.cells}

    @cached_property
    def ring(self) -> str:
        """Weakest ring of the run."""
        rings = {cell.ring for cell in self.bundle.cells} or {str(self.bundle.scenario.get("ring", "lab"))}
        return weakest(rings)

    @cached_property
    def verdict_counts(self) -> dict[str, int]:
        """Verdict → number of cells; the sum is the plan."""
        counts = dict.fromkeys(VERDICTS, 0)
        for cell in self.bundle.cells:
            counts[cell.verdict] += 1
        return counts

    @cached_property
    def many_conditions(self) -> bool:
        """More than one condition was planned."""
        return len({cell.condition for cell in self.bundle.cells}) > 1

    def of_one_condition(self, rows: list[RawRow]) -> tuple[list[RawRow], str]:
        """Rows of a per-cell table for a drawing that has one mark a suite, and the words that say which.

        Values of two conditions have no common median, and suites under two conditions no common rank: all
        are shown under the condition in which most suites have a cell that passed, of several the first of
        the scenario.
        """
        if not rows or not self.many_conditions:
            return rows, ""
        passed: dict[str, set[str]] = {row["condition"]: set() for row in rows}
        for row in rows:
            if row.get("verdict", "pass") == "pass":
                passed[row["condition"]].add(row["suite_id"])
        place = scenario_order(self.bundle)
        there = min(passed, key=lambda name: (-len(passed[name]), place.get(name, len(place))))
        kept = [row for row in rows if row["condition"] == there]
        absent = len({row["suite_id"] for row in rows} - {row["suite_id"] for row in kept})
        return kept, f", condition {there}{f', {absent} suites only elsewhere' if absent else ''}"

    @cached_property
    def has_links(self) -> bool:
        """Some condition goes through the link router."""
        return any(condition.get("link") not in (None, "none") for condition in self.bundle.conditions)

    @cached_property
    def repetitions(self) -> int:
        """Number of repetitions in the plan."""
        return len({cell.repetition for cell in self.bundle.cells})

    def nth(self, repetition: str | int) -> int:
        """A plan's repetition as people count, from 1 on, wherever the plan starts to count."""
        return int(repetition) - self._first_repetition + 1

    @cached_property
    def _first_repetition(self) -> int:
        return min(cell.repetition for cell in self.bundle.cells)


#: why a cell that did not pass has no figure; its full reason stands in the findings and in its section
NO_FIGURE = {
    "fail": "the cell failed",
    "invalid": "the cell is invalid",
    "unsupported": "unsupported on this host",
    "not-run": "the cell did not run",
}


def why_missing(row: RawRow) -> str:
    """Short reason for a missing figure of a cell's row."""
    return NO_FIGURE.get(row["verdict"]) or row.get("reason") or "the raw files do not hold it"


def anchor(cell_id: str) -> str:
    """Link to a cell's section."""
    return f"#cell-{cell_id}"


def cell_link(cell_id: str, text: str | None = None) -> blocks.Cell:
    """A cell id that leads to its section."""
    return blocks.Cell(text or cell_id[:8], href=anchor(cell_id), kind="id", title=cell_id)


def record_link(cell_id: str) -> blocks.Cell:
    """The raw record of a cell, relative to data/."""
    return blocks.Cell("record", href=f"cells/{cell_id}/record.json", kind="id")


def analysis_link(name: str) -> str:
    """Path of an analysis CSV, relative to data/."""
    return f"analysis/{name}.csv"


def utc(t_ns: int) -> str:
    """Realtime nanoseconds as ISO 8601 in UTC to the second."""
    return f"{utc_page(t_ns)} UTC"
