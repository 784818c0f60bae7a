"""What every field of a record means: the catalogue, as the published dashboard's page of semantics."""

from __future__ import annotations

from pqevidence.record.sheet import catalogue_of
from pqevidence.report import blocks
from pqevidence.report.blocks import Column, Section, Table, label
from pqevidence.report.source import Source


def semantics(source: Source) -> Section:
    """One row a field of every category, as records of the version that made the bundle have it."""
    lines = [
        [
            label(f"{category.letter} {category.title}"),
            label(spec.name),
            label(spec.unit),
            label(", ".join(spec.published)) if spec.published else label("new"),
            label(spec.source),
            label(spec.description),
        ]
        for category in catalogue_of(str(source.bundle.run.get("pqlab_version"))).values()
        for spec in category.fields.values()
    ]
    table = Table(
        "semantics-table",
        "Fields of a record: name, unit, published name, raw file, meaning",
        (
            Column("category"),
            Column("field"),
            Column("unit"),
            Column("published as"),
            Column("source"),
            Column("meaning"),
        ),
        blocks.rows_of(lines),
        source.ring,
        None,
        "A field without a value is null with its reason in the record; a missing sensor is never 0.",
        collapsed=True,
    )
    return Section("semantics", "Field semantics", (table,))
