"""Test kit: a small sealed bundle of synthetic data, made once a session and copied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fixtures_make

from pqevidence import bundle
from pqevidence.pages import render
from pqevidence.records import build_record, load_context
from pqevidence.tables import analyse

if TYPE_CHECKING:
    import pytest


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The last line of what was printed."""
    loaded: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return loaded


def write_records(work: Path) -> None:
    """record.json of every planned cell."""
    context = load_context(work / "data")
    for row in context.plan["cells"]:
        folder = work / "data" / "cells" / row["cell_id"]
        record = build_record(folder, row, context)
        (folder / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def finish_work(work: Path) -> None:
    """Records, analysis tables and pages, as the engine makes them after the last cell."""
    write_records(work)
    analyse(work)
    render(work)


def make_ready(base: Path, **options: object) -> Path:
    """A finished work folder, ready to be sealed."""
    work = fixtures_make.make_work_dir(base / ".work" / fixtures_make.RUN_ID, **options)  # type: ignore[arg-type]
    finish_work(work)
    return work


def make_sealed(base: Path, **options: object) -> Path:
    """The same, sealed under `base`."""
    return bundle.seal(make_ready(base, **options), base, [])
