"""No watts without a sensor that measures, and none that nobody asked for."""

from __future__ import annotations

import json

from pqbase.documents import part_of
from pqevidence.kernel.claims import LIMITS, PHYSICAL_UNITS, fields_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.raw import ROLES, Json

#: classes of power sensors that measure; docs/POWER.md has the others
REAL_SENSORS = ("chip", "pmic")


def claims(cell: CellView, tally: Tally) -> None:
    """Volts, amperes, watts and joules: outside the hardware ring only from a sensor that says it is
    synthetic, with validity `model`; at no place 0.0, which is what a missing sensor used to read."""
    tally.see()
    for letter, name, field in fields_of(cell.record):
        if field["unit"] not in PHYSICAL_UNITS or field["value"] is None or letter == "L":
            continue
        where = f"{cell.label} {letter}.{name}: {field['value']} {field['unit']}"
        low, high = LIMITS[str(field["unit"])]
        tally.require(low <= float(field["value"]) <= high, f"{where} is not a measurement")
        if cell.record["ring"] != "hardware":
            honest = field["validity"] == "model" and "synthetic" in str(field["reason"])
            tally.require(honest, f"{where} in ring {cell.record['ring']}")
    if cell.record["ring"] == "hardware":
        _real_sensor(cell, tally)
    asked = part_of(cell.run.scenario, "telemetry", {}).get("power", "none")
    for role, lines in cell.raw.telemetry.items():
        for line in lines:
            if not line.startswith("pq_power"):
                continue
            wanted = asked == "host" and _told_to_sample(cell.run.hosts.get(role) or {}, line)
            tally.require(wanted, f"{cell.label} {role}: power samples nobody asked for")
            if cell.record["ring"] != "hardware":
                tagged = "synthetic=true" in line.split(" ")[0]
                tally.require(tagged, f"{cell.label} {role}: watts in ring {cell.record['ring']}")
            break


def _told_to_sample(host: Json, line: str) -> bool:
    """Was this host told, by name, to sample the kind of power sensor that gave this line?"""
    for sensor in host.get("sensors") or []:
        power = str(sensor.get("name")).split(":")[0] == "power"
        if power and (sensor.get("sensor") or sensor.get("available")):
            kind = sensor.get("sensor_class")
            return kind is None or f",sensor_class={kind}," in f"{line.split(' ')[0]},"
    return False


def _real_sensor(cell: CellView, tally: Tally) -> None:
    """Watts of the hardware ring come from a chip: each sample and each raw file says so."""
    claimed = [
        name
        for letter, name, field in fields_of(cell.record)
        if letter == "P" and field["unit"] in PHYSICAL_UNITS and field["value"] is not None
    ]
    kinds: dict[str, set[str]] = {role: set() for role in ROLES}
    for role in ROLES:
        for line in cell.raw.telemetry.get(role, []):
            if line.startswith("pq_power"):
                tags = dict(tag.split("=", 1) for tag in line.split(" ", 1)[0].split(",")[1:])
                unreal = tags.get("synthetic") == "true"
                kinds[role].add("synthetic" if unreal else tags.get("sensor_class", "no class"))
        path = cell.folder / f"power.{role}.csv"
        if path.is_file():
            with path.open(encoding="utf-8") as handle:
                kinds[role].add(str(json.loads(handle.readline()).get("sensor_class")))
        for kind in sorted(kinds[role] - set(REAL_SENSORS)):
            tally.fail(f"{cell.label} {role}: watts in ring hardware from a sensor of class {kind}")
    if claimed and not kinds["drone"]:
        tally.fail(f"{cell.label}: {claimed[0]} without a power sample of the drone")
