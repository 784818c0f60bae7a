"""Every measure of the lab, a folder each. records, derived, pages and verify iterate over MEASURES.

A measure knows what lies beneath it (record, analysis, report, kernel) and no other measure.
docs/DEVELOPING.md, "To add a measure", goes through one.
"""

from __future__ import annotations

from importlib import import_module

from pqevidence.measures.measure import Measure

#: folders, in the order in which their tables are made: one may read tables of those before it
NAMES = (
    "handshake",
    "traffic",
    "host",
    "rekey",
    "growth",
    "link",
    "attack",
    "fleet",
    "commands",
    "power",
    "observers",
    "detector",
)  # fmt: skip
MEASURES: tuple[Measure, ...] = tuple(import_module(f"{__name__}.{name}").MEASURE for name in NAMES)
