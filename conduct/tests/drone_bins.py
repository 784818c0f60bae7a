"""What a drone wrote down of an attack that a synthetic bundle holds: its 20 ms bins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measures.attack.bad_bundles import BIN_NS

from pqevidence.recording import WINDOW_NS

FIELDS = ["rx_datagrams", "bad_header", "unknown_index", "auth_failed", "replay", "old_epoch", "queue_full"]


def write_bins(cell: Path) -> None:
    """Write bins.ndjson of a cell that was attacked."""
    gate = json.loads((cell / "traffic.json").read_text())["windows"]["traffic"]["drone"]
    rows: list[Any] = [{"schema": "pqtunnel/feed/v1", "role": "drone", "bin_ns": BIN_NS, "fields": FIELDS}]
    for line in (cell / "attack.ndjson").read_text().splitlines()[2:]:
        told = json.loads(line)
        rows.append([told["bin"], [told["sent"], 0, 0, told["sent"], 0, 0, 0]])
    first, last = gate["open_ns"] // WINDOW_NS, gate["close_ns"] // WINDOW_NS
    rows += [{"k": k, "interface": None, "udp": None} for k in range(first, last + 1)]
    (cell / "bins.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
