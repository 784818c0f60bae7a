"""The finished cells of a run as rows of the live view: verdict, handshake, latency, loss, goodput.

Records are read once; a cell that is measured again has another file.
"""

from __future__ import annotations

from pathlib import Path

from pqbase.documents import Json, rows_of
from pqlab.campaign.store import read_json
from pqlab.progress import value_of

#: column → category and field of the record; what does not count there is null here
FIGURES = {
    "handshake_ms": ("D", "handshake_total_duration_ms", 1.0),
    "latency_p50_ms": ("H", "one_way_latency_p50_ms", 1.0),
    "latency_p99_ms": ("H", "one_way_latency_p99_ms", 1.0),
    "loss_pct": ("G", "packet_loss_ratio", 100.0),
    "goodput_mbps": ("G", "goodput_down_mbps", 1.0),
}


class CellRows:
    """Rows of the runs that were looked at, kept between two looks."""

    def __init__(self) -> None:
        self._kept: dict[Path, tuple[int, Json]] = {}

    def of(self, data: Path, plan: Json) -> list[Json]:
        """Finished cells below `data`, in the order of the plan. Raises LabError for a record that cannot be
        read."""
        rows = (
            self._row(data / "cells" / str(cell["cell_id"]) / "record.json", cell)
            for cell in rows_of(plan, "cells")
        )
        return [row for row in rows if row is not None]

    def _row(self, path: Path, cell: Json) -> Json | None:
        try:
            made_ns = path.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        kept = self._kept.get(path)
        if kept is None or kept[0] != made_ns:
            kept = self._kept[path] = (made_ns, {**_told(cell, read_json(path)), "made_s": made_ns / 1e9})
        return kept[1]


def _told(cell: Json, record: Json) -> Json:
    row: Json = {
        "cell_id": cell["cell_id"],
        "position": cell["position"],
        "suite_id": cell["suite_id"],
        "condition": cell["condition"],
        "repetition": cell["repetition"],
        "verdict": str(record["verdict"]),
        "reason": record.get("reason"),
    }
    for column, (letter, name, factor) in FIGURES.items():
        value = value_of(record, letter, name)
        row[column] = None if value is None else factor * value
    return row
