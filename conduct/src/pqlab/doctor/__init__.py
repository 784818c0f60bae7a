"""`pqlab doctor`: what this machine has for the lab, and the next command for what it has not.

Only looks: nothing is started, loaded, installed or changed. What can be set by a file of the kernel is
`pqlab tune`'s business (`tuning`), and both ends of an inventory together are `pair`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pqlab.doctor import board, engine, kernel, keys, machine
from pqlab.doctor.model import Finding, Requirement, examine, exit_code, render_table, to_json
from pqlab.doctor.system import System
from pqlab.lab_number import LabNumber, of_this_lab, on_lab

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
    "lab_checks",
    "of_lab",
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


def run_checks(project: Path, container_lab: bool = True, *, several_labs: bool = False) -> list[Finding]:
    """Examine this machine for the checkout at `project`; takes about two seconds.

    container_lab: False for a lab of hosts, whose controller needs no engine and may itself hold the ports
    of an agent or of the database. several_labs: each is asked for by itself (`lab_checks`).
    """
    rows = requirements(container_lab)
    if several_labs:
        rows = tuple(row for row in rows if row.name not in engine.OF_A_LAB)
    return examine(rows, System(project))


def lab_checks(project: Path, lab: LabNumber, host: str) -> list[Finding]:
    """What is of one container lab of this machine; host: how it is called in the table."""
    rows = [row for row in engine.REQUIREMENTS if row.name in engine.OF_A_LAB]
    with on_lab(lab):
        found = examine(rows, System(project))
    return of_lab([replace(row, host=host) for row in found], lab)


def of_lab(findings: Iterable[Finding], lab: LabNumber | None) -> list[Finding]:
    """The same, with commands as that lab of this machine takes them."""
    with on_lab(lab):
        return [replace(row, advice=row.advice and of_this_lab(row.advice)) for row in findings]


def requirements(container_lab: bool = True) -> tuple[Requirement, ...]:
    """Those that count for a lab of that kind."""
    return tuple(row for row in REQUIREMENTS if container_lab or row not in engine.REQUIREMENTS)


def steadiness(system: System) -> list[dict[str, str | None]]:
    """The findings that a bundle keeps of its controller's machine, before and after."""
    chosen = [requirement for requirement in REQUIREMENTS if requirement.name in STEADINESS]
    return [finding.as_dict() for finding in examine(chosen, system)]
