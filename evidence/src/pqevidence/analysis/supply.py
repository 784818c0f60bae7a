"""Supply power of every cell whose drone had a sensor: the category P of the records, and nothing else.

The table exists only where some cell has watts. Gross energy holds the idle draw; net energy of a handshake
comes from idle-work-idle blocks (`pqtunnel bench --mode energy`), which a traffic window is not.
"""

from __future__ import annotations

from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.table import Table, Value

FIELDS = (
    "voltage_mean_v", "current_mean_a", "power_mean_w", "power_peak_w", "energy_gross_j",
    "energy_net_handshake_j",
)  # fmt: skip
COLUMNS = (
    "cell_id", "suite_id", "condition", "repetition", "position", "verdict", "ring", "sensor", "n_samples",
    "window_s", *FIELDS, "net_reason", "temperature_c", "reason",
)  # fmt: skip


def supply_table(bundle: BundleData) -> Table | None:
    """One row a cell; None where no cell has watts. What a synthetic sensor gave is of the ring synthetic."""
    if not any(_value(cell, "P", "power_mean_w") is not None for cell in bundle.cells):
        return None
    table = Table("supply", COLUMNS)
    for cell in bundle.cells:
        watts = cell.value("P", "power_mean_w") or {}
        table.add(
            cell_id=cell.cell_id, suite_id=cell.suite_id, condition=cell.condition,
            repetition=cell.repetition, position=int(cell.plan["position"]), verdict=cell.verdict,
            ring="synthetic" if watts.get("validity") == "model" else cell.ring,
            sensor=_text(cell, "P", "power_sensor_type"), n_samples=watts.get("n"),
            window_s=_value(cell, "C", "traffic_session_s"),
            **{name: _value(cell, "P", name) for name in FIELDS},
            net_reason=(cell.value("P", "energy_net_handshake_j") or {}).get("reason"),
            temperature_c=_value(cell, "N", "temperature_c"),
            reason=None if _value(cell, "P", "power_mean_w") is not None else watts.get("reason"),
        )  # fmt: skip
    return table


def _value(cell: Cell, letter: str, name: str) -> float | None:
    field = cell.value(letter, name) or {}
    found = None if field.get("validity") == "invalid" else field.get("value")  # a lower bound is no reading
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _text(cell: Cell, letter: str, name: str) -> Value:
    found = (cell.value(letter, name) or {}).get("value")
    return str(found) if found is not None else None
