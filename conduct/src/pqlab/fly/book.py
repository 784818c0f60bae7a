"""The folder that a flown session leaves: what happened and when, marked as flown and not measured.

It is no bundle: no plan, no record, no seal (`pqevidence.bundle.flown` refuses it).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pqbase.documents import Json
from pqbase.text import utc_text
from pqevidence.bundle.flown import MARK
from pqlab.campaign.clock import Clock
from pqlab.campaign.store import write_atomic, write_json

SCHEMA: Final = "pqlab/flown/v1"
EVENTS: Final = "events.ndjson"
#: under results/
FOLDER: Final = "flown"
NOTICE: Final = (
    "Flown, not measured: nobody kept the traffic, the machine or the ground station steady. "
    "Times and counts here tell what happened; none of them is a result."
)


class FlightBook:
    """The session's own account: one line an event, written when it happens."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock
        self._began_ns = clock.realtime_ns()
        folder.mkdir(parents=True)
        self._events = (folder / EVENTS).open("w", encoding="utf-8", buffering=1)
        # marked before anything else is in it, so that a session that is killed leaves a marked folder too
        self._write({"ended": None})

    def event(self, kind: str, /, **details: object) -> None:
        """One event now."""
        t_ns = self._clock.realtime_ns()
        row = {"t_ns": t_ns, "utc": utc_text(t_ns), "event": kind, **details}
        self._events.write(json.dumps(row, separators=(",", ":")) + "\n")

    def close(self, ended: str, counters: Mapping[str, object]) -> None:
        """The last event and the counters of both ends. ended: why the session is over."""
        self.event("end", why=ended)
        self._events.close()
        self._write({"ended": ended, "ended_utc": utc_text(self._clock.realtime_ns()), "counters": counters})
        write_atomic(self.folder / "README.txt", f"{NOTICE}\n\n{MARK}: the end; {EVENTS}: an event a line.\n")

    def _write(self, more: Json) -> None:
        head = {"schema": SCHEMA, "measured": False, "notice": NOTICE, "began_utc": utc_text(self._began_ns)}
        write_json(self.folder / MARK, {**head, **more})
