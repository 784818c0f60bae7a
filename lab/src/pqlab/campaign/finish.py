"""After the last cell: compare with the database, analyse, report, search for secrets, seal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pqlab.campaign.outputs import Outputs
from pqlab.campaign.store import Store
from pqlab.errors import EXIT_FAILED, EXIT_OK, EXIT_WARNING, LabError
from pqlab.paths import shown
from pqlab.plan import Cell
from pqlab.progress import Reporter

Json = dict[str, Any]
#: verdicts that end a run with exit code 1
BAD_VERDICTS = ("fail", "invalid", "not-run")
#: what `pqtunnel keys` makes that nobody else may see; the rest of the folder is public
_SECRET_PATTERNS = ("*.key.pem", "*.secret")


def reconcile_run(
    store: Store, cells: Iterable[Cell], outputs: Outputs, reporter: Reporter
) -> tuple[Json, list[str]]:
    """The `influx` block of run.json and the warnings it gives rise to. The files are the record: a database
    that is away or short of points is a warning, never a verdict."""
    if outputs.reconcile is None:
        return {"available": False, "reason": "the inventory names no database", "cells": []}, []
    rows: list[Json] = []
    unequal = 0
    for cell in cells:
        folder = store.cell_dir(str(cell.cell_id))
        lines = [
            line
            for file in sorted(folder.glob("telemetry.*.lp"))
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
        if not lines:
            continue
        try:
            series = outputs.reconcile(lines)
        except LabError as error:
            warning = f"InfluxDB was not compared: {error.what} ({error.why})"
            reporter.note(f"warning: {warning}; the record is the files")
            return {"available": False, "reason": f"{error.what}: {error.why}", "cells": rows}, [warning]
        unequal += sum(1 for row in series if not row["ok"])
        rows.append({"cell_id": cell.cell_id, "series": series})
    warnings = []
    if unequal:
        warnings.append(f"InfluxDB shows other points than the files in {unequal} series")
        reporter.note(f"warning: {warnings[0]}; the record is the files")
    return {"available": True, "reason": None, "cells": rows}, warnings


def secret_files(keys: Path) -> list[Path]:
    """Every secret under the key folder. Raises LabError when there is none: that search would pass all."""
    found = sorted({file for pattern in _SECRET_PATTERNS for file in keys.rglob(pattern)})
    if not found:
        raise LabError(
            "missing-key",
            f"no secret key under {shown(keys)}",
            "the bundle is searched for the keys the run held, and there are none to search for",
            "give the folder the lab was started with: --keys DIR",
        )
    return found


def verdict_counts(verdicts: Iterable[str]) -> dict[str, int]:
    """How many cells ended how; verdicts that did not occur are left out."""
    return dict(sorted(Counter(verdicts).items()))


def exit_code(counts: dict[str, int], warnings: list[str], *, strict: bool) -> int:
    """0 all pass · 1 failed or invalid cells · 3 warnings or unsupported only (`strict` makes them 1)."""
    if any(counts.get(verdict) for verdict in BAD_VERDICTS):
        return EXIT_FAILED
    if warnings or counts.get("unsupported"):
        return EXIT_FAILED if strict else EXIT_WARNING
    return EXIT_OK
