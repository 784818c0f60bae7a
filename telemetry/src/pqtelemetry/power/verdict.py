"""What `facts` says of a fast power sensor: the running sampler's verdict, else that of a preflight here."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

from pqtelemetry.errors import TelemetryError
from pqtelemetry.power.command import judged, verdict_of
from pqtelemetry.power.settings import PowerSettings

WAIT_S: Final = 8.0


def power_row(settings: PowerSettings, folder: Path, raw: Path | None) -> dict[str, object]:
    """{"name": "power", "available", "reason", "sensor", "sensor_class", "raw": true}.

    With `raw`, the sampler that writes that file is asked, since two masters of one chip disturb each other.
    """
    if raw is None:
        try:
            return judged(settings, settings.load_calibration(folder))[1]
        except TelemetryError as error:
            return _none(settings, str(error))
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        try:
            row: dict[str, object] = json.loads(verdict_of(raw).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            time.sleep(0.1)  # not there or half written: the preflight takes a second or two
        else:
            return row
    return _none(settings, "the fast power sampler gave no verdict: its reason is in pq_sensor")


def _none(settings: PowerSettings, reason: str) -> dict[str, object]:
    return {
        "name": "power",
        "sensor": settings.sensor,
        "sensor_class": None,
        "raw": True,
        "available": False,
        "reason": reason,
    }
