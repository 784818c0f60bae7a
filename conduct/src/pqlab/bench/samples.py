"""The power samples of an energy folder, all segments of the sampler's file as one row in time.

Compact, since a plan of hours has millions of them: 21 bytes a sample here, and samples as objects only for
the block that is looked at.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path

from pqbase.documents import Json
from pqlab.bench.tree import BenchTreeError
from pqtelemetry.errors import TelemetryError
from pqtelemetry.power.rawfile import (
    GAP,
    RECORD,
    PowerSample,
    notes_of,
    read_header,
    read_part,
    records,
)
from pqtelemetry.segments import oldest_first

_GOOD = bytes(not flags & GAP for flags in range(256))


@dataclass
class Samples:
    """Samples in time order, a gap's values NaN. header: what all segments have alike; parts in order."""

    header: Json
    parts: list[Path] = field(default_factory=list)
    times_ns: array[int] = field(default_factory=lambda: array("q"))
    volts: array[float] = field(default_factory=lambda: array("f"))
    amps: array[float] = field(default_factory=lambda: array("f"))
    flags: bytearray = field(default_factory=bytearray)
    lateness_ns: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.times_ns)

    def add(self, part: Path, body: memoryview) -> None:
        """One more segment, later than those before. Raises ParseError."""
        self.parts.append(part)
        for t_ns, volts, amps, flags, lateness_ns in records(body, part.name):
            self.times_ns.append(t_ns)
            self.volts.append(volts)
            self.amps.append(amps)
            self.flags.append(flags)
            self.lateness_ns.append(lateness_ns)

    def between(self, start_ns: int, end_ns: int) -> list[PowerSample]:
        """From the last sample before the first time to the first after the second, where there are such."""
        low = max(0, bisect_right(self.times_ns, start_ns) - 1)
        high = min(len(self), bisect_left(self.times_ns, end_ns) + 1)
        return [self._sample(index) for index in range(low, high)]

    def _sample(self, index: int) -> PowerSample:
        flags = self.flags[index]
        volts, amps = (None, None) if flags & GAP else (self.volts[index], self.amps[index])
        return PowerSample(self.times_ns[index], volts, amps, flags, self.lateness_ns[index])

    def middle(self) -> tuple[float, float] | None:
        """Median volts and amps of all samples with a value; None without one."""
        good = self.flags.translate(_GOOD)
        if not any(good):
            return None
        return _median(compress(self.volts, good)), _median(compress(self.amps, good))

    @property
    def ends_in_gap(self) -> bool:
        """Has the last sample no value?"""
        return bool(self.flags) and bool(self.flags[-1] & GAP)

    def gap_reason(self) -> str | None:
        """The last reason in the notes, those of the newest segment first; None where none is told."""
        for part in reversed(self.parts):
            known = [reason for reason in _reasons(notes_of(part)) if reason]
            if known:
                return known[-1]
        return None


def read_samples(path: Path) -> Samples:
    """All segments of a raw file that one sampler wrote. Raises BenchTreeError."""
    try:
        parts = [part for part in oldest_first(path) if part.exists()]
        if not parts:
            raise BenchTreeError(f"{path.name} cannot be read", "it is not there")
        headers = [_alike(read_header(part)) for part in parts]
        # what an earlier sampler left in this folder has another header, or its times do not go before these
        first = max((index + 1 for index, one in enumerate(headers) if one != headers[-1]), default=0)
        samples = Samples(headers[-1])
        for part in parts[first:]:
            _, body, _ = read_part(part)
            if samples.times_ns and body and RECORD.unpack_from(body)[0] <= samples.times_ns[-1]:
                samples = Samples(headers[-1])
            samples.add(part, body)
    except (OSError, TelemetryError) as error:
        raise BenchTreeError(f"{path.name} cannot be read", str(error)) from error
    return samples


def _alike(header: Json) -> Json:
    """What is the same in all segments of one sampler."""
    return {key: value for key, value in header.items() if key != "realtime_offset_ns"}


def _median(values: Iterable[float]) -> float:
    """The upper one of an even number. A sensor's readings are steps: few different ones, however many."""
    counts = Counter(values)
    rank = counts.total() // 2
    for value in sorted(counts):
        rank -= counts[value]
        if rank < 0:
            break
    return value


def _reasons(path: Path) -> list[str]:
    reasons = []
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            break  # the line that the end of the sampler cut off
        reasons.append(str(row.get("reason") or ""))
    return reasons
