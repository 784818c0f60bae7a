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


def slower(factor: float) -> report_bundle.Edit:
    """Every handshake takes `factor` times as long."""

    def edit(root: Path) -> None:
        for path in root.glob("data/cells/*/spans.ndjson"):
            spans = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            begin: dict[str, int] = {}
            for span in spans:
                zero = begin.setdefault(span["handshake_id"], span["start_ns"])
                for edge in ("start_ns", "end_ns"):
                    span[edge] = zero + round((span[edge] - zero) * factor)
            path.write_text("".join(json.dumps(span) + "\n" for span in spans), encoding="utf-8")

    return edit


def of_run(**facts: object) -> report_bundle.Edit:
    return lambda root: edited_json(root / "data" / "run.json", lambda d: d.update(facts))
