"""The tunnel's own counters, from the file its agent replaces ten times a second.

The file is one JSON object {"t_ns", "state", "cell_id", "counters": {…}}, renamed into place, so a reader
always sees a whole one. An old file is a gap with a reason, not a repetition of its last values.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

from pqbase.patience import patiently
from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import INT_MAX, INT_MIN, FieldValue, Sample
from pqtelemetry.readers.base import Instant

STALE_MS = 1000.0
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]*")


class TunnelCounters:
    """`pq_tunnel`: every number of `counters` (totals since prepare), age_ms of the file, state, cell_id.

    Nested objects (counters of single traffic windows) and texts (digests) stay in the cell's counters.json.
    """

    name = "tunnel"
    period_s = 0.0

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample, or SensorUnavailable for an absent, stale or damaged file."""
        try:
            document = json.loads(patiently(self._path.read_bytes))
        except FileNotFoundError:
            raise SensorUnavailable(f"{self._path.name} is not there: no tunnel agent writes it") from None
        except OSError as error:
            raise SensorUnavailable(f"{self._path.name}: {error.strerror}") from error
        except ValueError as error:
            raise SensorUnavailable(f"{self._path.name} is not JSON: {error}") from error
        written_ns = document.get("t_ns") if isinstance(document, dict) else None
        counters = document.get("counters") if isinstance(document, dict) else None
        if not isinstance(written_ns, int) or not isinstance(counters, dict):
            raise SensorUnavailable(f"{self._path.name} lacks t_ns or counters")
        age_ms = round((now.realtime_ns - written_ns) / 1e6, 3)
        if age_ms > STALE_MS:
            raise SensorUnavailable(
                f"{self._path.name} is older than {STALE_MS:.0f} ms: the tunnel agent stalls",
                [Sample("pq_tunnel", {"age_ms": age_ms})],
            )
        fields: dict[str, FieldValue] = {"age_ms": age_ms}
        for key in ("state", "cell_id"):
            text = document.get(key)
            if isinstance(text, str) and text.isprintable():
                fields[key] = text
        for key, value in counters.items():
            if isinstance(value, bool) or key in fields or not _NAME.fullmatch(key):
                continue
            if (isinstance(value, int) and INT_MIN <= value <= INT_MAX) or (
                isinstance(value, float) and math.isfinite(value)
            ):
                fields[key] = value
        return [Sample("pq_tunnel", fields)]
