"""The raw power file: one JSON header line, then fixed 24-byte records, then nothing.

    header   {"schema": "pqtelemetry/power/v1", "sensor", "sensor_class", "mode", "rate_hz", "calibration",
              "realtime_offset_ns", …, "record": "<qffBxxxi"}
    record   t_mono_ns int64 · voltage_v float32 · current_a float32 · flags uint8 · 3 zero bytes ·
             lateness_ns int32

Little-endian. A gap is a record whose two floats are NaN; why is in the notes file beside it
(`<file>.gaps.ndjson`, one JSON object a line), together with the realtime clock's offset every ten seconds.
A file that was cut off in a record (power lost) is read up to its last whole record, and says so.

Bounded by segments (`<file>.1` is the one before), each with its own header and notes.
"""

from __future__ import annotations

import json
import math
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NotRequired, TextIO, TypedDict

from pqbase.documents import Json
from pqtelemetry.errors import ParseError, StoreError
from pqtelemetry.segments import SEGMENTS, default_bound_bytes, push

SCHEMA: Final = "pqtelemetry/power/v1"
RECORD: Final = struct.Struct("<qffBxxxi")
CLIPPED: Final = 1
"""The shunt range ended below the true value; the sample is a lower bound."""
GAP: Final = 2
"""No value: both floats are NaN."""
LATE: Final = 4
"""Started more than half a period after its deadline."""
REQUIRED: Final = ("sensor", "sensor_class", "mode", "rate_hz", "realtime_offset_ns")
SENSOR_CLASSES: Final = ("chip", "stub-bus", "model", "synthetic")
_INT32: Final = (1 << 31) - 1
Record = tuple[int, float, float, int, int]
"""t_mono_ns, voltage_v, current_a, flags, lateness_ns."""


class Note(TypedDict):
    """A row of the notes: a gap that opens or closes (`end`), or the realtime clock's offset."""

    t_mono_ns: int
    end: NotRequired[bool]
    reason: NotRequired[str]
    realtime_offset_ns: NotRequired[int]


@dataclass(frozen=True, slots=True)
class PowerSample:
    """One record. `voltage_v` and `current_a` are None in a gap, never zero for want of a value."""

    t_mono_ns: int
    voltage_v: float | None
    current_a: float | None
    flags: int
    lateness_ns: int

    @property
    def power_w(self) -> float | None:
        """Voltage times current; None in a gap."""
        return None if self.voltage_v is None or self.current_a is None else self.voltage_v * self.current_a


def notes_of(path: Path) -> Path:
    """Gaps and clock offsets of a raw file."""
    return path.with_name(path.name + ".gaps.ndjson")


class RawWriter:
    """Appends records through a buffer. Raises StoreError naming the file; what was written stays whole.

    A file that is there already becomes the one before. `offset_ns` gives realtime minus monotonic time for
    the header of each further file.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, object],
        max_bytes: int | None = None,
        offset_ns: Callable[[], int] | None = None,
    ) -> None:
        missing = [key for key in REQUIRED if key not in header]
        if missing or header["sensor_class"] not in SENSOR_CLASSES:
            raise ValueError(f"power header lacks {missing} or has a sensor class outside {SENSOR_CLASSES}")
        self._path = path
        self._header = header
        self._offset_ns = offset_ns
        bound_bytes = default_bound_bytes(path) if max_bytes is None else max_bytes
        self._per_file = max(1, bound_bytes // SEGMENTS // RECORD.size)
        self._open_gap: dict[str, object] | None = None
        self._rolls = 0
        self.records = 0
        try:
            self._open()
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StoreError:
        return StoreError(f"{self._path.name} cannot be written: {error.strerror}")

    def _open(self) -> None:
        if self._path.exists():
            push(self._path, notes_of)
        line = json.dumps({"schema": SCHEMA, **self._header, "record": RECORD.format})
        self._file: BinaryIO = self._path.open("wb", buffering=1 << 16)
        self._file.write(line.encode() + b"\n")
        self._notes: TextIO = notes_of(self._path).open("w", buffering=1, encoding="utf-8", newline="\n")
        self._left = self._per_file
        if self._open_gap is not None:
            self._notes.write(json.dumps(self._open_gap) + "\n")

    def add(self, t_mono_ns: int, volts: float, amps: float, flags: int, lateness_ns: int) -> None:
        """One sample; NaN for both values, with GAP, where there is none."""
        late_ns = lateness_ns if lateness_ns < _INT32 else _INT32
        self.add_records(RECORD.pack(t_mono_ns, volts, amps, flags, late_ns))

    def add_records(self, data: bytes) -> None:
        """Whole records, as `RECORD` packs them."""
        try:
            while data:
                if self._left == 0:
                    self._roll()
                piece, data = data[: self._left * RECORD.size], data[self._left * RECORD.size :]
                self._file.write(piece)
                count = len(piece) // RECORD.size
                self._left -= count
                self.records += count
        except OSError as error:
            raise self._failure(error) from error

    @property
    def dropped(self) -> int:
        """Records of this writer that went with the oldest segment."""
        return max(0, self._rolls - SEGMENTS + 1) * self._per_file

    def _roll(self) -> None:
        self._file.close()
        self._notes.close()
        if self._offset_ns is not None:
            self._header = {**self._header, "realtime_offset_ns": self._offset_ns()}
        self._open()
        self._rolls += 1

    def gap(self, row: dict[str, object]) -> None:
        """A gap opens or closes: {"t_mono_ns", "end", "reason"}."""
        self._open_gap = None if row["end"] else row
        self.note(row)

    def note(self, row: dict[str, object]) -> None:
        """One row of the notes file. Raises StoreError."""
        try:
            self._notes.write(json.dumps(row) + "\n")
        except OSError as error:
            raise self._failure(error) from error

    def flush(self) -> None:
        """Hand the buffer to the kernel. Raises StoreError."""
        try:
            self._file.flush()
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Flush and close. Raises StoreError."""
        self.flush()
        self._file.close()
        self._notes.close()


