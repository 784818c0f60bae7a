"""Test kit: a small sealed bundle of synthetic data, made once a session and copied."""

from __future__ import annotations

import json
from pathlib import Path

import fixtures_make

from pqlab import bundle
from pqlab.record import build_record, load_context


def write_records(work: Path) -> None:
    """record.json of every planned cell."""
    context = load_context(work / "data")
    for row in context.plan["cells"]:
        folder = work / "data" / "cells" / row["cell_id"]
        record = build_record(folder, row, context)
        (folder / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def make_ready(base: Path, **options: object) -> Path:
    """A finished work folder, ready to be sealed."""
    work = fixtures_make.make_work_dir(base / ".work" / fixtures_make.RUN_ID, **options)  # type: ignore[arg-type]
    write_records(work)
    fixtures_make.add_report(work)
    return work


def make_sealed(base: Path, **options: object) -> Path:
    """The same, sealed under `base`."""
    return bundle.seal(make_ready(base, **options), base, [])
