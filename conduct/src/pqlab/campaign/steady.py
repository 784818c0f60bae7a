"""What keeps the controller's machine steady (governor, turbo, throttling, clocks, buffers), before a run and
after it.

Kept in hosts/controller.json. In the container lab both ends share that machine; an end elsewhere tells its
own frequency and throttle flags within its telemetry.
"""

from __future__ import annotations

from pqbase.documents import Json, part_of, rows_of
from pqevidence.errors import LabError
from pqevidence.paths import project_root
from pqlab.campaign.store import Store
from pqlab.doctor import System, steadiness, tuning

#: settings that no run may find changed at its end; load and clock offset move by themselves
CONSTANT = ("clock source", "governor", "turbo", "socket buffers")
KEY = "steadiness"


def look() -> Json:
    """{"findings": what doctor says, "tuned": what `pqlab tune` has set} of this machine, now."""
    try:
        tuned: object = [vars(change) for change in tuning.read_state(tuning.DEFAULT_STATE)]
    except (OSError, LabError) as error:
        tuned = {"reason": f"{tuning.DEFAULT_STATE} cannot be read: {error}"}
    return {"findings": steadiness(System(project_root())), "tuned": tuned}


def began(controller: Json, now: Json | None) -> Json:
    """The controller's document with what was found before the first cell."""
    return controller if now is None else {**controller, KEY: {"before": now, "after": None}}


def ended(store: Store, now: Json | None) -> list[str]:
    """Write down what was found after the last cell; a warning for each setting that is another one now."""
    document = store.read("hosts/controller.json")
    if now is None or KEY not in document:
        return []
    found = part_of(document, KEY)
    found["after"] = now
    store.write("hosts/controller.json", document)
    before, after = (
        {row["name"]: row["observed"] for row in rows_of(part_of(found, side), "findings")}
        for side in ("before", "after")
    )
    return [
        f"the controller's {name} changed during the run: {before[name]}, then {after[name]}"
        for name in CONSTANT
        if name in before and name in after and before[name] != after[name]
    ]
