"""Measures the report of 72 suites × 3 conditions × 3: `python evidence/tests/report_scale.py FOLDER`.

Writes a synthetic bundle of that structure into FOLDER (kept: a second call only renders), analyses it and
prints seconds and bytes. Nothing in it was measured; docs/PERFORMANCE.md has the figures of one machine.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import fixture_handshake
import report_bundle

from pqevidence.pages import render

CONDITIONS = tuple(
    {"name": name, "detector": "none", "link": "none"} for name in ("baseline", "first", "second")
)
REPETITIONS = 3


def make(root: Path) -> None:
    """The bundle: 648 cells with 30 handshakes and 2 s of traffic each."""
    times = report_bundle.times_of_all_suites()
    fixture_handshake.TIMES.update(times)
    report_bundle.make_bundle(
        root,
        suites=tuple(times),
        repetitions=REPETITIONS,
        conditions=CONDITIONS,
        handshakes=30,
        session_s=2.0,
        bulk=True,
    )


def main() -> None:
    """Prints one line a step."""
    root = Path(sys.argv[1]) / "run"
    begun = time.perf_counter()
    if not (root / "data" / "analysis").is_dir():
        make(root)
        print(f"bundle made and analysed in {time.perf_counter() - begun:.1f} s")
    begun, worked = time.perf_counter(), time.process_time()
    html, text = render(root)
    spent, worked = time.perf_counter() - begun, time.process_time() - worked
    sizes = f"{html.stat().st_size / 1e6:.2f} MB HTML, {text.stat().st_size / 1e6:.2f} MB Markdown"
    count = len(report_bundle.plan_cells(root))
    print(f"report of {count} cells in {spent:.2f} s ({worked:.2f} s of CPU), {sizes}")
    print("load average " + " ".join(f"{value:.2f}" for value in os.getloadavg()))


if __name__ == "__main__":
    main()
