"""docs/FIELDS.md from the catalogue: `python -m pqevidence.semantics` writes it, a test compares."""

from __future__ import annotations

from pathlib import Path

from pqevidence.measures import MEASURES
from pqevidence.paths import project_root
from pqevidence.record.sheet import FieldSpec, catalogue, record_schema

HEAD = """# Field semantics

<!-- written by: python -m pqevidence.semantics -->

Every field that a cell's `record.json` can hold, from `evidence/src/pqevidence/fields.yml` and those in the
folders of `measures`. {count} fields in {letters} categories; the letters A–R are those of the published
system, S and T are new. The name ends in the unit.

Each field is an object of `{properties}` (schema `{schema}`): `value` is null where
nothing was measured, and `reason` says why; `validity` is one of {validities}
([RECORD.md](RECORD.md), "The record").

*Published as*: the names of the published system's fields that this one answers to; `new` where it had none.
"""

COLUMNS_HEAD = """
## Columns of tables

Tables lie in `data/analysis`. An empty field is missing, never zero; numbers have nine significant digits.
"""


def markdown() -> str:
    """The whole document."""
    categories = catalogue()
    schema = record_schema()
    field = _field_schema(schema)
    text = HEAD.format(
        count=sum(len(category.fields) for category in categories.values()),
        letters=len(categories),
        properties=", ".join(field["properties"]),
        schema=schema["$id"],
        validities=", ".join(f"`{word}`" for word in field["properties"]["validity"]["enum"]),
    )
    for category in categories.values():
        text += f"\n## {category.letter}. {category.title}\n\n"
        text += "| field | unit | published as | source | meaning |\n|---|---|---|---|---|\n"
        text += "".join(_row(spec) for spec in category.fields.values())
    return text + _columns()


def _columns() -> str:
    """Columns of the tables that measures declare."""
    text = COLUMNS_HEAD
    for measure in MEASURES:
        for table, columns in measure.columns.items():
            text += f"\n### {table}.csv ({measure.name})\n\n| column | meaning |\n|---|---|\n"
            text += "".join(f"| `{column.name}` | {column.doc} |\n" for column in columns)
    return text


def _field_schema(schema: dict[str, object]) -> dict[str, dict[str, dict[str, list[str]]]]:
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    found: dict[str, dict[str, dict[str, list[str]]]] = definitions["field"]
    return found


def _row(spec: FieldSpec) -> str:
    published = ", ".join(f"`{name}`" for name in spec.published) or "new"
    cells = (f"`{spec.name}`", spec.unit, published, spec.source, spec.description)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def path() -> Path:
    """Where the document lies in the checkout."""
    return project_root() / "docs" / "FIELDS.md"


if __name__ == "__main__":
    path().write_text(markdown(), encoding="utf-8")
