"""Checks as test cases."""

from __future__ import annotations

from collections.abc import Sequence

from pqevidence.exchange.junit import Case
from pqevidence.kernel.result import CheckResult


def of_checks(results: Sequence[CheckResult], *, strict: bool) -> list[Case]:
    """One case a check of verify. A warning passes and says what it saw; strict: it is a failure."""
    return [_of_check(result, strict) for result in results]


def _of_check(result: CheckResult, strict: bool) -> Case:
    failed = result.status == "fail" or (strict and result.status == "warn")
    told = f"{result.observed}; expected {result.expected}"
    also = f"\nalso: {result.detail}" if result.detail else ""
    return Case(
        group="verify",
        name=result.name,
        outcome="failure" if failed else "passed",
        kind=result.status,
        message=told if failed else "",
        detail=told + also if failed else "",
        output=f"warning: {told}{also}" if result.status == "warn" and not failed else "",
    )
