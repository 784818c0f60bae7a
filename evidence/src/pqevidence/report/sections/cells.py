"""One section a cell: verdict, key numbers, raw files, and the record's fields by category."""

from __future__ import annotations

import os
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from pqbase.documents import Json, exact_of, exact_or_none, part_of, parts_of, text_or_none, whole_of
from pqevidence.analysis.load import Cell as RawCell
from pqevidence.record.raw import attempts_in
from pqevidence.report import blocks
from pqevidence.report.blocks import (
    Cell,
    CellDetail,
    CellDetails,
    Column,
    Section,
    Table,
    label,
    missing,
    number,
)
from pqevidence.report.source import RAW_FILES, Source, analysis_link, utc, why_missing

#: Up to this many cells the report repeats every field of every record; beyond, the record link serves.
FULL_FIELDS_CELLS_COUNT = 120


def cell_sections(source: Source) -> Section:
    """All cells in suite order."""
    full = len(source.bundle.cells) <= FULL_FIELDS_CELLS_COUNT
    handshakes = {r["cell_id"]: r for r in source.rows("handshakes")}
    overhead = {r["cell_id"]: r for r in source.rows("overhead")}
    # a table that an earlier version did not make yet
    printed = source.rows("fingerprints") if source.has("fingerprints") else []
    prints = {r["cell_id"]: r for r in printed}
    details = [
        _detail(
            cell, handshakes[cell.cell_id], overhead[cell.cell_id], prints.get(cell.cell_id), full, source
        )
        for cell in source.bundle.cells
    ]
    lead = "Files are relative to the bundle's data folder."
    if not full:
        lead += f" More than {FULL_FIELDS_CELLS_COUNT} cells: the fields of each category are in its record."
    return Section("cells", "Cells", (CellDetails("cell-list", tuple(details)),), lead)


def _detail(
    cell: RawCell,
    handshake: dict[str, str],
    overhead: dict[str, str],
    prints: dict[str, str] | None,
    full: bool,
    source: Source,
) -> CellDetail:
    why = why_missing(handshake)
    wall = part_of(cell.record, "wall", {})
    facts: list[tuple[str, Cell]] = [
        ("condition", label(cell.condition)),
        ("repetition", blocks.count(source.nth(cell.repetition))),
        ("position in the run", blocks.count(whole_of(cell.plan, "position") + 1)),
        ("attempts", blocks.count(exact_or_none(cell.record, "attempts"), reason="not recorded")),
        ("ring", label(cell.ring)),
        ("started", label(utc(whole_of(wall, "start_ns"))) if wall.get("start_ns") else missing(why)),
        ("cold handshakes", blocks.count(handshake["n"])),
        ("wall drone, median (ms)", number(handshake["drone_wall_median_ms"], reason=why)),
        ("crypto sum, median (ms)", number(handshake["crypto_sum_median_ms"], reason=why)),
        ("outside windows (s)", number(overhead["overhead_s"], reason=why)),
        ("cell seed", label(cell.plan.get("seed", "not recorded"))),
    ]
    if prints is not None:
        told = f"{int(prints['files_count']):,} files, {int(prints['size_bytes']):,} bytes"
        facts.append(("hashed raw files", label(told, href=analysis_link("fingerprints"))))
    base = f"cells/{cell.cell_id}"
    files = [blocks.Cell(name, href=f"{base}/{name}", kind="id") for name in _there(cell.directory)]
    files += [
        blocks.Cell(f"{path.name}/record.json", href=f"{base}/{path.name}/record.json", kind="id")
        for path in attempts_in(cell.directory)
        if (path / "record.json").is_file()
    ]
    repetition = f", repetition {source.nth(cell.repetition)}" if source.repetitions > 1 else ""
    condition = f", {cell.condition}" if source.many_conditions else ""
    return CellDetail(
        id=f"cell-{cell.cell_id}",
        title=f"{cell.suite_id}{condition}{repetition}",
        verdict=cell.verdict,
        reason=text_or_none(cell.record, "reason"),
        facts=tuple(facts),
        files=tuple(files),
        categories=tuple(_categories(cell)) if full else (),
    )


def _there(folder: Path) -> list[str]:
    """Of RAW_FILES those that a cell has."""
    found: set[str] = set()
    for inner in ("", "logs/"):
        if (folder / inner).is_dir():
            with os.scandir(folder / inner) as entries:
                found.update(f"{inner}{entry.name}" for entry in entries if entry.is_file())
    return [name for name in RAW_FILES if name in found]


def _categories(cell: RawCell) -> list[tuple[str, Table]]:
    tables = []
    categories = part_of(cell.record, "categories", {})
    for letter in sorted(categories):
        fields = parts_of(categories, letter)
        rows = [
            _row(name, field)
            for name, field in fields.items()
            if not (letter == "P" and field.get("value") is None)
        ]
        if not rows:
            continue
        table = Table(
            f"cell-{cell.cell_id}-{letter}",
            f"Category {letter}",
            (Column("field"), Column("value"), Column("unit"), Column("n", "", True), Column("source")),
            tuple(rows),
            cell.ring,
            f"cells/{cell.cell_id}/record.json",
            sortable=False,
        )
        measured = sum(1 for field in fields.values() if field.get("value") is not None)
        tables.append((f"{letter}: {measured} of {len(fields)} fields measured", table))
    return tables


Row = tuple[Cell, Cell, Cell, Cell, Cell]

_PLAIN = frozenset((str, int, bool, type(None)))
_KEYS = ("value", "unit", "source", "validity", "reason", "n")
_NAMED, _told = frozenset(_KEYS), itemgetter(*_KEYS)


def _row(name: str, field: Json) -> Row:
    """One field. Most say the same in many cells. Numbers with a point are made anew: two zeros are equal and
    do not look alike."""
    told = _told(field) if field.keys() >= _NAMED else tuple(map(field.get, _KEYS))
    types = tuple(map(type, told))
    return _same_row(name, told, types) if _PLAIN.issuperset(types) else _made_row(name, field)


@lru_cache(maxsize=8192)
def _same_row(name: str, told: tuple[object, ...], _types: tuple[type, ...]) -> Row:
    """_types: what is equal and of another type is told otherwise, as 1 and true."""
    return _made_row(name, dict(zip(_KEYS, told, strict=True)))


def _made_row(name: str, field: Json) -> Row:
    unit, source = str(field.get("unit") or ""), str(field.get("source") or "")
    return _same(name), _value(field), _same(unit), _n(field), _same(source)


#: names, units and sources are the same in every cell
_same = lru_cache(maxsize=4096)(label)


def _n(field: Json) -> Cell:
    n = field.get("n")
    if n is None:
        return blocks.not_applicable()
    return blocks.count(n if isinstance(n, int) else exact_of(field, "n"))


def _value(field: Json) -> Cell:
    value = field.get("value")
    if value is None:
        return missing(text_or_none(field, "reason"))
    if field.get("validity") == "invalid":
        return missing(f"invalid: {field.get('reason')}")  # record.json keeps what was measured
    suffix = " (model)" if field.get("validity") == "model" else ""
    if isinstance(value, bool):
        return label(("yes" if value else "no") + suffix)
    if isinstance(value, float):
        return label(number(value, digits=4).text + suffix)
    if isinstance(value, int):
        return label(f"{value:,}" + suffix)
    if isinstance(value, dict):
        return label(
            ", ".join(f"{k} {v}" for k, v in sorted(value.items())) + suffix if value else "none" + suffix
        )
    return label(str(value) + suffix)
