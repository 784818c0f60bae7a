"""What a campaign will take: time from measured handshakes, disk from datagram counts. Unknown stays so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pqlab.plan import Cell
from pqlab.scenario.model import Scenario

#: budgeted time of a cell outside its labelled windows, seconds (the published upper limit)
OVERHEAD_S = 1.0
#: bytes of one ledger row, of one sampler period of one host, and of everything else in a cell
_LEDGER_ROW_BYTES = 76
_TELEMETRY_BYTES_PER_S = 30_000
_FIXED_BYTES = 120_000
#: uplink of the session beside the vehicle's stream: heartbeat 1 Hz, TIMESYNC 2 Hz and its answers
_UPLINK_PPS = 8


def handshake_costs_ms(bundle: Path | None) -> dict[str, float]:
    """Median cold handshake of each suite in an earlier bundle, ms; empty where there is none.

    A damaged bundle gives no costs rather than an error: it costs an estimate; `verify` is there to say so.
    """
    costs: dict[str, float] = {}
    if bundle is None:
        return costs
    for file in sorted((bundle / "data" / "cells").glob("*/record.json")):
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            value = record["categories"]["D"]["handshake_total_duration_ms"]["value"]
            suite_id = str(record["suite_id"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        if isinstance(value, int | float):
            costs[suite_id] = float(value)
    return costs


def cell_seconds(scenario: Scenario, suite_id: str, costs_ms: Mapping[str, float]) -> float | None:
    """Expected wall of one cell, or None while the suite's handshake was never measured."""
    cost_ms = costs_ms.get(suite_id)
    if cost_ms is None:
        return None
    shake = scenario.handshake
    wanted_s, least_s = (float(shake[key]) * cost_ms / 1e3 for key in ("count", "min_count"))
    block_s = max(min(float(shake["max_s"]), wanted_s), least_s)
    return scenario.windows_s() + block_s + OVERHEAD_S


def estimate(
    scenario: Scenario, cells: list[Cell], costs_ms: Mapping[str, float], source: str | None
) -> dict[str, Any]:
    """The budget block of plan.json.

    eta_s is None unless every suite was measured before; least_s and most_s bound it from the windows and
    `handshake.max_s` alone.
    """
    walls = [cell_seconds(scenario, cell.suite_id, costs_ms) for cell in cells]
    known = [wall for wall in walls if wall is not None]
    least_s = len(cells) * scenario.windows_s()
    return {
        "cells": len(cells),
        "least_s": round(least_s, 1),
        "most_s": round(least_s + len(cells) * (float(scenario.handshake["max_s"]) + OVERHEAD_S), 1),
        "eta_s": round(sum(known), 1) if len(known) == len(walls) else None,
        "eta_source": source if len(known) == len(walls) else None,
        "eta_reason": None
        if len(known) == len(walls)
        else f"{len(walls) - len(known)} cells of unmeasured suites",
        "disk_bytes": len(cells) * cell_bytes(scenario),
    }


def cell_bytes(scenario: Scenario) -> int:
    """Expected size of one cell's raw files, bytes."""
    datagrams = 0.0
    if scenario.traffic:
        rate = float(scenario.traffic["rate_hz"]) + _UPLINK_PPS
        datagrams += rate * float(scenario.traffic["session_s"])
    if scenario.bulk:
        datagrams += sum(scenario.bulk["rates_pps"]) * float(scenario.bulk["step_s"])
    ledger = 2 * datagrams * _LEDGER_ROW_BYTES if scenario.ledger else 0.0
    seconds = scenario.windows_s() + 2 * OVERHEAD_S
    return int(ledger + seconds * _TELEMETRY_BYTES_PER_S + _FIXED_BYTES)
