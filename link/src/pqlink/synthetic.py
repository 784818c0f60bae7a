"""Traces that nobody measured: a good and a bad state by turns (Gilbert-Elliott in time), and they say so.

E. N. Gilbert, "Capacity of a Burst-Noise Channel", Bell System Technical Journal 39 (1960); E. O. Elliott,
"Estimates of Error Rates for Codes on Burst-Noise Channels", ibid. 42 (1963). The states last a geometric
number of slots. Only comparisons of uniform numbers decide, so a seed gives the same bytes on every machine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from pqlink.errors import TraceError
from pqlink.trace import MOST_ROWS, trace_text


@dataclass(frozen=True)
class State:
    """What holds while the state lasts, as the trace writes it; None where the trace shall not know."""

    mean_ms: int
    loss_pct: str | None = None
    rate_bit_s: str | None = None
    delay_ms: str | None = None

    @property
    def cells(self) -> list[str]:
        """Values in the order of the columns that the trace has."""
        return [text for text in (self.rate_bit_s, self.delay_ms, self.loss_pct) if text is not None]

    @property
    def names(self) -> list[str]:
        """Columns that the trace has."""
        pairs = (("rate_bit_s", self.rate_bit_s), ("delay_ms", self.delay_ms), ("loss_pct", self.loss_pct))
        return [name for name, text in pairs if text is not None]


def gilbert_elliott(
    good: State, bad: State, *, length_ms: int, slot_ms: int, seed: int, meta: dict[str, str]
) -> str:
    """The text of a trace that begins in the good state. meta: further lines of its head.

    Raises TraceError for states shorter than a slot or a trace without length.
    """
    if good.names != bad.names:
        raise TraceError("both states must tell the same quantities", hint="give each value for both states")
    if slot_ms < 1 or length_ms < slot_ms or min(good.mean_ms, bad.mean_ms) < slot_ms:
        raise TraceError(
            f"slots of {slot_ms} ms do not fit states of {good.mean_ms}, {bad.mean_ms} ms in {length_ms} ms",
            hint="slot ≥ 1 ms, no state and no trace shorter than a slot",
        )
    rng = random.Random(f"pqlink trace {seed}")
    rows: list[list[str]] = []
    state = good
    for start_ms in range(0, length_ms, slot_ms):
        if start_ms and rng.random() * state.mean_ms < slot_ms:
            state = bad if state is good else good
        row = state.cells
        if not rows or rows[-1][1:] != row:
            rows.append([str(start_ms), *row])
    if len(rows) > MOST_ROWS:
        raise TraceError(f"the trace would have {len(rows)} rows, {MOST_ROWS} are the most")
    head = {
        "origin": "synthetic",
        "source": "generated, no radio was measured: Gilbert-Elliott, good state "
        f"{good.mean_ms} ms and bad state {bad.mean_ms} ms in the mean, slots of {slot_ms} ms, seed {seed}",
        **meta,
    }
    return trace_text(head, good.names, rows, str(length_ms))
