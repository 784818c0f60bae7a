"""Counters at every tick: what a sampler that was held up in the middle of one read, and what nobody read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.measures.host import ticks

S = 1_000_000_000
BEGAN_NS = 1_700_000_000 * S


def _told(tx_data: int, age_ms: float) -> list[str]:
    """Problems of a line at 1 s whose end sent a datagram every 0.1 s, the first at 0.1 s."""
    sent = SimpleNamespace(t_out_ns=[BEGAN_NS + n * S // 10 for n in range(1, 51)])
    ledger = SimpleNamespace(tx=sent, rx=SimpleNamespace(t_out_ns=[]))
    raw = SimpleNamespace(ledgers={"gcs": ledger}, canary=None)
    cell = cast("CellView", SimpleNamespace(raw=raw, label="cell"))
    line = f"pq_tunnel,host=gcs age_ms={age_ms},tx_data={tx_data}i {BEGAN_NS + S}"
    tally = Tally()
    ticks._datagrams(cell, "gcs", ticks.ticks_of([line], "pq_tunnel"), tally)
    return tally.problems


@pytest.mark.parametrize(("tx_data", "age_ms"), [(10, 20.0), (30, -2_000.0)])
def test_a_line_is_held_to_the_time_of_its_counters(tx_data: int, age_ms: float) -> None:
    assert _told(tx_data, age_ms) == []


@pytest.mark.parametrize(("tx_data", "age_ms"), [(30, 20.0), (5, 20.0), (40, -2_000.0), (10, -2_000.0)])
def test_counters_of_another_time_are_refused(tx_data: int, age_ms: float) -> None:
    (problem,) = _told(tx_data, age_ms)
    assert f"tx_data {tx_data} in telemetry.gcs.lp" in problem
