"""Numbers of datagrams that carry no data: every kind of them takes one, and nothing else does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.measures.traffic.checks import CONTROL, sequence_gaps


def _cell(counters: dict[str, int], sequences: list[int]) -> CellView:
    ledger = SimpleNamespace(tx=SimpleNamespace(key=sequences))
    raw = SimpleNamespace(ledgers={"gcs": ledger}, counters={"gcs": {"tx_keepalive": 0, **counters}})
    return cast(CellView, cast(Any, SimpleNamespace(raw=raw, label="cell")))


@pytest.mark.parametrize("name", CONTROL)
def test_a_number_that_a_packet_without_data_took_is_no_gap(name: str) -> None:
    tally = Tally()
    sequence_gaps(_cell({name: 1}, [1, 2, 4, 5]), tally)
    assert tally.problems == []


def test_one_more_is_a_gap() -> None:
    tally = Tally()
    sequence_gaps(_cell({"tx_epoch_ack": 1, "tx_rekey_request": 1}, [1, 2, 4, 7]), tally)
    assert tally.problems == ["cell gcs: 3 sequences skipped, 2 control packets sent"]


def test_a_count_that_an_older_bundle_lacks_is_no_packet() -> None:
    tally = Tally()
    sequence_gaps(_cell({}, [1, 3]), tally)
    assert tally.problems == ["cell gcs: 1 sequences skipped, 0 control packets sent"]
