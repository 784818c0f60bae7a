"""One exception tree: every error has a stable `code` and a `hint` that says what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pqbase.errors import PqError

if TYPE_CHECKING:
    from pqtelemetry.line import Sample


class TelemetryError(PqError):
    """Base of all errors of this package."""

    code = "telemetry"
    hint = "run `python -m pqtelemetry facts` to see what this host offers"


class EncodeError(TelemetryError):
    """A point that line protocol cannot carry without changing its meaning."""

    code = "encode"
    hint = "use finite numbers, 64-bit integers, and names without control characters or backslashes"


class ParseError(TelemetryError):
    """A line that is not exactly what the encoder writes; `column` is 0-based."""

    code = "parse"
    hint = "the file is damaged or was not written by this sampler; compare its checksum with the manifest"

    def __init__(self, message: str, *, column: int = 0) -> None:
        super().__init__(f"column {column}: {message}")
        self.column = column


class SensorUnavailable(TelemetryError):
    """A reader has no value now; the message is the reason that goes into `pq_sensor`.

    `samples` holds what can still be said (the age of a stale file). The message should not hold changing
    numbers: a new reason is reported at once, the same one only once a minute.
    """

    code = "sensor_unavailable"
    hint = "the series has a gap for this time; the reason is in pq_sensor"

    def __init__(self, message: str, samples: Sequence[Sample] = ()) -> None:
        super().__init__(message)
        self.samples = samples


class StoreError(TelemetryError):
    """The telemetry file cannot be written."""

    code = "store"
    hint = "check the free space and the mode of the directory given with --out"


class UsageError(TelemetryError):
    """A command-line value that cannot be used."""

    code = "usage"
    hint = "see `python -m pqtelemetry sample --help`"
