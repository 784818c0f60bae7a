"""Versions of pqlab that sealed bundles."""

from __future__ import annotations

from typing import Final

from pqevidence import __version__

KNOWN: Final = ("0.1.0", "0.2.0", __version__)
#: of these, those whose records, tables and pages this tree makes again letter for letter
MADE_AGAIN: Final = ("0.2.0", __version__)
#: tables that 0.1.0 did not make yet
_AFTER_0_1: Final = frozenset({
    "fingerprints", "aead", "drift", "explorer", "latency_shares", "pareto", "timeline", "timeline_bands",
    "rekeys", "rekey_sweep", "commands", "fleet_stages", "fleet_capacity",
})  # fmt: skip


def wrote_table(made_by: str, name: str) -> bool:
    """Did this version make that table?"""
    return not (made_by == "0.1.0" and name in _AFTER_0_1)
