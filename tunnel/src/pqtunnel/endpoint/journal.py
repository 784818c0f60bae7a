"""What a cell leaves beside its counters and ledger: events, handshake spans and a log, as lines in
memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final

from pqbase.text import utc_text

MAX_LINES: Final = 500_000


class LineBuffer:
    """An append-only list of lines, read by page. Beyond MAX_LINES lines are counted, not kept."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._lock = threading.Lock()
        self.cut = 0

    def add(self, line: str) -> None:
        """Append one line."""
        with self._lock:
            if len(self._lines) >= MAX_LINES:
                self.cut += 1
            else:
                self._lines.append(line)

    def __len__(self) -> int:
        return len(self._lines)

    def lines(self, since: int, limit: int) -> list[str]:
        """Lines [since, since + limit)."""
        return self._lines[since : since + limit]


class Journal:
    """Events, spans and log of one cell on one host."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.events = LineBuffer()
        self.log = LineBuffer()
        self._spans: list[list[Mapping[str, object]]] = []
        self._span_rows = 0
        self._span_lines: list[str] = []

    def event(self, event: str, **fields: object) -> None:
        """Record an event now; realtime and monotonic clock both, so that spans can be placed in windows."""
        row = {"t_ns": time.time_ns(), "mono_ns": time.perf_counter_ns(), "host": self.host, "event": event}
        self.events.add(json.dumps({**row, **fields}, separators=(",", ":")))

    def note(self, text: str) -> None:
        """A log line for people, with UTC time."""
        self.log.add(f"{utc_text(time.time_ns())} {self.host} {text}")

    def add_spans(self, rows: list[dict[str, object]]) -> None:
        """Keep the span rows of one completed handshake; they are turned into JSON only when asked for."""
        self._spans.append(list(rows))
        self._span_rows += len(rows)

    def span_lines(self, since: int, limit: int) -> list[str]:
        """Span rows as JSON lines [since, since + limit)."""
        while self._spans:
            self._span_lines.extend(_json_lines(self._spans.pop(0)))
        return self._span_lines[since : since + limit]

    def span_count(self) -> int:
        """Number of span rows kept."""
        return self._span_rows


def _json_lines(rows: Iterable[Mapping[str, object]]) -> Iterable[str]:
    return (json.dumps(row, separators=(",", ":")) for row in rows)
