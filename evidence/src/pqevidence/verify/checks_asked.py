"""Files that a run writes only where it was asked for them, or had what they are of."""

from __future__ import annotations

from pqbase.documents import rows_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import ROLES, RawRun
from pqevidence.scenario.conditions import traces_of

TRACES = "traces"


def files(bundle: BundleView, tally: Tally) -> None:
    """A radio trace is one that a condition names; power samples are of an end that has a sensor for them."""
    named = {
        str(block["sha256"])
        for run in bundle.runs
        for condition in rows_of(run.scenario, "conditions")
        for block in traces_of(condition).values()
    }
    for path in sorted((bundle.data / TRACES).glob("*")):
        tally.see()
        tally.require(path.stem in named, f"{TRACES}/{path.name[:12]}… is named by no condition")
    for cell in bundle.cells:
        for role in ROLES:
            there = [path for path in cell.folder.rglob(f"power.{role}.csv") if path.is_file()]
            for path in there:
                tally.see()
                tally.require(
                    _has_sensor(cell.run, role),
                    f"{cell.label}: {path.name}, and hosts/{role}.json lists no power sensor that was there",
                )


def _has_sensor(run: RawRun, role: str) -> bool:
    sensors = rows_of(run.hosts.get(role) or {}, "sensors", [])
    return any(
        str(sensor.get("name")).split(":")[0] == "power" and (sensor.get("sensor") or sensor.get("available"))
        for sensor in sensors
    )
