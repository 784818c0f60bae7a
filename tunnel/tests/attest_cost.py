"""What attesting costs an agent: `python tunnel/tests/attest_cost.py BUNDLE`.

Hands every cell of a sealed bundle out once more, page by page, to the code that swears to it, and prints the
processor time of each end's cells in ms. In the agent all of it is done while no window is open.
docs/PERFORMANCE.md has a figure.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median

from pqbase.documents import texts_of
from pqtunnel.agent.attest import Attestation, digest

PAGE_LINES = 2_000
ROLES = ("drone", "gcs")


def streams(cell: Path, role: str) -> dict[str, list[str]]:
    """Lines of what the agent of `role` handed out for the cell."""
    spans = [line for line in _lines(cell / "spans.ndjson") if json.loads(line)["host"] == role]
    events = [line for line in _lines(cell / "events.ndjson") if json.loads(line)["host"] == role]
    ledger, telemetry = _lines(cell / f"ledger.{role}.csv"), _lines(cell / f"telemetry.{role}.lp")
    return {"spans": spans, "events": events, "ledger": ledger, "telemetry": telemetry}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def cost_ms(role: str, cell: Path, attestation: Attestation, run_id: str, line: int) -> tuple[float, int]:
    """Processor time of one cell, in ms: what is hashed, and a signature; and how many lines of the chain the
    controller has then, of which it had `line`."""
    counters = json.loads((cell / "counters.json").read_text("utf-8"))[role]
    handed_out = streams(cell, role)
    begun_ns = time.thread_time_ns()
    attestation.prepared(cell.name, "suite")
    attestation.stopped(cell.name, counters)
    for name, lines in handed_out.items():
        for since in range(0, max(len(lines), 1), PAGE_LINES):
            page = {"lines": lines[since : since + PAGE_LINES], "end": since + PAGE_LINES >= len(lines)}
            attestation.handed_out(cell.name, name, since, page)
    words = {"op": "attempt", "run_id": run_id, "cell_id": cell.name, "files_sha256": digest(cell.name)}
    told = attestation.handle({**words, "peer": digest(role), "since": line})
    return (time.thread_time_ns() - begun_ns) / 1e6, line + len(texts_of(told, "lines"))


def main(bundle: Path) -> None:
    """See the module."""
    for role in ROLES:
        attestation = Attestation(role)
        begin = {"op": "begin", "run_id": bundle.name, "plan_sha256": digest("plan"), "segment": 1}
        line = len(texts_of(attestation.handle({**begin, "earlier": None, "lost": []}), "lines"))
        folders = (bundle / "data" / "cells").iterdir()
        cells = sorted(path for path in folders if (path / "counters.json").is_file())
        costs = []
        for cell in cells:
            cost, line = cost_ms(role, cell, attestation, bundle.name, line)
            costs.append(cost)
        size_kb = median(
            sum(len(text) + 1 for texts in streams(cell, role).values() for text in texts) / 1e3
            for cell in cells
        )
        print(
            f"{role}: {len(costs)} cells, {median(costs):.1f} ms of processor time a cell (median; "
            f"{min(costs):.1f} to {max(costs):.1f}), {size_kb:.0f} kB of records (median)"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
