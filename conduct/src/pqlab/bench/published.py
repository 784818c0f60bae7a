"""The published tables as look-ups: the third column of every table here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources.abc import Traversable

from pqevidence.analysis.comparison import reference_dir
from pqevidence.analysis.table import read_rows, to_float
from pqevidence.errors import LabError

OPERATIONS = {"encapsulate": "encaps", "decapsulate": "decaps", "encrypt": "seal", "decrypt": "open"}
"""Names of the bench → names of the reference files."""
Row = dict[str, str]


@dataclass(frozen=True)
class Published:
    """Rows by what they are of: times by (algorithm, operation), AEAD with its payload, suites by id."""

    times: dict[tuple[str, str], Row]
    aead: dict[tuple[str, str, int], Row]
    suites: dict[str, Row]
    sizes: dict[str, Row]
    power: dict[tuple[str, str], Row]
    ladder: dict[tuple[str, int], Row]
    provenance: dict[str, Row]

    def time_of(self, category: str, algorithm: str, operation: str, payload: int | None) -> Row | None:
        """The published row of one benchmark, None where nothing was published."""
        short = OPERATIONS.get(operation, operation)
        if category == "aead":
            return self.aead.get((algorithm, short, payload or 0))
        if category == "suites":
            return self.suites.get(algorithm)
        return self.times.get((algorithm, short))


def value(row: Row | None, column: str) -> float | None:
    """A published number, None where there is none."""
    return to_float(row.get(column)) if row is not None else None


def load() -> Published:
    """From results/reference of the checkout. Raises LabError where it is not at hand."""
    folder = reference_dir()
    if folder is None:
        raise LabError(
            "no-reference",
            "the published tables are not at hand",
            "results/reference is missing",
            "run from the checkout",
        )
    return _load(folder)


def _load(folder: Traversable) -> Published:
    def rows(name: str) -> list[Row]:
        return read_rows(folder / name)

    return Published(
        {(r["algorithm"], r["operation"]): r for r in rows("primitives-2026-01.csv")},
        {
            (r["algorithm"], r["operation"], int(r["payload_bytes"])): r
            for r in rows("primitives-2026-01-aead.csv")
        },
        {r["suite_id"]: r for r in rows("primitives-2026-01-suites.csv")},
        {r["algorithm"]: r for r in rows("primitives-2026-01-sizes.csv")},
        {(r["algorithm"], r["operation"]): r for r in rows("power-2026-01.csv")},
        {(r["algorithm"], int(r["size_bytes"])): r for r in rows("esp32c6-ladder.csv")},
        {r["file"]: r for r in rows("provenance.csv")},
    )
