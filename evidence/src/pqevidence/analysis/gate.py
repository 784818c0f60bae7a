"""Does a comparison pass? Claims of `compare` against what its user will not have (`--fail-on`).

A gate looks at claims alone: an effect that does not stand out of the noise is none, however large. A gate
that could judge nothing does not pass, because a pipeline would take that for good news.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.analysis.claims import IMPROVED, REGRESSED
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.analysis.table import Row
from pqevidence.errors import UsageError

ANY = "any"
_SPELLED = re.compile(r"(regressed|improved|any)(?::(\d+(?:\.\d+)?)\s?%?)?")
_DIRECTIONS = {REGRESSED: (REGRESSED,), IMPROVED: (IMPROVED,), ANY: (REGRESSED, IMPROVED)}


@dataclass(frozen=True)
class Gate:
    """verdict: regressed, improved or any; least_pct: smaller effects pass, in percent of A (of a loss, in
    points)."""

    verdict: str
    least_pct: float

    def __str__(self) -> str:
        return self.verdict + (f":{self.least_pct:g}%" if self.least_pct else "")

    def bites(self, row: Row) -> bool:
        """Is this row a claim that the gate's user will not have?"""
        if row["verdict"] not in _DIRECTIONS[self.verdict]:
            return False
        size = size_pct(row)
        return size is not None and size >= self.least_pct - 1e-9


def gate_of(text: str) -> Gate:
    """`regressed`, `improved` or `any`, with a least size behind a colon or not (`regressed:5%`). Raises
    UsageError for anything else."""
    found = _SPELLED.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            "bad-gate",
            f"--fail-on {text} says nothing",
            "it is regressed, improved or any, with a least size or not",
            "--fail-on regressed, or --fail-on regressed:5%",
        )
    return Gate(found[1], float(found[2] or 0.0))


def size_pct(row: Row) -> float | None:
    """How large an effect is: of a ratio percent of A, of a difference its own points; None without one."""
    effect = row["mean_effect"]
    if not isinstance(effect, int | float) or isinstance(effect, bool):
        return None
    return abs(effect - 1.0) * 100.0 if row["scale"] == "ratio" else math.fabs(effect)


@dataclass(frozen=True)
class Judged:
    """What the gates found: rows that bite, and why nothing could be judged (None where something was)."""

    rows: list[Row]
    blind: str | None

    @property
    def passes(self) -> bool:
        """Nothing bites, and something was looked at."""
        return not self.rows and self.blind is None


def judge(gates: Sequence[Gate], rows: Sequence[Row]) -> Judged:
    """All rows of the comparison against all gates."""
    biting = [row for row in rows if any(gate.bites(row) for gate in gates)]
    blind = None
    if not rows:
        blind = "nothing was compared: no suite, condition and repetition passed in both"
    elif all(row["verdict"] == INSUFFICIENT for row in rows):
        blind = f"none of {len(rows)} effects could be judged: too few pairs of cells"
    return Judged(biting, blind)
