"""What a campaign is asked to measure: YAML, a shipped JSON Schema, defaults, overrides with their origin."""

from pqlab.scenario.load import available_scenarios, load_scenario
from pqlab.scenario.model import Overrides, Scenario

__all__ = ["Overrides", "Scenario", "available_scenarios", "load_scenario"]
