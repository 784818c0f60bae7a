"""A span of the raw power files on the realtime clock: one JSON header line, then CSV.

    {"schema": "pqtelemetry/power-slice/v1", …raw header…, "from_ns", "to_ns", "torn_bytes", "gaps": […]}
    t_ns,voltage_v,current_a,flags,lateness_ns

Samples stay what they were; only their times are moved, by the clock's offset as noted beside them every ten
seconds. A gap's values are empty. All segments of the raw file are read, the newest first: one that is pushed
on meanwhile is read twice, which changes nothing; the other way round it would be missed.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import lt
from pathlib import Path
from typing import Final

from pqbase.documents import Json, whole_of
from pqtelemetry.errors import StoreError
from pqtelemetry.power.rawfile import GAP, Note, Record, read_header, read_notes, read_part, records
from pqtelemetry.segments import oldest_first

SCHEMA: Final = "pqtelemetry/power-slice/v1"
COLUMNS: Final = ("t_ns", "voltage_v", "current_a", "flags", "lateness_ns")
_STEP_NS: Final = 100_000_000
"""Two neighbouring offsets further apart are a clock that was set, not one that is drawn in."""
_MARGIN_NS: Final = 5_000_000_000


class Offsets:
    """Realtime minus monotonic time, known at some times and drawn straight between them."""

    def __init__(self, points: Sequence[tuple[int, int]]) -> None:
        self._times = [t_ns for t_ns, _ in points]
        self._values = [value for _, value in points]

    def at(self, t_mono_ns: int) -> int:
        """The offset then; outside the points, and before a step, that of the nearest earlier one."""
        after = bisect_right(self._times, t_mono_ns)
        if after == 0:
            return self._values[0]
        low = self._values[after - 1]
        if after == len(self._times) or abs(self._values[after] - low) > _STEP_NS:
            return low
        width_ns = self._times[after] - self._times[after - 1]
        return low + (self._values[after] - low) * (t_mono_ns - self._times[after - 1]) // width_ns


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one file within the span, as text. `rising`: so are their times on the realtime clock."""

    first_ns: int
    last_ns: int
    rising: bool
    text: str


def slice_text(path: Path, from_ns: int, to_ns: int) -> Iterator[str]:
    """Header and rows with from_ns <= t_ns <= to_ns, in pieces of whole lines: 3.6 million an hour at 1 kHz.

    Raises StoreError without a file, ParseError.
    """
    headers: list[Json] = []
    found: dict[int, _Rows] = {}
    gaps: dict[tuple[int, bool, str], Json] = {}
    seen: list[tuple[int, int]] = []
    torn = 0
    for part in reversed(oldest_first(path)):
        try:
            notes = read_notes(part)
            offsets, header, body, torn_bytes = _part(part, notes, from_ns, to_ns)
        except FileNotFoundError:
            continue
        headers.append(header)
        torn += torn_bytes
        new = list(records(body, part.name))
        for low, high in seen:
            new = [record for record in new if not low <= record[0] <= high]
        if new:
            seen.append((new[0][0], new[-1][0]))
            found[new[0][0]] = _rows(new, offsets, from_ns, to_ns)
        for note in notes:
            if "reason" in note:
                t_ns = note["t_mono_ns"] + offsets.at(note["t_mono_ns"])
                row = {"t_ns": t_ns, "end": note["end"], "reason": note["reason"]}
                gaps[t_ns, note["end"], note["reason"]] = row
    if not headers:
        raise StoreError(f"{path.name} is not there", hint="no fast power sampler has run here: see facts")
    head = {
        **headers[0],
        "schema": SCHEMA,
        "from_ns": from_ns,
        "to_ns": to_ns,
        "torn_bytes": torn,
        "gaps": [gaps[key] for key in sorted(gaps) if key[0] <= to_ns],
        "record": None,
    }
    yield json.dumps(head) + "\n" + ",".join(COLUMNS) + "\n"
    yield from _by_time([found[first] for first in sorted(found) if found[first].text])


def _rows(new: Sequence[Record], offsets: Offsets, from_ns: int, to_ns: int) -> _Rows:
    times, lines = array("q"), []
    for t_mono_ns, volts, amps, flags, lateness_ns in new:
        t_ns = t_mono_ns + offsets.at(t_mono_ns)
        if from_ns <= t_ns <= to_ns:
            values = "," if flags & GAP else f"{volts:.7g},{amps:.7g}"
            times.append(t_ns)
            lines.append(f"{t_ns},{values},{flags},{lateness_ns}\n")
    if not times:
        return _Rows(0, 0, True, "")
    return _Rows(times[0], times[-1], all(map(lt, times, islice(times, 1, None))), "".join(lines))


def _by_time(parts: Sequence[_Rows]) -> Iterator[str]:
    if all(rows.rising for rows in parts) and all(a.last_ns < b.first_ns for a, b in pairwise(parts)):
        yield from (rows.text for rows in parts)
        return
    # the clock was set back meanwhile
    lines = [line for rows in parts for line in rows.text.splitlines(keepends=True)]
    yield from sorted(lines, key=lambda line: int(line[: line.index(",")]))


def _part(
    path: Path, notes: Sequence[Note], from_ns: int, to_ns: int
) -> tuple[Offsets, Json, memoryview, int]:
    """One file's offsets, and its records near the span. A file whose clock was set is read wholly."""
    header = read_header(path)
    known = [
        (row["t_mono_ns"], int(row["realtime_offset_ns"])) for row in notes if "realtime_offset_ns" in row
    ]
    points = known or [(0, whole_of(header, "realtime_offset_ns"))]
    values = [value for _, value in points]
    low, high = from_ns - max(values) - _MARGIN_NS, to_ns - min(values) + _MARGIN_NS
    return Offsets(points), *read_part(path, low, high)
