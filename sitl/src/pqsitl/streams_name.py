"""The choice of PQ_VEHICLE_STREAMS; apart from the streams so that settings need no pymavlink."""

from __future__ import annotations

from pqsitl.errors import SpecError

MEASURED, DEFAULT = "measured", "default"
STREAMS_VARIABLE = "PQ_VEHICLE_STREAMS"


def checked(name: str) -> str:
    """`measured` or `default`; SpecError names the variable."""
    if name not in (MEASURED, DEFAULT):
        raise SpecError(
            f"{STREAMS_VARIABLE} is {name!r}, neither {MEASURED} nor {DEFAULT}",
            f"leave it out for {MEASURED}",
        )
    return name
