"""Watts that no sensor measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bad_bundles.forge import (
    Registry,
    cell_of,
    cells,
    edit,
    edit_field,
    finish,
    load,
    registering,
    rename_cells,
)

BAD: Registry = {}
SUITE = "mlkem768"


@registering(BAD, "power_claims")
def zero_watts(root: Path) -> None:
    """A board that draws 0.0 W: a missing sensor that reads zero."""
    edit_field(cell_of(root, SUITE), "P", "power_mean_w", value=0.0, validity="ok", reason=None, n=100)
    finish(root)


@registering(BAD, "power_claims")
def watts_of_a_container(root: Path) -> None:
    """3.6 W in ring lab, where nothing can measure watts."""
    edit_field(cell_of(root, SUITE), "P", "power_mean_w", value=3.6, validity="ok", reason=None, n=100)
    finish(root)


@registering(BAD, "power_claims")
def watts_nobody_asked_for(root: Path) -> None:
    """Samples of a sensor that the drone was never told to read, marked synthetic all the same."""
    lines = cell_of(root, SUITE) / "telemetry.drone.lp"
    stamp = lines.read_text(encoding="utf-8").splitlines()[-1].rsplit(" ", 1)[1]
    with lines.open("a", encoding="utf-8") as file:
        file.write(f"pq_power,host=drone,ring=lab,sensor_class=model,synthetic=true power_w=4.0 {stamp}\n")
    finish(root)


@registering(BAD, "power_claims")
def stub_bus_called_hardware(root: Path) -> None:
    """A board is named and its watts are in ring hardware; the sensor's bus is the kernel's stub, which is
    memory."""
    data = root / "data"
    edit(data / "scenario.effective.yml", lambda scenario: scenario.update(ring="hardware"))
    for role in ("drone", "gcs"):
        change = {"ring": "hardware"}
        edit(data / "hosts" / f"{role}.json", lambda facts, change=change: facts.update(change))
    edit(data / "hosts" / "drone.json", lambda facts: facts["host"].update(board_revision="c03115"))
    rename_cells(root)
    series = "pq_power,host=drone,ring=hardware,sensor=ina219,sensor_class=stub-bus"
    for cell in cells(root):
        edit(cell / "record.json", lambda record: record.update(ring="hardware"))
        edit_field(cell, "P", "power_mean_w", value=3.62, validity="ok", reason=None, n=10)
        path = cell / "telemetry.drone.lp"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        times = sorted({line.rsplit(" ", 1)[1] for line in lines})
        lines += [f"{series} power_w=3.62,voltage_v=5.1,current_a=0.71 {moment}" for moment in times]
        path.write_text("".join(lines), encoding="utf-8")
        _count_in_view(data / "run.json", cell.name, series, len(times))
    finish(root)


def _count_in_view(run: Path, cell_id: str, series: str, count: int) -> None:
    row = {"series": series, "file_count": count, "influx_count": count}
    for_cell = next(entry for entry in load(run)["influx"]["cells"] if entry["cell_id"] == cell_id)
    rows = [*for_cell["series"], row]

    def put(document: Any) -> None:
        for entry in document["influx"]["cells"]:
            if entry["cell_id"] == cell_id:
                entry["series"] = rows

    edit(run, put)
