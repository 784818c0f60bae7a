"""What a campaign is asked to measure: YAML, a shipped JSON Schema, defaults, overrides with their origin."""

from pqlab.scenario.compose import available_overlays, available_scenarios
from pqlab.scenario.load import load_scenario
from pqlab.scenario.model import Overrides, Scenario

__all__ = ["Overrides", "Scenario", "available_overlays", "available_scenarios", "load_scenario"]
