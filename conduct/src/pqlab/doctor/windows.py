"""What a Windows ground station can and cannot do: one sentence, which the playbooks read from the same file
and docs/HARDWARE.md repeats.
"""

from __future__ import annotations

from pathlib import Path

from pqlab.doctor.model import Reading, Requirement

SENTENCE = Path(__file__).with_name("windows_station.txt").read_text(encoding="utf-8").strip()

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        "windows station",
        "note",
        "a Linux ground station, where all of this is measured",
        lambda _system: Reading(None, SENTENCE),
        "docs/HARDWARE.md: Windows preparation",
    ),
)
