"""What a campaign will take: time from measured costs, disk from datagram counts. Unknown stays so."""

from __future__ import annotations

from pqbase.documents import Json, number_of, numbers_of, part_or_none
from pqevidence.costs import Costs, load_costs
from pqevidence.plan import Cell
from pqevidence.record.fleet import DIALLING, fleet_of
from pqevidence.scenario.model import Scenario
from pqlab.campaign.canary import canary_s

__all__ = ["Costs", "cell_bytes", "cell_seconds", "estimate", "load_costs"]

#: the published upper limit of a cell's time outside its labelled windows, seconds
OVERHEAD_LIMIT_S = 1.0
#: bytes of one ledger row, of one sampler period of one host, and of everything else in a cell
_LEDGER_ROW_BYTES = 76
_TELEMETRY_BYTES_PER_S = 30_000
_FIXED_BYTES = 120_000
#: uplink of the session beside the vehicle's stream: heartbeat 1 Hz, TIMESYNC 2 Hz and its answers
_UPLINK_PPS = 8
#: of a fleet: containers, keys, three seconds of silence twice, and the steps of the load
_FLEET_BESIDE_S = 30.0


def handshake_seconds(scenario: Scenario, suite_id: str, costs: Costs) -> float | None:
    """Expected length of the handshake window, or None for a suite that was never measured."""
    one_s = costs.handshake_s.get(suite_id)
    if one_s is None:
        return None
    shake = scenario.handshake
    wanted_s, least_s = (number_of(shake, key) * one_s for key in ("count", "min_count"))
    # the block ends with the handshake during which max_s passes
    block_s = max(min(number_of(shake, "max_s") + one_s / 2, wanted_s), least_s)
    pooled = part_or_none(shake, "pooled")
    if pooled is None:
        return block_s
    # a pooled handshake and the pair made ahead for it take together what a cold one takes
    return block_s + number_of(pooled, "count") * one_s


def cell_seconds(scenario: Scenario, costs: Costs, suite_id: str, condition: str) -> float | None:
    """Expected time from one cell's start to the next one's, or None while its handshake is unknown."""
    block_s = handshake_seconds(scenario, suite_id, costs)
    if block_s is None:
        return None
    beside_s = costs.cell_s + costs.datagram_s * datagrams(scenario)
    fleet_s = fleet_seconds(scenario.condition(condition), costs.handshake_s[suite_id])
    return scenario.windows_s() + block_s + beside_s + fleet_s + _wait_seconds(scenario, costs, condition)


def fleet_least_s(condition: Json) -> float:
    """What the fleet of a condition takes by its own settings, handshakes left aside; 0 without one."""
    if (asked := fleet_of(condition)) is None:
        return 0.0
    return (
        number_of(asked, "arrive_s")
        + 2 * number_of(asked, "window_s")
        + number_of(asked, "outage_s")
        + number_of(asked, "load_s")
    )


def fleet_seconds(condition: Json, handshake_s: float) -> float:
    """Expected length of its fleet: four times every drone dials, on a machine that both ends share."""
    if (asked := fleet_of(condition)) is None:
        return 0.0
    dialling_s = min(number_of(asked, "drones") * handshake_s, number_of(asked, "limit_s"))
    return fleet_least_s(condition) + len(DIALLING) * dialling_s + _FLEET_BESIDE_S


def _wait_seconds(scenario: Scenario, costs: Costs, condition: str) -> float:
    """Labelled waits of a condition: as measured, else what its probes and its canary are set to take."""
    told = scenario.condition(condition)
    after_s = canary_s(told)
    if condition in costs.wait_s:
        return max(costs.wait_s[condition], after_s)
    link = told["link"]
    probe = link.get("probe") if isinstance(link, dict) else None
    if not probe:
        return after_s
    return after_s + float(probe["udp_count"] + probe["tcp_count"]) / float(probe["rate_hz"])


def estimate(scenario: Scenario, cells: list[Cell], costs: Costs) -> Json:
    """The budget block of plan.json.

    eta_s is None unless every suite's handshake is known; least_s and most_s bound it from the windows and
    `handshake.max_s` alone.
    """
    walls = [cell_seconds(scenario, costs, cell.suite_id, cell.condition) for cell in cells]
    known = [wall for wall in walls if wall is not None]
    whole = len(known) == len(walls)
    canaries_s = sum(canary_s(scenario.condition(cell.condition)) for cell in cells)
    fleets_s = sum(fleet_least_s(scenario.condition(cell.condition)) for cell in cells)
    waits_s = sum(_fleet_limit_s(scenario.condition(cell.condition)) for cell in cells)
    least_s = len(cells) * scenario.windows_s() + canaries_s + fleets_s
    beside_s = number_of(scenario.handshake, "max_s") + OVERHEAD_LIMIT_S
    finish_s = costs.finish_s + costs.finish_datagram_s * datagrams(scenario) * len(cells)
    suites = {cell.suite_id for cell in cells}
    return {
        "cells": len(cells),
        "least_s": round(least_s, 1),
        "most_s": round(least_s + len(cells) * beside_s + waits_s, 1),
        "eta_s": round(sum(known) + finish_s, 1) if whole else None,
        "eta_source": _source(suites, costs) if whole else None,
        "eta_reason": None if whole else f"{len(walls) - len(known)} cells of unmeasured suites",
        "disk_bytes": len(cells) * cell_bytes(scenario),
    }


def _fleet_limit_s(condition: Json) -> float:
    asked = fleet_of(condition)
    return 0.0 if asked is None else len(DIALLING) * number_of(asked, "limit_s") + 2 * _FLEET_BESIDE_S


def _source(suites: set[str], costs: Costs) -> str:
    table = "the built-in table of primitive times"
    mine = len(suites & costs.measured)
    if mine == 0:
        return table
    if mine == len(suites):
        return f"{costs.source}"
    return f"{costs.source} ({mine} suites) and {table}, scaled to it ({len(suites) - mine})"


def datagrams(scenario: Scenario) -> float:
    """Datagrams of one cell, both directions."""
    count = 0.0
    if scenario.traffic:
        rate = number_of(scenario.traffic, "rate_hz") + _UPLINK_PPS
        count += rate * number_of(scenario.traffic, "session_s")
    if scenario.bulk:
        count += sum(numbers_of(scenario.bulk, "rates_pps")) * number_of(scenario.bulk, "step_s")
    return count


def cell_bytes(scenario: Scenario) -> int:
    """Expected size of one cell's raw files, bytes."""
    ledger = 2 * datagrams(scenario) * _LEDGER_ROW_BYTES if scenario.ledger else 0.0
    seconds = scenario.windows_s() + 2 * OVERHEAD_LIMIT_S
    return int(ledger + seconds * _TELEMETRY_BYTES_PER_S + _FIXED_BYTES)
