"""What a campaign is asked to measure: YAML, a shipped JSON Schema, defaults, overrides with their origin.

The names below are fetched when first used: `conditions` and the schema files serve records and checks too,
and a checker that stands alone has no schema library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pqevidence.scenario.compose import available_overlays, available_scenarios
    from pqevidence.scenario.load import load_scenario
    from pqevidence.scenario.model import Overrides, Scenario

__all__ = ["Overrides", "Scenario", "available_overlays", "available_scenarios", "load_scenario"]
_HOMES = {
    "Overrides": "model",
    "Scenario": "model",
    "available_overlays": "compose",
    "available_scenarios": "compose",
    "load_scenario": "load",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
