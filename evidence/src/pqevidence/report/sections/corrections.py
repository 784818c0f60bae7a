"""What was taken back, or remarked on, after the bundle was sealed."""

from __future__ import annotations

from pqevidence.bundle.corrections import WITHDRAW, load_corrections
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Section, Table, label
from pqevidence.report.source import Source, cell_link

_KINDS = {WITHDRAW: "result withdrawn"}
COLUMNS = (
    Column("correction", numeric=True),
    Column("made"),
    Column("kind"),
    Column("suite"),
    Column("cell"),
    Column("reason"),
    Column("layer"),
)


def corrections(source: Source) -> Section | None:
    """One row a layer and cell, the newest layer last; None for a bundle that was never corrected."""
    rows: list[tuple[Cell, ...]] = []
    for layer in load_corrections(source.bundle.data):
        for cell_id in layer.cells or ("",):
            rows.append(
                (
                    blocks.count(layer.number),
                    label(layer.created_utc),
                    label(_KINDS.get(layer.action, layer.action)),
                    label(source.cells[cell_id].suite_id) if cell_id else label("all"),
                    cell_link(cell_id) if cell_id else label("the whole run"),
                    label(layer.reason),
                    Cell(layer.name, href=layer.name, kind="id"),
                )
            )
    if not rows:
        return None
    return Section(
        "corrections",
        "Corrections",
        (Table("corrections-table", "Corrections after sealing", COLUMNS, tuple(rows), source.ring),),
        "Layers on a sealed bundle. A withdrawn result counts as invalid in every table and statistic "
        "of this report; its files are unchanged, and a layer can set no number.",
    )
