"""A synthetic bundle with records, analysis and report, for the tests of analysis and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fixtures_make

from pqevidence.records import build_record, load_context
from pqevidence.tables import analyse
from pqtunnel import suites as registry

Edit = Callable[[Path], None]


def write_records(root: Path) -> None:
    """Compute and write the record of every planned cell."""
    context = load_context(root / "data")
    for cell in plan_cells(root):
        folder = root / "data" / "cells" / cell["cell_id"]
        record = build_record(folder, cell, context)
        (folder / "record.json").write_text(
            json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )


def plan_cells(root: Path) -> list[dict[str, Any]]:
    """Cells of the plan."""
    cells: list[dict[str, Any]] = json.loads((root / "data" / "plan.json").read_text(encoding="utf-8"))[
        "cells"
    ]
    return cells


def stretched(factor: float, chosen: Callable[[dict[str, Any]], bool] = lambda row: True) -> Edit:
    """Every handshake of these cells of the plan takes `factor` times as long."""

    def edit(root: Path) -> None:
        for row in filter(chosen, plan_cells(root)):
            path = root / "data" / "cells" / row["cell_id"] / "spans.ndjson"
            spans = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            begin: dict[str, int] = {}
            for span in spans:
                zero = begin.setdefault(span["handshake_id"], span["start_ns"])
                for edge in ("start_ns", "end_ns"):
                    span[edge] = zero + round((span[edge] - zero) * factor)
            path.write_text("".join(json.dumps(span) + "\n" for span in spans), encoding="utf-8")

    return edit


def make_bundle(root: Path, *, edit: Edit | None = None, **options: Any) -> Path:
    """Raw files → (edit) → records → analysis; returns the root that holds data/."""
    fixtures_make.make_work_dir(root, **options)
    if edit is not None:
        edit(root)
    write_records(root)
    analyse(root)
    return root


def times_of_all_suites() -> dict[str, tuple[float, float, float, float, float]]:
    """Invented primitive times for the 72 suites: slower families and levels take longer."""
    kem = {"mlkem": 0.01, "hqc": 2.0, "mceliece": 10.0}
    sig = {"mldsa": 0.05, "falcon": 0.15, "sphincs": 40.0}
    return {
        suite.id: (
            kem[suite.kem.family] * suite.level,
            sig[suite.sig.family] * suite.level,
            0.03 * suite.level,
            0.02 * suite.level,
            0.03 * suite.level,
        )
        for suite in registry.SUITES.values()
    }
