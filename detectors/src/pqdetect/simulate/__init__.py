"""Simulator: flights with truth, thousands of times faster than they last. Ring `sim`: no physical claim.

`splits.scenarios` draws descriptions from the table `splits.json`, `engine.simulate` turns one into a
recording.
"""

from pqdetect.simulate.engine import simulate
from pqdetect.simulate.spec import AttackSpec, GroundSpec, LinkSpec, Spec, StraySpec
from pqdetect.simulate.splits import scenarios, table, table_sha256

__all__ = [
    "AttackSpec",
    "GroundSpec",
    "LinkSpec",
    "Spec",
    "StraySpec",
    "scenarios",
    "simulate",
    "table",
    "table_sha256",
]
