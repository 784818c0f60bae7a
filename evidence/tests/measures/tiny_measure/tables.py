"""One row a suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from pqevidence.analysis.column import Column, names
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.table import Table

NAME = "tiny"
COLUMNS = (
    Column("suite_id", "suite", "suite"),
    Column("cells_count", "its cells", "cells", "n", numeric=True),
)


def make_tables(bundle: BundleData, made: Mapping[str, Table]) -> Iterator[Table]:
    """Always there."""
    table = Table(NAME, names(COLUMNS))
    for suite, count in sorted(Counter(cell.suite_id for cell in bundle.cells).items()):
        table.add(suite_id=suite, cells_count=count)
    yield table
