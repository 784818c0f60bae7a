"""If your radio is …: of every radio link that was measured, the suites of each level with the least times.

Measured cells alone; `pqlab advise` foretells radios that lie between them.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Final

from pqevidence.advise.radio import Radio, radio_of
from pqevidence.advise.wire import Pair, air_bytes, pair_of
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Section, Table, label, number
from pqevidence.report.source import RawRow, Source, cell_link
from pqtunnel import suites as registry

#: of each radio and level
_SHOWN: Final = 2


def radios(source: Source) -> Section | None:
    """Only where a condition is a radio link and nothing else, and times are claims."""
    conditions = source.bundle.conditions
    told = {str(condition["name"]): radio_of(condition.get("link")) for condition in conditions}
    found = {name: radio for name, radio in told.items() if isinstance(radio, Radio)}
    if not found or source.bundle.untimed:
        return None
    lines = [line for name, radio in found.items() for line in _lines(source, name, radio)]
    if not lines:
        return None
    return Section(
        "radios",
        "If your radio is …",
        (
            Table(
                "radios-table",
                f"The {_SHOWN} pairs of KEM and signature of a level with the least median, and the slowest",
                (
                    Column("radio"),
                    Column("level", "", True),
                    Column("KEM"),
                    Column("signature"),
                    Column("handshake, median", "ms", True),
                    Column("on the air", "B", True),
                    Column("on the air", "ms", True),
                    Column("cells", "n", True),
                    Column("place"),
                    Column("a cell of it"),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/handshakes.csv",
                "Median: of the medians of cells that differ in AEAD and repetition alone. Places are as "
                "they were measured, without a test of whether neighbours differ. On the air: both ways, no "
                "packet repeated.",
            ),
        ),
        "Bytes on the wire, over the rate, decide most of the time to a link. For a radio between these: "
        "./pqlab advise.",
    )


def _lines(source: Source, condition: str, radio: Radio) -> list[list[Cell]]:
    groups: dict[int, dict[Pair, list[RawRow]]] = defaultdict(lambda: defaultdict(list))
    for row in source.rows("handshakes"):
        if row["condition"] == condition and row["verdict"] == "pass" and row["drone_wall_median_ms"]:
            suite = registry.get(row["suite_id"])
            if not suite.is_plain:
                groups[suite.level][pair_of(suite)].append(row)
    found = []
    for level, pairs in sorted(groups.items()):
        ranked = sorted(pairs.values(), key=_median_ms)
        for place, rows in enumerate(ranked, start=1):
            if place <= _SHOWN or place == len(ranked):
                found.append(_line(condition, radio, level, rows, f"{place} of {len(ranked)}"))
    return found


def _median_ms(rows: list[RawRow]) -> float:
    return median(float(row["drone_wall_median_ms"]) for row in rows)


def _line(condition: str, radio: Radio, level: int, rows: list[RawRow], place: str) -> list[Cell]:
    first = rows[0]
    size = air_bytes(registry.get(first["suite_id"]), radio)
    return [
        label(f"{condition}: {radio}"),
        blocks.count(level),
        label(first["kem"]),
        label(first["sig"]),
        number(_median_ms(rows)),
        blocks.count(size),
        number(radio.seconds(size) * 1000),
        blocks.count(len(rows)),
        label(place),
        cell_link(first["cell_id"]),
    ]
