"""The ring of truth a run is claimed in: the scenario's where its file names one, else the inventory's.

A number's ring is that of its weakest host, and hosts are the inventory's matter: the same scenario file runs
in every ring. Whether the ends agree is asked of them before the first cell (`hosts.check_pair`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from pqbase.documents import Json
from pqevidence.paths import shown
from pqevidence.scenario.load import DEFAULT
from pqevidence.scenario.model import Scenario
from pqlab.inventory import Inventory

SIM: Final = "sim"


def at_ring(scenario: Scenario, inventory: Inventory) -> Scenario:
    """The scenario as it is claimed with this inventory; the origin of its ring says who decided.

    A simulated inventory decides whatever the file says: its numbers can be nothing else.
    """
    named = scenario.origins["ring"] != DEFAULT
    if named and inventory.ring != SIM:
        return scenario
    file = Path(shown(inventory.file))
    origin = f"--inventory {file.name if file.is_absolute() else file}"  # no path of this machine in a bundle
    data: Json = {**scenario.data, "ring": inventory.ring}
    return replace(scenario, data=data, origins={**scenario.origins, "ring": origin})
