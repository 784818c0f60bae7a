"""What a requirement is, what reading it gives, and what a list of findings means for the exit code.

In scope: levels, verdicts, table and JSON. Not in scope: how anything is read (`system`), what is asked, and
how a wish is carried out and taken back (`tuning`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_WARNING
from pqlab.doctor.system import System

#: need: the lab cannot run without it; want: results suffer; note: told, never counted
Level = Literal["need", "want", "note"]
Status = Literal["ok", "warn", "fail", "note"]


@dataclass(frozen=True)
class Reading:
    """What was found. `ok` None means that it could not be read; `observed` then says why."""

    ok: bool | None
    observed: str
    advice: str | None = None  # overrides the requirement's own where the cause is known better


@dataclass(frozen=True)
class Finding:
    """One line of the table; `advice` is the next command, only where something is amiss. host: whose it is;
    empty for this machine."""

    name: str
    status: Status
    observed: str
    expected: str
    advice: str | None
    host: str = ""

    def as_dict(self) -> dict[str, str | None]:
        """JSON-ready; `host` only where it is another one."""
        return {
            **({"host": self.host} if self.host else {}),
            "name": self.name,
            "status": self.status,
            "observed": self.observed,
            "expected": self.expected,
            "advice": self.advice,
        }


@dataclass(frozen=True)
class Wish:
    """A file below the root (sysfs, sysctl) and the value that it should hold."""

    path: str
    value: str


@dataclass(frozen=True)
class Requirement:
    """One thing about this machine: how it is read and what to do about it.

    read: takes the machine, gives a Reading, raises OSError or ValueError where it cannot be read at all.
    advise: the next command for somebody whose reading is not ok.
    write: what `pqlab tune` would set here, where the kernel lets a file be set; None where only people can
    act.
    host: whose it is, where it is not this machine's.
    """

    name: str
    level: Level
    expected: str
    read: Callable[[System], Reading]
    advise: str
    write: Callable[[System], list[Wish]] | None = None
    host: str = ""

    def check(self, system: System) -> Finding:
        """Read and judge; what cannot be read is amiss, never taken for fine."""
        try:
            reading = self.read(system)
        except (OSError, ValueError, IndexError, KeyError) as error:
            reading = Reading(None, f"cannot be read: {error}")
        bad: Status = {"need": "fail", "want": "warn", "note": "note"}[self.level]  # type: ignore[assignment]
        status: Status = "ok" if reading.ok else bad
        advice = None if reading.ok else (reading.advice or self.advise)
        return Finding(self.name, status, reading.observed, self.expected, advice, self.host)


def examine(requirements: Iterable[Requirement], system: System) -> list[Finding]:
    """All findings, in the order of the requirements."""
    return [requirement.check(system) for requirement in requirements]


def exit_code(findings: Sequence[Finding]) -> int:
    """4 when something needed is missing, 3 when something wanted is, else 0; notes do not count."""
    statuses = {finding.status for finding in findings}
    if "fail" in statuses:
        return EXIT_ENVIRONMENT
    return EXIT_WARNING if "warn" in statuses else EXIT_OK


THIS_MACHINE = "this machine"
BOTH_ENDS = "both ends"
_MARKS: dict[Status, str] = {"ok": "[x]", "warn": "[!]", "fail": "[ ]", "note": "[-]"}


def render_table(findings: Sequence[Finding]) -> str:
    """Lines `[x] name  observed`; what is amiss is followed by what is expected and the next command. Under
    the name of its host, where there are several."""
    width = max((len(finding.name) for finding in findings), default=0)
    hosts = list(dict.fromkeys(finding.host for finding in findings))
    lines: list[str] = []
    for host in hosts:
        if any(hosts):
            lines.append(f"{host or THIS_MACHINE}:")
        lines += [line for finding in findings if finding.host == host for line in _lines(finding, width)]
    counts = {status: sum(finding.status == status for finding in findings) for status in _MARKS}
    lines.append(
        f"{counts['ok']} fine, {counts['warn']} to look at, {counts['fail']} missing, {counts['note']} notes"
    )
    return "\n".join(lines)


def _lines(finding: Finding, width: int) -> list[str]:
    lines = [f"{_MARKS[finding.status]} {finding.name:<{width}}  {finding.observed}"]
    if finding.status != "ok":
        lines.append(f"    {'':<{width}}  expected: {finding.expected}")
        if finding.advice:
            lines.append(f"    {'':<{width}}  next: {finding.advice}")
    return lines


def to_json(findings: Sequence[Finding]) -> dict[str, object]:
    """{"exit_code", "findings": [{host, name, status, observed, expected, advice}]}."""
    return {"exit_code": exit_code(findings), "findings": [finding.as_dict() for finding in findings]}
