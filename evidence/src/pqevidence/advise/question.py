"""What an operator asks, checked. Units are in the names."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection
from dataclasses import dataclass

from pqevidence.advise.radio import Radio
from pqevidence.errors import UsageError
from pqtunnel import suites as registry
from pqtunnel.suites import Suite


@dataclass(frozen=True)
class Question:
    """least_level: of NIST; excluded: families or AEADs that must not be in a suite; outage_s: the longest
    loss of control that is tolerated, None for any; battery_wh: None where nobody told."""

    radio: Radio
    flight_s: float
    rekey_every_s: float
    least_level: int = 1
    excluded: frozenset[str] = frozenset()
    outage_s: float | None = None
    battery_wh: float | None = None

    @property
    def rekeys_count(self) -> int:
        """Rekeys of one flight: one after each interval that ends before the flight does."""
        return max(0, math.ceil(self.flight_s / self.rekey_every_s) - 1)

    def allows(self, suite: Suite) -> bool:
        """A post-quantum suite of that level, of no excluded family."""
        if suite.is_plain or not suite.level_label.isdigit() or suite.level < self.least_level:
            return False
        return not self.excluded & {suite.kem.family, suite.sig.family, suite.aead.token}


def known_families() -> list[str]:
    """What `--without` takes: families of KEM and signature, and AEADs."""
    suites = [suite for suite in registry.ALL.values() if not suite.is_plain]
    named = {name for s in suites for name in (s.kem.family, s.sig.family, s.aead.token)}
    return sorted(named)


def excluded_families(names: Collection[str]) -> frozenset[str]:
    """Raises UsageError for a name that no suite has."""
    known = known_families()
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                "bad-family",
                f"--without {name} names no family of suites",
                f"there are: {', '.join(known)}",
                f"--without {close[0]}" if close else "./pqlab list suites",
            )
    return frozenset(names)


def more_than_zero(option: str, value: float) -> float:
    """Raises UsageError for what is not a number above zero."""
    if not 0.0 < value < math.inf:
        raise UsageError(
            "bad-number", f"{option} {value:g} cannot be", "it is a number above zero", f"{option} 30"
        )
    return value
