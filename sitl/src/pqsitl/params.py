"""Parameter table of the embedded vehicle: Copter names, sane values, changed by PARAM_SET."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

REAL32, INT8, INT16, INT32 = 9, 2, 4, 6
_LIMITS = {INT8: (-128.0, 127.0), INT16: (-32768.0, 32767.0), INT32: (-2147483648.0, 2147483647.0)}

# A working subset of Copter's some 1,350: what ground stations read at connection, and what tests change.
_DEFAULTS: tuple[tuple[str, float, int], ...] = (
    ("ARMING_CHECK", 1, INT32), ("ATC_ANG_PIT_P", 4.5, REAL32), ("ATC_ANG_RLL_P", 4.5, REAL32),
    ("ATC_ANG_YAW_P", 4.5, REAL32), ("BATT_CAPACITY", 16000, INT32), ("BATT_LOW_VOLT", 10.5, REAL32),
    ("BATT_MONITOR", 4, INT8), ("EK3_ENABLE", 1, INT8), ("FENCE_ENABLE", 0, INT8), ("FLTMODE1", 7, INT8),
    ("FLTMODE2", 9, INT8), ("FLTMODE3", 6, INT8), ("FLTMODE4", 3, INT8), ("FLTMODE5", 5, INT8),
    ("FLTMODE6", 0, INT8), ("FORMAT_VERSION", 120, INT16), ("FRAME_CLASS", 1, INT8), ("FRAME_TYPE", 0, INT8),
    ("FS_GCS_ENABLE", 0, INT8), ("FS_THR_ENABLE", 1, INT8), ("GPS_TYPE", 1, INT8), ("LAND_SPEED", 50, INT16),
    ("LOG_BITMASK", 176126, INT32), ("MOT_THST_EXPO", 0.65, REAL32), ("MOT_THST_HOVER", 0.39, REAL32),
    ("PILOT_SPEED_UP", 250, INT16), ("PSC_POSXY_P", 1.0, REAL32), ("PSC_POSZ_P", 1.0, REAL32),
    ("RTL_ALT", 1500, INT32), ("SCHED_LOOP_RATE", 400, INT16), ("SERIAL0_PROTOCOL", 2, INT8),
    ("STAT_RUNTIME", 70, INT32), ("SYSID_MYGCS", 255, INT16), ("SYSID_THISMAV", 1, INT16),
    ("TELEM_DELAY", 0, INT8), ("WPNAV_ACCEL", 250, REAL32), ("WPNAV_SPEED", 500, REAL32),
    ("WPNAV_SPEED_DN", 150, REAL32), ("WPNAV_SPEED_UP", 250, REAL32), ("WP_YAW_BEHAVIOR", 2, INT8),
)  # fmt: skip


@dataclass
class Parameter:
    """One entry; `kind` is MAV_PARAM_TYPE, values travel as float32 (ArduPilot's C-cast encoding)."""

    name: str
    value: float
    kind: int


class ParameterTable:
    """Ordered table; the index of an entry never changes."""

    def __init__(self) -> None:
        self._rows = [Parameter(*row) for row in sorted(_DEFAULTS)]
        self._index = {row.name: number for number, row in enumerate(self._rows)}

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, name: str, index: int) -> int | None:
        """Index of a request: by number, or by name where the number is -1; None when unknown."""
        if index >= 0:
            return index if index < len(self._rows) else None
        return self._index.get(name)

    def set(self, name: str, value: float) -> int | None:
        """Store a value clamped to its type; the index, or None for an unknown name or a non-number."""
        index = self._index.get(name)
        if index is None or value != value:
            return None
        row = self._rows[index]
        if row.kind in _LIMITS:
            low, high = _LIMITS[row.kind]
            value = float(round(max(low, min(high, value))))
        row.value = value
        return index

    def message(self, index: int, *, announced_index: int | None = None) -> Any:
        """PARAM_VALUE of an entry; `announced_index` 65535 marks an unsolicited one."""
        row = self._rows[index]
        shown = index if announced_index is None else announced_index
        return mav.MAVLink_param_value_message(
            row.name.encode("ascii"), row.value, row.kind, len(self._rows), shown
        )
