"""The `spec` of a start request, checked field by field before anything starts."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pqsitl.errors import SpecError
from pqsitl.profile import DEFAULT_PROFILE
from pqsitl.steps import Step, steps_of

MAX_RATE_HZ = 200_000.0


@dataclass(frozen=True)
class TrafficSpec:
    """What to send. Fields that a source has no use for are ignored by it."""

    source: str = "auto"
    profile: str = DEFAULT_PROFILE
    rate_hz: float = 320.0
    size_bytes: int = 1200
    seed: int = 1
    duration_s: float | None = None
    """The source ends by itself after this; None: at `stop`."""
    path: str | None = None
    """Telemetry log to replay."""
    record: bool = False
    """Keep what the source receives as a telemetry log; source uplink alone can."""
    workload: tuple[Step, ...] | None = None
    """What the ground asks of the vehicle; source uplink alone can."""
    piloted: bool = False
    """Somebody flies it: source arducopter goes on in any mode, on the ground and after a new launch."""

    @classmethod
    def from_mapping(cls, raw: object) -> TrafficSpec:
        """SpecError names the offending key and the nearest known one; null means the default."""
        if raw is None:
            return cls()
        if not isinstance(raw, Mapping):
            raise SpecError("spec is not an object", 'send {"op":"start","spec":{"source":"auto"}}')
        known = {field.name: field for field in fields(cls)}
        values: dict[str, Any] = {}
        for key, value in raw.items():
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                raise SpecError(
                    f"unknown key {key!r} in spec",
                    f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}",
                )
            if value is not None:
                values[key] = _checked(key, value)
        return cls(**values)


def _checked(key: str, value: object) -> object:
    if key in ("source", "profile", "path"):
        if not isinstance(value, str) or not value:
            raise SpecError(f"{key} must be text, not {value!r}", f"leave {key} out for its default")
        return value
    if key == "workload":
        return steps_of(value)
    if key in ("record", "piloted"):
        if not isinstance(value, bool):
            raise SpecError(f"{key} must be true or false, not {value!r}", f"leave {key} out for false")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value < math.inf:
        raise SpecError(f"{key} must be a number, not {value!r}", f"leave {key} out for its default")
    if key in ("size_bytes", "seed"):
        if value != int(value) or value < 0:
            raise SpecError(
                f"{key} must be a whole number ≥ 0, not {value!r}", f"leave {key} out for its default"
            )
        return int(value)
    if not 0 < value <= (MAX_RATE_HZ if key == "rate_hz" else 86_400.0):
        raise SpecError(f"{key} {value!r} is out of range", "rate_hz: up to 200000; duration_s: up to a day")
    return float(value)
