"""Faults of this host that a cell may ask for: a clock that is off, a sensor that stalls; both end alone.

The clock itself is never touched: the offset is added to the stamps that leave this agent, to those of ledger
and events whose own time lies within the fault. A stalled sensor is its process, stopped and continued.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pqtunnel.agent.params import Params, ParamsError
from pqtunnel.agent.telemetry import Telemetry
from pqtunnel.endpoint.endpoint import Endpoint

LONGEST_S: Final = 3600.0
OFFSET_MAX_MS: Final = 86_400_000.0
#: columns of a ledger row that hold realtime
_LEDGER_TIMES: Final = (4, 5)


@dataclass
class _Offset:
    start_ns: int
    end_ns: int
    offset_ns: int


class Faults:
    """Handlers by kind of event, the watchdog that ends a stall, and the offsets of the present cell."""

    def __init__(self, endpoint: Endpoint, telemetry: Telemetry) -> None:
        self._endpoint = endpoint
        self._telemetry = telemetry
        self._offsets: list[_Offset] = []
        self._stall_over: threading.Timer | None = None

    def table(self) -> dict[str, Callable[[Params], dict[str, object]]]:
        """Kind → handler."""
        return {"clock_offset": self._clock_offset, "sensor_stall": self._sensor_stall}

    def forget(self) -> None:
        """A new cell begins: no fault of the last one reaches it."""
        self._end_stall()
        self._offsets = []

    def end(self) -> None:
        """The cell ends, and what still lasts. Offsets stay known: the cell's stamps carry them."""
        self._end_stall()
        now_ns = time.time_ns()
        for offset in self._offsets:
            offset.end_ns = min(offset.end_ns, now_ns)

    # ------------------------------------------------------------------ clock

    def _clock_offset(self, given: Params) -> dict[str, object]:
        offset_ms = given.number("offset_ms", least=-OFFSET_MAX_MS, most=OFFSET_MAX_MS)
        for_s = given.number("for_s", least=0.0, most=LONGEST_S)
        given.done()
        start_ns = time.time_ns()
        if any(start_ns < offset.end_ns for offset in self._offsets):
            raise ParamsError("clock_offset: another one lasts", hint="let it end first")
        offset = _Offset(start_ns, start_ns + round(for_s * 1e9), round(offset_ms * 1e6))
        self._endpoint.work.journal.event(
            "clock_offset", offset_ms=offset_ms, start_ns=start_ns, end_ns=offset.end_ns
        )
        self._offsets.append(offset)
        return {"start_ns": start_ns, "end_ns": offset.end_ns}

    def shift(self, t_ns: int) -> int:
        """What this host's clock would have said at `t_ns`."""
        for offset in self._offsets:
            if offset.start_ns <= t_ns < offset.end_ns:
                return t_ns + offset.offset_ns
        return t_ns

    def shifted(self, stream: str, lines: list[str]) -> list[str]:
        """Lines of a stream as this host's clock would have stamped them; other streams as they are."""
        if not self._offsets:
            return lines
        if stream == "ledger":
            return [self._ledger_row(line) for line in lines]
        if stream == "events":
            return [self._event_row(line) for line in lines]
        return lines

    def _ledger_row(self, line: str) -> str:
        cells = line.split(",")
        for column in _LEDGER_TIMES:
            if cells[column].isdigit():
                cells[column] = str(self.shift(int(cells[column])))
        return ",".join(cells)

    def _event_row(self, line: str) -> str:
        row = json.loads(line)
        # the fault's own row tells when it really was
        if row.get("event") != "clock_offset":
            row["t_ns"] = self.shift(int(row["t_ns"]))
        return json.dumps(row, separators=(",", ":"))

    # ------------------------------------------------------------------ sensor

    def _sensor_stall(self, given: Params) -> dict[str, object]:
        for_s = given.number("for_s", least=0.0, most=LONGEST_S)
        given.done()
        if self._stall_over is not None:
            raise ParamsError("sensor_stall: another one lasts", hint="let it end first")
        self._telemetry.stall()
        timer = threading.Timer(for_s, self._end_stall)
        timer.daemon = True
        self._stall_over = timer
        timer.start()
        self._endpoint.work.journal.event("sensor_stall", for_s=for_s)
        return {"for_s": for_s}

    def _end_stall(self) -> None:
        timer, self._stall_over = self._stall_over, None
        if timer is None:
            return
        timer.cancel()
        self._telemetry.go_on()
        self._endpoint.work.journal.event("sensor_stall_end")
