"""Which of this machine's container labs is meant: LAB in the environment, 1 without it.

Names, networks, addresses and published ports of the labs are apart (compose/lab.sh has the same rule), so
that several can be up at once. They share the machine's processors: to each other they are neighbours.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pqevidence.errors import UsageError

VARIABLE: Final = "LAB"
FIRST_PROJECT: Final = "pqlab"
MOST: Final = 4
_PORTS_APART: Final = 100
_COMMANDS: Final = re.compile(r"(make lab-(?:up|down|status)\b)|(\./compose/lab\.sh\b)")


@dataclass(frozen=True)
class LabNumber:
    """One of 1 to 4."""

    number: int

    @property
    def project(self) -> str:
        """Its name in compose, which its containers' and networks' names begin with."""
        return FIRST_PROJECT if self.number == 1 else f"{FIRST_PROJECT}{self.number}"

    @property
    def words(self) -> str:
        """What a make target of it is called with, with a blank before; nothing for the first."""
        return "" if self.number == 1 else f" {VARIABLE}={self.number}"

    def port(self, first: int) -> int:
        """Its own port, where lab 1 publishes `first`."""
        return first + _PORTS_APART * (self.number - 1)


def lab_number() -> LabNumber:
    """The lab that the environment names. Raises UsageError (exit 2) for a number that is none."""
    text = os.environ.get(VARIABLE) or "1"
    if text not in tuple(map(str, range(1, MOST + 1))):
        raise UsageError(
            "no-such-lab",
            f"{VARIABLE}={text} is no lab",
            f"a machine has {MOST} at most, by number",
            f"{VARIABLE}=1 (the default), 2, 3 or 4",
        )
    return LabNumber(int(text))


@contextlib.contextmanager
def on_lab(lab: LabNumber | None) -> Iterator[None]:
    """Within it the environment names that lab, for this process and what it starts; None: as it is."""
    before = os.environ.get(VARIABLE)
    if lab is not None:
        os.environ[VARIABLE] = str(lab.number)
    try:
        yield
    finally:
        if lab is not None:
            os.environ.pop(VARIABLE)
            os.environ.update({} if before is None else {VARIABLE: before})


def of_this_lab(text: str) -> str:
    """Commands within `text`, written for lab 1, as the lab that LAB names takes them."""
    try:
        lab = lab_number()
    except UsageError:
        return text  # that LAB is no lab is what is being told
    if lab.number == 1:
        return text
    return _COMMANDS.sub(
        lambda found: found[1] + lab.words if found[1] else f"{lab.words.strip()} {found[2]}", text
    )
