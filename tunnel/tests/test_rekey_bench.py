"""The rekey bench's judgement of one direction, on ledgers made here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pqtunnel.blackout import EPOCH_SHIFT

MS = 1_000_000
INTERVAL_NS = 3_125_000
EPOCH_PACKETS = 160
"""Half a second of traffic an epoch."""
DELAY_NS = 100_000


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """`tunnel/bench/rekey.py`, which belongs to no package."""
    path = Path(__file__).parents[1] / "bench" / "rekey.py"
    spec = importlib.util.spec_from_file_location("rekey_bench", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def report(
    bench: ModuleType, late_ns: dict[int, int], paused_ns: dict[int, int] | None = None
) -> dict[str, Any]:
    """Six epochs of evenly sent packets that stay in order. `late_ns`: packet number → what it is held up;
    `paused_ns`: packet number → how much later it and all after it are sent."""
    sent, received, at_ns, came_ns = [], [], 0, 0
    for number in range(6 * EPOCH_PACKETS):
        at_ns += INTERVAL_NS + (paused_ns or {}).get(number, 0)
        key = number // EPOCH_PACKETS << EPOCH_SHIFT | number % EPOCH_PACKETS
        sent.append((key, at_ns, at_ns))
        came_ns = max(came_ns, at_ns + DELAY_NS + late_ns.get(number, 0))
        received.append((key, at_ns, came_ns))
    found: dict[str, Any] = bench.direction_report(sent, received)
    return found


def counts(found: dict[str, Any], bench: ModuleType) -> dict[str, int]:
    return {name: found[name] for name in bench.JUDGED}


def test_even_traffic_has_nothing_over_the_limit(bench: ModuleType) -> None:
    found = report(bench, {})
    assert counts(found, bench) == {
        "judged_switches": 5,
        "judged_over_count": 0,
        "judged_between": 4,
        "judged_between_over_count": 0,
    }
    assert found["lost_count"] == 0
    assert found["largest_judged_gap_ms"] == INTERVAL_NS / MS


def test_a_late_packet_counts_at_the_switch_or_between_two_by_where_it_falls(bench: ModuleType) -> None:
    at_switch = report(bench, {2 * EPOCH_PACKETS: 4 * MS})
    assert counts(at_switch, bench)["judged_over_count"] == 1
    assert counts(at_switch, bench)["judged_between_over_count"] == 0
    assert at_switch["largest_judged_gap_ms"] == (INTERVAL_NS + 4 * MS) / MS
    halfway = report(bench, {2 * EPOCH_PACKETS + EPOCH_PACKETS // 2: 4 * MS})
    assert counts(halfway, bench)["judged_over_count"] == 0
    assert counts(halfway, bench)["judged_between_over_count"] == 1


def test_a_gap_of_twice_the_interval_is_within_the_limit(bench: ModuleType) -> None:
    assert counts(report(bench, {2 * EPOCH_PACKETS: INTERVAL_NS}), bench)["judged_over_count"] == 0
    assert counts(report(bench, {2 * EPOCH_PACKETS: INTERVAL_NS + 1}), bench)["judged_over_count"] == 1


def test_where_the_source_paused_nothing_is_judged(bench: ModuleType) -> None:
    at_switch = counts(report(bench, {}, {2 * EPOCH_PACKETS: 6 * MS}), bench)
    assert (at_switch["judged_switches"], at_switch["judged_between"]) == (4, 4)
    halfway = counts(report(bench, {}, {2 * EPOCH_PACKETS + EPOCH_PACKETS // 2: 6 * MS}), bench)
    assert (halfway["judged_switches"], halfway["judged_between"]) == (5, 3)
