"""Supply power of every cell whose drone had a sensor: the category P of the records, and nothing else.

The table exists only where some cell has watts. Gross energy holds the idle draw; net energy of a handshake
comes from idle-work-idle blocks (`pqtunnel bench --mode energy`), which a traffic window is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pqbase.documents import whole_of
from pqevidence.analysis.column import Column, names
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.table import Table, Value, as_value

NAME = "supply"
#: category P of the record, as it is
RECORDED = (
    Column("voltage_mean_v", "mean bus voltage, V", "voltage", "V", numeric=True),
    Column("current_mean_a", "mean current, A", "current", "A", numeric=True),
    Column("power_mean_w", "mean power over the traffic window, W", "power, mean", "W", numeric=True),
    Column("power_peak_w", "greatest power in it, W", "power, peak", "W", numeric=True),
    Column("energy_gross_j", "energy over it, idle included, J", "energy, gross", "J", numeric=True),
    Column("energy_net_handshake_j", "net energy of a handshake, J", "net a handshake", "J", numeric=True),
)
COLUMNS = (
    Column("cell_id", "cell"),
    Column("suite_id", "suite", "suite"),
    Column("condition", "condition", "condition"),
    Column("repetition", "repetition of the plan", "iteration", numeric=True),
    Column("position", "place in the order of the run"),
    Column("verdict", "verdict of the cell", "verdict"),
    Column("ring", "ring of the cell; synthetic where no sensor measured", "ring"),
    Column("sensor", "sensor that gave the samples", "sensor"),
    Column("n_samples", "samples in the traffic window", "samples", "n", numeric=True),
    Column("window_s", "length of the traffic window, s"),
    *RECORDED,
    Column("net_reason", "why there is no net energy"),
    Column("temperature_c", "mean of the drone's hottest zone, °C", "temperature", "°C", numeric=True),
    Column("reason", "why there are no watts"),
)


def make_tables(bundle: BundleData, made: Mapping[str, Table]) -> Iterator[Table]:
    """supply where some cell has watts."""
    if any(_value(cell, "P", "power_mean_w") is not None for cell in bundle.cells):
        yield supply_table(bundle)


def supply_table(bundle: BundleData) -> Table:
    """One row a cell. What a synthetic sensor gave is of the ring synthetic."""
    table = Table(NAME, names(COLUMNS))
    for cell in bundle.cells:
        watts = cell.value("P", "power_mean_w") or {}
        table.add(
            cell_id=cell.cell_id,
            suite_id=cell.suite_id,
            condition=cell.condition,
            repetition=cell.repetition,
            position=whole_of(cell.plan, "position"),
            verdict=cell.verdict,
            ring="synthetic" if watts.get("validity") == "model" else cell.ring,
            sensor=_text(cell, "P", "power_sensor_type"),
            n_samples=as_value(watts.get("n")),
            window_s=_value(cell, "C", "traffic_session_s"),
            **{name: _value(cell, "P", name) for name in names(RECORDED)},
            net_reason=as_value((cell.value("P", "energy_net_handshake_j") or {}).get("reason")),
            temperature_c=_value(cell, "N", "temperature_c"),
            reason=None if _value(cell, "P", "power_mean_w") is not None else as_value(watts.get("reason")),
        )
    return table


def _value(cell: Cell, letter: str, name: str) -> float | None:
    field = cell.value(letter, name) or {}
    found = None if field.get("validity") == "invalid" else field.get("value")  # a lower bound is no reading
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _text(cell: Cell, letter: str, name: str) -> Value:
    found = (cell.value(letter, name) or {}).get("value")
    return str(found) if found is not None else None
