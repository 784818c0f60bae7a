"""`pqlab doctor`: what this machine has for the lab, and the next command for what it has not.

Only looks: nothing is started, loaded, installed or changed. What can be set by a file of the kernel is
`pqlab tune`'s business (`tuning`), and both ends of an inventory together are `pair`'s.
"""

from __future__ import annotations

from pathlib import Path

from pqlab.doctor import board, engine, kernel, keys, machine
from pqlab.doctor.model import Finding, Requirement, examine, exit_code, render_table, to_json
from pqlab.doctor.system import System

REQUIREMENTS: tuple[Requirement, ...] = (
    *engine.REQUIREMENTS,
    *machine.REQUIREMENTS,
    *keys.REQUIREMENTS,
    *board.REQUIREMENTS,
    *kernel.REQUIREMENTS,
)

__all__ = [
    "REQUIREMENTS",
    "STEADINESS",
    "Finding",
    "Requirement",
    "System",
    "exit_code",
    "render_table",
    "requirements",
    "run_checks",
    "steadiness",
    "to_json",
]


#: what a run may change or find changed at its end; cheap enough to be read on both sides of it
STEADINESS = (
    "quiet",
    "clock source",
    "clock sync",
    "governor",
    "turbo",
    "throttling",
    "board",
    "socket buffers",
)


def run_checks(project: Path, container_lab: bool = True) -> list[Finding]:
    """Examine this machine for the checkout at `project`; takes about two seconds.

    container_lab: False for a lab of hosts, whose controller needs no engine and may itself hold the ports
    of an agent or of the database.
    """
    return examine(requirements(container_lab), System(project))


def requirements(container_lab: bool = True) -> tuple[Requirement, ...]:
    """Those that count for a lab of that kind."""
    return tuple(row for row in REQUIREMENTS if container_lab or row not in engine.REQUIREMENTS)


def steadiness(system: System) -> list[dict[str, str | None]]:
    """The findings that a bundle keeps of its controller's machine, before and after."""
    chosen = [requirement for requirement in REQUIREMENTS if requirement.name in STEADINESS]
    return [finding.as_dict() for finding in examine(chosen, system)]
