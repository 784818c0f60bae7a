"""Which lines of the project an input reaches, by sys.monitoring (PEP 669): each line reports once and then
costs nothing. Python 3.11 has no such thing: there everything is `blind`."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

_NAMES = ("base", "tunnel", "spec", "evidence", "lab", "sitl", "telemetry", "link", "attack", "detect")
_PARTS = tuple(f"/pq{name}/" for name in _NAMES)


class Coverage:
    """Lines reached since the start, and those that the last run added."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self.fresh: set[tuple[str, int]] = set()
        self._monitoring: Any = getattr(sys, "monitoring", None)

    @property
    def blind(self) -> bool:
        """True where this Python cannot tell."""
        return self._monitoring is None

    def __enter__(self) -> Coverage:
        if self._monitoring is not None:
            m = self._monitoring
            m.use_tool_id(m.COVERAGE_ID, "pqfuzz")
            m.register_callback(m.COVERAGE_ID, m.events.LINE, self._line)
            m.set_events(m.COVERAGE_ID, m.events.LINE)
            m.restart_events()  # an earlier search may have silenced lines
        return self

    def __exit__(self, *_: object) -> None:
        if self._monitoring is not None:
            m = self._monitoring
            m.set_events(m.COVERAGE_ID, 0)
            m.register_callback(m.COVERAGE_ID, m.events.LINE, None)
            m.free_tool_id(m.COVERAGE_ID)

    def _line(self, code: CodeType, line: int) -> Any:
        if any(part in code.co_filename for part in _PARTS):
            self.fresh.add((code.co_filename, line))
        return self._monitoring.DISABLE
