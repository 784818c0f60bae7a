"""The raw power file: one JSON header line, then fixed 24-byte records, then nothing.

    header   {"schema": "pqtelemetry/power/v1", "sensor", "sensor_class", "mode", "rate_hz", "calibration",
              "realtime_offset_ns", "columns": […], "record": "<qffBxxxi"}
    record   t_mono_ns int64 · voltage_v float32 · current_a float32 · flags uint8 · 3 zero bytes ·
             lateness_ns int32

Little-endian. A gap is a record whose two floats are NaN; why is in the gaps file beside it, one JSON object
a line. A file that was cut off in a record (power lost) is read up to its last whole record, and says so.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from pqtelemetry.errors import ParseError, StoreError

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


class RawWriter:
    """Appends records through a buffer. Raises StoreError naming the file; what was written stays whole."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        missing = [key for key in REQUIRED if key not in header]
        if missing or header["sensor_class"] not in SENSOR_CLASSES:
            raise ValueError(f"power header lacks {missing} or has a sensor class outside {SENSOR_CLASSES}")
        self._path = path
        self.records = 0
        line = json.dumps({"schema": SCHEMA, **header, "record": RECORD.format})
        try:
            self._file: BinaryIO = path.open("wb", buffering=1 << 16)
            self._file.write(line.encode() + b"\n")
        except OSError as error:
            raise StoreError(f"{path.name} cannot be written: {error.strerror}") from error

    def add(self, t_mono_ns: int, volts: float, amps: float, flags: int, lateness_ns: int) -> None:
        """One sample; NaN for both values, with GAP, where there is none."""
        try:
            self._file.write(RECORD.pack(t_mono_ns, volts, amps, flags, min(lateness_ns, _INT32)))
        except OSError as error:
            raise StoreError(f"{self._path.name} cannot be written: {error.strerror}") from error
        self.records += 1

    def flush(self) -> None:
        """Hand the buffer to the kernel. Raises StoreError."""
        try:
            self._file.flush()
        except OSError as error:
            raise StoreError(f"{self._path.name} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Flush and close. Raises StoreError."""
        self.flush()
        self._file.close()


@dataclass(frozen=True, slots=True)
class RawPower:
    """A raw file as read: header, samples, and how many bytes of an unfinished record were at its end."""

    header: dict[str, Any]
    samples: list[PowerSample]
    torn_bytes: int


def read_raw(path: Path) -> RawPower:
    """The whole file. Raises ParseError for a header or record that this writer never writes."""
    data = path.read_bytes()
    end = data.find(b"\n")
    try:
        header = json.loads(data[: max(end, 0)])
        known = header["schema"] == SCHEMA and header["record"] == RECORD.format
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"{path.name} does not begin with a {SCHEMA} header ({error})") from error
    if not known or any(key not in header for key in REQUIRED):
        raise ParseError(f"{path.name}: the header is not a whole {SCHEMA} header")
    body = memoryview(data)[end + 1 :]
    torn = len(body) % RECORD.size
    return RawPower(header, list(_records(body[: len(body) - torn], path.name)), torn)


def _records(body: memoryview, name: str) -> Iterator[PowerSample]:
    before = -(1 << 63)
    for index, (t_ns, volts, amps, flags, lateness_ns) in enumerate(RECORD.iter_unpack(body)):
        gap = math.isnan(volts) and math.isnan(amps)
        if gap != bool(flags & GAP) or flags > (CLIPPED | GAP | LATE) or not (gap or _finite(volts, amps)):
            raise ParseError(f"{name}: record {index} is neither a sample nor a gap")
        if t_ns <= before:
            raise ParseError(f"{name}: record {index} is not later than the one before it")
        before = t_ns
        yield PowerSample(t_ns, None if gap else volts, None if gap else amps, flags, lateness_ns)


def _finite(*values: float) -> bool:
    return all(math.isfinite(value) for value in values)
