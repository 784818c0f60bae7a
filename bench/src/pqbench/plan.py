"""How much of everything a run does: tiny (does it work), default (minutes), full (longer)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Plan:
    """Sizes of one run."""

    mode: str
    suites: str
    """Glob over suite ids."""
    handshakes: int
    handshakes_limit_s: float
    tls: int
    rosenpass: int
    rate_s: float
    """How long as many handshakes as possible are made."""
    accounting_rounds: int
    rounds: int
    load_s: float
    flood_s: float
    rekey: bool
    rekey_full: bool
    limit_s: float
    """The bench ends itself after this long, whatever happens."""


PLANS: Final = {
    plan.mode: plan
    for plan in (
        Plan("tiny", "cs-*768-aesgcm-*65", 5, 2.0, 20, 5, 0.5, 20, 1, 0.4, 1.0, False, False, 180.0),
        Plan("default", "cs-*", 30, 1.0, 200, 30, 3.0, 160, 5, 2.0, 5.0, True, False, 1200.0),
        Plan("full", "cs-*", 100, 5.0, 1000, 100, 4.0, 800, 9, 4.0, 30.0, True, True, 9000.0),
    )
}
