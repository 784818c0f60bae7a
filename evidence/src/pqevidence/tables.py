"""Every table of a bundle, written: those of the analysis, and the checklist, which runs checks."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from pathlib import Path

from pqevidence.analysis.comparison import reference_dir
from pqevidence.analysis.load import BundleData
from pqevidence.derived import tables_of
from pqevidence.verify.checklist import checklist_table


def analyse(bundle_root: Path, published: Traversable | None = None) -> list[Path]:
    """Write data/analysis/*.csv of a bundle (before sealing) and return the paths.

    ``published`` defaults to results/reference of the checkout. Raises LabError for an unreadable bundle.
    """
    bundle = BundleData(bundle_root)
    directory = bundle_root / "data" / "analysis"
    directory.mkdir(parents=True, exist_ok=True)
    tables = [*tables_of(bundle, published or reference_dir()), checklist_table(bundle_root)]
    return [table.write(directory) for table in tables]
