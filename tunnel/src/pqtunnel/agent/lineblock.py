"""Lines kept as the bytes they came in, read by number.

As a text object each, an hour's samples took three times their bytes, and Python did not give back to the
machine what it had taken for them: the next cell would have counted it as its own memory.
"""

from __future__ import annotations

from array import array


class LineBlock:
    """UTF-8 lines, each with its newline; a last one without is no line yet and is left out."""

    __slots__ = ("_data", "_starts")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._starts = array("Q", [0])
        end = data.find(b"\n")
        while end >= 0:
            self._starts.append(end + 1)
            end = data.find(b"\n", end + 1)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def lines(self, since: int = 0, limit: int | None = None) -> list[str]:
        """At most `limit` lines from number `since` on, without their newlines."""
        first = min(since, len(self))
        last = len(self) if limit is None else min(first + limit, len(self))
        # Not splitlines: a text field may hold what that takes for the end of a line.
        return self._data[self._starts[first] : self._starts[last]].decode().split("\n")[:-1]
