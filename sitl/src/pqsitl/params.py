"""Parameter table of the embedded vehicle: Copter names, types and ranges, changed by PARAM_SET."""

from __future__ import annotations

import csv
import struct
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from pymavlink.dialects.v20 import ardupilotmega as mav

DATA_FILE = "copter-parameters.csv"
REAL32, INT8, INT16, INT32 = 9, 2, 4, 6
_KINDS = {"REAL32": REAL32, "INT8": INT8, "INT16": INT16, "INT32": INT32}
_TYPE_RANGE = {
    REAL32: (-3.4e38, 3.4e38),
    INT8: (-128.0, 127.0),
    INT16: (-32768.0, 32767.0),
    INT32: (-2147483648.0, 2147483647.0),
}
_PACKED = {INT8: (1, "<b"), INT16: (2, "<h"), INT32: (3, "<i"), REAL32: (4, "<f")}
_PACK_MAGIC, _PACK_MAGIC_DEFAULTS = 0x671B, 0x671C


@dataclass
class Parameter:
    """One entry; `kind` is MAV_PARAM_TYPE, values travel as float32 (ArduPilot's C-cast encoding)."""

    name: str
    value: float
    kind: int
    low: float
    high: float
    default: float

    @property
    def read_only(self) -> bool:
        return self.low == self.high


@cache
def _rows() -> tuple[Parameter, ...]:
    """The data file, in the order of names."""
    text = resources.files("pqsitl").joinpath("data", DATA_FILE).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = []
    for row in csv.DictReader(lines):
        kind = _KINDS[row["type"]]
        least, most = _TYPE_RANGE[kind]
        value = float(row["value"])
        low, high = float(row["low"] or least), float(row["high"] or most)
        rows.append(Parameter(row["name"], value, kind, low, high, value))
    return tuple(sorted(rows, key=lambda row: row.name))


class ParameterTable:
    """Ordered table; the index of an entry never changes."""

    def __init__(self) -> None:
        self._rows = [replace(row) for row in _rows()]
        self._index = {row.name: number for number, row in enumerate(self._rows)}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, name: str) -> float:
        """Value by name; KeyError for an unknown one."""
        return self._rows[self._index[name]].value

    def find(self, name: str, index: int) -> int | None:
        """Index of a request: by number, or by name where the number is -1; None when unknown."""
        if index >= 0:
            return index if index < len(self._rows) else None
        return self._index.get(name)

    def set(self, name: str, value: float) -> int:
        """Store a value; MAV_PARAM_ERROR: 0 when it is stored, else why not, and the old value stays."""
        index = self._index.get(name)
        if index is None:
            return mav.MAV_PARAM_ERROR_DOES_NOT_EXIST
        row = self._rows[index]
        if row.read_only:
            return mav.MAV_PARAM_ERROR_READ_ONLY
        # What the sender meant as 0.95 arrives as the nearest float32, which may lie just outside.
        slack = 1e-6 * max(abs(row.low), abs(row.high)) if row.kind == REAL32 else 0.0
        if not row.low - slack <= value <= row.high + slack:
            return mav.MAV_PARAM_ERROR_VALUE_OUT_OF_RANGE
        row.value = value if row.kind == REAL32 else float(round(value))
        return mav.MAV_PARAM_ERROR_NO_ERROR

    def store(self, name: str, value: float) -> None:
        """The vehicle's own change of an entry that is read only to others."""
        self._rows[self._index[name]].value = value

    def range_text(self, name: str) -> str:
        """The range of a known entry, for people."""
        row = self._rows[self._index[name]]
        return "read only" if row.read_only else f"{row.low:g} to {row.high:g}"

    def message(self, index: int, *, announced_index: int | None = None) -> mav.MAVLink_param_value_message:
        """PARAM_VALUE of an entry; `announced_index` 65535 marks an unsolicited one."""
        row = self._rows[index]
        shown = index if announced_index is None else announced_index
        return mav.MAVLink_param_value_message(
            row.name.encode("ascii"), row.value, row.kind, len(self._rows), shown
        )

    def packed(self, *, with_defaults: bool = False) -> bytes:
        """The table as ArduPilot's file @PARAM/param.pck.

        Head: magic, number here, number in all (little-endian u16). Entry: type and a flag (1: a default
        follows where it differs), count of letters shared with the name before and of own letters less one,
        the own letters, value, default (AP_Filesystem_Param.h of ArduPilot's public source).
        """
        magic = _PACK_MAGIC_DEFAULTS if with_defaults else _PACK_MAGIC
        parts = [struct.pack("<HHH", magic, len(self._rows), len(self._rows))]
        before = b""
        for row in self._rows:
            kind, layout = _PACKED[row.kind]
            name = row.name.encode("ascii")
            shared = 0
            while shared < min(len(before), len(name) - 1) and before[shared] == name[shared]:
                shared += 1
            changed = with_defaults and row.value != row.default
            own = name[shared:]
            parts.append(bytes([kind | (changed << 4), shared | ((len(own) - 1) << 4)]) + own)
            for value in (row.value, row.default)[: 1 + changed]:
                parts.append(struct.pack(layout, value if row.kind == REAL32 else int(value)))
            before = name
        return b"".join(parts)