@dataclass(frozen=True, slots=True)
class RawPower:
    """A raw file as read: header, samples, and how many bytes of an unfinished record were at its end."""

    header: Json
    samples: list[PowerSample]
    torn_bytes: int


def read_header(path: Path) -> Json:
    """The first line of one file. Raises ParseError for a header that this writer never writes."""
    with path.open("rb") as file:
        return _header(file.readline(), path.name)


def _header(line: bytes, name: str) -> Json:
    try:
        header: Json = json.loads(line if line.endswith(b"\n") else b"")
        known = header["schema"] == SCHEMA and header["record"] == RECORD.format
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"{name} does not begin with a {SCHEMA} header ({error})") from error
    if not known or any(key not in header for key in REQUIRED):
        raise ParseError(f"{name}: the header is not a whole {SCHEMA} header")
    return header


def read_raw(path: Path) -> RawPower:
    """One file. Raises ParseError for a header or record that this writer never writes."""
    header, body, torn = read_part(path)
    samples = [
        PowerSample(t_ns, None if flags & GAP else volts, None if flags & GAP else amps, flags, lateness_ns)
        for t_ns, volts, amps, flags, lateness_ns in records(body, path.name)
    ]
    return RawPower(header, samples, torn)


def read_part(
    path: Path, from_mono_ns: int | None = None, to_mono_ns: int | None = None
) -> tuple[Json, memoryview, int]:
    """Header of one file, its records still packed, and how many bytes of an unfinished one were at its end.

    Given times, the records from the last before the first time to the first after the second.
    Raises ParseError for a header that this writer never writes.
    """
    data = path.read_bytes()
    end = data.find(b"\n") + 1
    header = _header(data[:end], path.name)
    body = memoryview(data)[end:]
    count, torn = divmod(len(body), RECORD.size)

    def time_ns(index: int) -> int:
        return int.from_bytes(body[index * RECORD.size : index * RECORD.size + 8], "little", signed=True)

    low, high = 0, count
    if from_mono_ns is not None:
        low = max(0, bisect_left(range(count), from_mono_ns, key=time_ns) - 1)
    if to_mono_ns is not None:
        high = min(count, bisect_left(range(count), to_mono_ns, key=time_ns) + 1)
    return header, body[low * RECORD.size : max(low, high) * RECORD.size], torn


def records(body: memoryview, name: str) -> Iterator[Record]:
    """Unpacked records. Raises ParseError for one that this writer never writes."""
    before = -(1 << 63)
    isfinite, isnan = math.isfinite, math.isnan
    for index, record in enumerate(RECORD.iter_unpack(body)):
        t_ns, volts, amps, flags, _ = record
        kind = isnan if flags & GAP else isfinite
        if not (kind(volts) and kind(amps)) or flags > (CLIPPED | GAP | LATE):
            raise ParseError(f"{name}: record {index} is neither a sample nor a gap")
        if t_ns <= before:
            raise ParseError(f"{name}: record {index} is not later than the one before it")
        before = t_ns
        yield record


def read_notes(path: Path) -> list[Note]:
    """Rows of a raw file's notes; a torn last line is left out. Raises ParseError for anything else."""
    try:
        text = notes_of(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    rows: list[Note] = []
    for line in text.split("\n")[:-1]:
        try:
            row = json.loads(line)
            row["t_mono_ns"] = int(row["t_mono_ns"])
        except (ValueError, KeyError, TypeError) as error:
            raise ParseError(f"{notes_of(path).name}: {line!r:.80} is no note") from error
        rows.append(row)
    return rows
