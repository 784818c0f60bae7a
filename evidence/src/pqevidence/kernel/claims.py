"""The fields of a record as checks go through them, and what their units allow."""

from __future__ import annotations

from pqevidence.record.raw import Json

#: unit → least and greatest value that can be true of this lab
LIMITS: dict[str, tuple[float, float]] = {
    "%": (0.0, 6400.0),
    "ratio": (0.0, 1e6),
    "ms": (0.0, 1e8),
    "ns": (0.0, 1e19),
    "s": (0.0, 1e9),
    "B": (0.0, 1e15),
    "MB": (0.0, 1e7),
    "MHz": (1.0, 1e5),
    "Mbit/s": (0.0, 1e6),
    "1/s": (0.0, 1e8),
    "count": (0.0, 1e15),
    "°C": (-40.0, 125.0),
    "V": (0.5, 60.0),
    "A": (0.001, 100.0),
    "W": (0.01, 1000.0),
    "J": (1e-6, 1e7),
}
PHYSICAL_UNITS = ("V", "A", "W", "J")


def fields_of(record: Json) -> list[tuple[str, str, Json]]:
    """(letter, name, field) of every field."""
    return [
        (letter, name, field)
        for letter, fields in record["categories"].items()
        for name, field in fields.items()
    ]
