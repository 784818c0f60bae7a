"""What a scenario makes of every cell: the windows that are due and how long each lasts."""

from __future__ import annotations

from pqevidence.record.raw import Json


def sessions_due(scenario: Json) -> dict[str, float]:
    """Traffic and bulk windows → seconds."""
    due: dict[str, float] = {}
    if traffic := scenario.get("traffic"):
        due["traffic"] = float(traffic["session_s"])
    if bulk := scenario.get("bulk"):
        due |= {f"bulk-{rate}": float(bulk["step_s"]) for rate in bulk["rates_pps"]}
    return due


def rates_due(scenario: Json) -> dict[str, float]:
    """Traffic and bulk windows → datagrams a second offered by the drone."""
    due: dict[str, float] = {}
    if traffic := scenario.get("traffic"):
        due["traffic"] = float(traffic["rate_hz"])
    if bulk := scenario.get("bulk"):
        due |= {f"bulk-{rate}": float(rate) for rate in bulk["rates_pps"]}
    return due
