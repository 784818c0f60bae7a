"""What a check answers, and how it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pqevidence.errors import EXIT_CHECK, EXIT_OK, EXIT_WARNING

Status = Literal["ok", "warn", "fail"]
_SHOWN_PROBLEMS = 3


@dataclass(frozen=True)
class CheckResult:
    """One line of `pqlab verify`. `detail` lists further problems, empty when there are none."""

    name: str
    status: Status
    observed: str
    expected: str
    detail: str = ""


@dataclass
class Tally:
    """What one check saw over the whole bundle. `looked` counts things examined, `unit` names them."""

    unit: str = "cells"
    looked: int = 0
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    low: float | None = None
    high: float | None = None
    note: str = ""

    def see(self, value: float | None = None) -> None:
        """One more thing examined; its value widens the range that is printed."""
        self.looked += 1
        if value is not None:
            self.low = value if self.low is None else min(self.low, value)
            self.high = value if self.high is None else max(self.high, value)

    def fail(self, observed: str) -> None:
        """Something the bundle must not hold."""
        self.problems.append(observed)

    def warn(self, observed: str) -> None:
        """Something a reader must know, which does not spoil the bundle."""
        self.warnings.append(observed)

    def require(self, condition: bool, observed: str) -> None:
        """Fail with `observed` unless the condition holds."""
        if not condition:
            self.fail(observed)

    def result(self, name: str, expected: str, value_unit: str = "") -> CheckResult:
        """The line: first what is wrong, otherwise how much was looked at and the range seen."""
        found = self.problems or self.warnings
        status: Status = "fail" if self.problems else "warn" if self.warnings else "ok"
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return CheckResult(
                name, status, found[0] + more, expected, "; ".join(found[1 : 1 + _SHOWN_PROBLEMS])
            )
        text = f"{self.looked} {self.unit}"
        if self.low is not None and self.high is not None:
            span = f"{self.low:.4g}" if self.low == self.high else f"{self.low:.4g} … {self.high:.4g}"
            text += f", {span} {value_unit}".rstrip()
        if self.note:
            text += f", {self.note}"
        return CheckResult(name, status, text, expected)


def exit_code(results: Sequence[CheckResult]) -> int:
    """0 all checks · 3 warnings · 5 any check failed, or there is none."""
    if not results or any(result.status == "fail" for result in results):
        return EXIT_CHECK
    return EXIT_WARNING if any(result.status == "warn" for result in results) else EXIT_OK


def format_lines(results: Sequence[CheckResult]) -> list[str]:
    """`[x] name: …` for what holds, `[ ] name: …` for what does not (warnings say so), then the sum."""
    marks = {"ok": "[x] {}: ", "warn": "[ ] {}: warning: ", "fail": "[ ] {}: "}
    lines = []
    for result in results:
        head = marks[result.status].format(result.name)
        lines.append(f"{head}{result.observed}; expected {result.expected}")
        if result.detail:
            lines.append(f"      also: {result.detail}")
    failed = sum(result.status == "fail" for result in results)
    warned = sum(result.status == "warn" for result in results)
    lines.append(
        f"{len(results)} checks: {len(results) - failed - warned} ok, {warned} warnings, {failed} failed"
    )
    return lines
