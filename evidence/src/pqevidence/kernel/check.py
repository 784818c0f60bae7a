"""What a check is: a name, what is expected, a function, and the cells that it looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView, CellView

Scope = Literal["bundle", "all", "run", "pass"]


@dataclass(frozen=True)
class Check:
    """One check.

    scope: `bundle` calls once with the bundle; `all` once a cell that has a record, `run` once a cell that
    was carried out (pass, fail or invalid), `pass` once a cell that claims a result; not one whose condition
    had an end killed, which took half the evidence with it on purpose.
    needs_seal: left out for a run that is not sealed yet.
    last: called once all others are done, with what they said and read.
    """

    name: str
    expected: str
    scope: Scope
    bundle: Callable[[BundleView, Tally], None] | None = None
    cell: Callable[[CellView, Tally], None] | None = None
    unit: str = "cells"
    value_unit: str = ""
    needs_seal: bool = False
    last: bool = False


def whole(
    name: str,
    function: Callable[[BundleView, Tally], None],
    expected: str,
    unit: str,
    *,
    needs_seal: bool = False,
    value_unit: str = "",
    last: bool = False,
) -> Check:
    """A check that looks at the bundle at once; `unit` names what it counts."""
    return Check(name, expected, "bundle", function, None, unit, value_unit, needs_seal, last)


def each(
    name: str, function: Callable[[CellView, Tally], None], scope: Scope, expected: str, value_unit: str = ""
) -> Check:
    """A check that looks at cells one by one."""
    return Check(name, expected, scope, None, function, "cells", value_unit)
