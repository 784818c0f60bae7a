"""The controller's own account of a cell: events for the record, lines for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from pqbase.documents import Json
from pqbase.text import utc_text
from pqlab.campaign.clock import Clock


@dataclass
class Journal:
    """Events in their order; timed events of a cell write from a thread of their own.

    tell: hears of each event when it happens, for whoever watches; None: nobody does.
    """

    clock: Clock
    tell: Callable[[Json], None] | None = None
    events: list[Json] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def event(self, kind: str, **details: object) -> None:
        """One event now."""
        t_ns = self.clock.realtime_ns()
        row = {"t_ns": t_ns, "host": "controller", "event": kind, **details}
        self.events.append(row)
        told = " ".join(f"{key}={json.dumps(value)}" for key, value in details.items())
        self.lines.append(f"{utc_text(t_ns)} {t_ns % 10**9 // 10**6:03d} {kind} {told}".rstrip())
        if self.tell is not None:
            self.tell(row)
