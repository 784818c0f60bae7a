"""Edits that make one run unlike another, for comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import report_bundle


def edited_json(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    edit(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def of_run(**facts: object) -> report_bundle.Edit:
    return lambda root: edited_json(root / "data" / "run.json", lambda d: d.update(facts))
