"""Steps of a handshake by their names: which are cryptography and which are waiting is no choice."""

from __future__ import annotations

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.raw import PRIMITIVES

CRYPTO, WAITING = "crypto", "network_wait"
_WAITS = "wait_"


def named(cell: CellView, tally: Tally) -> None:
    """A primitive is of kind `crypto` and nothing else is; what is named a wait is of kind `network_wait` and
    nothing else is. Sums over kinds are thus sums over the same steps in every cell."""
    tally.see()
    odd = {
        (span.step, span.kind)
        for span in cell.raw.spans or []
        if (span.kind == CRYPTO) is not (span.step in PRIMITIVES)
        or (span.kind == WAITING) is not span.step.startswith(_WAITS)
    }
    for step, kind in sorted(odd):
        tally.fail(f"{cell.label}: {step} is of kind {kind} in spans.ndjson")
