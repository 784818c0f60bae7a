"""`fetch`: pages of a cell's spans, ledger, events, telemetry, power, bins, log, verdicts, tlog; bounded."""

from __future__ import annotations

import re
import time
from typing import Final

from pqtunnel.agent.drivers.base import NoTraffic
from pqtunnel.agent.faults import Faults
from pqtunnel.agent.feed import Feed
from pqtunnel.agent.flightlog import FlightLog
from pqtunnel.agent.lineblock import LineBlock
from pqtunnel.agent.telemetry import Telemetry, TelemetryError
from pqtunnel.agent.verdicts import Verdicts
from pqtunnel.endpoint.work import CellWork
from pqtunnel.errors import TunnelError

STREAMS: Final = ("spans", "ledger", "events", "telemetry", "power", "bins", "log", "detector", "tlog")
MAX_LINES: Final = 50_000
MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
NOTHING: Final = LineBlock(b"")


_RECENT_NS: Final = 1_000_000_000
_ZONE: Final = re.compile(r"^pq_temp,.* (?:[^ ]*,)?temperature_c=([-0-9.e]+)")


def hottest_c(lines: list[str]) -> float | None:
    """Greatest temperature of any zone in lines of the line protocol; None without one."""
    found = [float(match[1]) for line in lines if (match := _ZONE.match(line))]
    return max(found, default=None)


class StreamError(TunnelError):
    """No such stream."""

    code = "unknown_stream"
    hint = "streams: " + ", ".join(STREAMS)


class Streams:
    """Serves pages; keeps the telemetry lines of a stopped cell so that paging reads the file once."""

    def __init__(
        self,
        telemetry: Telemetry,
        faults: Faults,
        feed: Feed,
        verdicts: Verdicts | None = None,
        flight_log: FlightLog | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._faults = faults
        self._feed = feed
        self._verdicts = verdicts if verdicts is not None else Verdicts(None)
        self.flight_log = flight_log if flight_log is not None else FlightLog(NoTraffic())
        self._cached_for: CellWork | None = None
        self._cached = NOTHING
        self._power_for: CellWork | None = None
        self._power = NOTHING
        self._no_power: str | None = None

    def forget(self) -> None:
        """The last cell's lines: an hour's are 80 MB, which the next cell would count as its own memory."""
        self._cached, self._cached_for = NOTHING, None
        self._power, self._power_for = NOTHING, None

    def temperature_c(self) -> float | None:
        """The hottest zone in the last second's samples; None where no zone was sampled."""
        now_ns = time.time_ns()
        return hottest_c(self._telemetry.lines(now_ns - _RECENT_NS, now_ns).lines())

    def page(self, work: CellWork, stream: str, since: int, limit: int) -> dict[str, object]:
        """{"lines", "next", "end"}: at most `limit` lines and about MAX_PAGE_BYTES from line `since` on."""
        if stream not in STREAMS:
            raise StreamError(f"no stream {stream!r}")
        lines, total = self._read(work, stream, since, min(limit, MAX_LINES))
        lines = self._faults.shifted(stream, lines)
        size = 0
        for place, line in enumerate(lines):
            size += len(line) + 3
            if size > MAX_PAGE_BYTES and place > 0:
                lines = lines[:place]
                break
        reached = since + len(lines)
        page: dict[str, object] = {"lines": lines, "next": reached, "end": reached >= total}
        if stream == "telemetry" and total == 0:
            page["reason"] = self._telemetry.reason or "no sample fell into the cell"
        if stream == "power" and total == 0:
            page["reason"] = self._no_power
        if stream == "detector" and total == 0:
            page["reason"] = self._verdicts.reason
        if stream == "bins" and total == 0:
            page["reason"] = "the cell was prepared without a feed"
        if stream == "tlog" and total == 0:
            page["reason"] = "no source of this cell recorded anything"
        if stream == "ledger" and work.ledger is None:
            page["reason"] = "the cell was prepared without a ledger"
        return page

    def _read(self, work: CellWork, stream: str, since: int, limit: int) -> tuple[list[str], int]:
        journal = work.journal
        if stream == "spans":
            return journal.span_lines(since, limit), journal.span_count()
        if stream == "ledger":
            if work.ledger is None:
                return [], 0
            return work.ledger.lines(work.counters.window_names, since, limit), work.ledger.line_count()
        if stream == "telemetry":
            block = self._telemetry_lines(work)
            return block.lines(since, limit), len(block)
        if stream == "bins":
            return self._feed.page(work, since, limit)
        if stream == "power":
            block = self._power_lines(work)
            return block.lines(since, limit), len(block)
        if stream == "detector":
            lines = self._verdicts.lines(work.start_ns, work.end_ns or time.time_ns())
            return lines[since : since + limit], len(lines)
        if stream == "tlog":
            pieces, total = self.flight_log.page(work, since)
            return pieces[:limit], total
        buffer = journal.events if stream == "events" else journal.log
        return buffer.lines(since, limit), len(buffer)

    def _telemetry_lines(self, work: CellWork) -> LineBlock:
        if work.end_ns is None:
            return self._telemetry.lines(work.start_ns, time.time_ns())
        if self._cached_for is not work:
            self._cached = self._telemetry.lines(work.start_ns, work.end_ns)
            self._cached_for = work
        return self._cached

    def _power_lines(self, work: CellWork) -> LineBlock:
        if self._power_for is work:
            return self._power
        if not self._telemetry.samples_power:
            self._no_power = "no fast power sensor was asked for (PQ_POWER)"
            return NOTHING
        try:
            lines = self._telemetry.power_lines(work.start_ns, work.end_ns or time.time_ns())
        except TelemetryError as error:
            self._no_power = str(error)
            return NOTHING
        if work.end_ns is not None:
            self._power, self._power_for = lines, work
        return lines
