"""`pqlab doctor`: what this machine has for the lab, and the next command for what it has not.

Only looks: nothing is started, loaded, installed or changed.
"""

from __future__ import annotations

from pathlib import Path

from pqlab.doctor import engine, kernel, keys, machine
from pqlab.doctor.model import Finding, Requirement, examine, exit_code, render_table, to_json
from pqlab.doctor.system import System

REQUIREMENTS: tuple[Requirement, ...] = (
    *engine.REQUIREMENTS,
    *machine.REQUIREMENTS,
    *keys.REQUIREMENTS,
    *kernel.REQUIREMENTS,
)

__all__ = [
    "REQUIREMENTS",
    "Finding",
    "Requirement",
    "System",
    "exit_code",
    "render_table",
    "run_checks",
    "to_json",
]


def run_checks(project: Path) -> list[Finding]:
    """Examine this machine for the checkout at `project`; takes about two seconds."""
    return examine(REQUIREMENTS, System(project))
