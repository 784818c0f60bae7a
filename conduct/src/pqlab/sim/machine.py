"""The machine that a simulated pair stands for: as fast as its seed makes it, each algorithm a little apart.

Invented like all costs of the simulation, so that campaigns on several hosts can be rehearsed: hosts differ
as a whole, and in how they treat one algorithm beside another, which moves effects from host to host.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

from pqbase.documents import Json

#: the sd of a host's pace, and of its pace with one algorithm, on the logarithm
PACE_SD, ALGORITHM_SD = 0.15, 0.03


@dataclass(frozen=True)
class SimMachine:
    """seed: None for the one machine of runs that name none, which has no pace of its own."""

    seed: int | None = None

    @property
    def pace(self) -> float:
        """Factor of every cost."""
        return 1.0 if self.seed is None else self._drawn("all").lognormvariate(0.0, PACE_SD)

    def pace_of(self, token: str) -> float:
        """Factor of the costs of one algorithm, beside `pace`."""
        return 1.0 if self.seed is None else self._drawn(f"of/{token}").lognormvariate(0.0, ALGORITHM_SD)

    @property
    def suffix(self) -> str:
        """What cells draw their noise from beside their own seed: no two machines have one noise."""
        return "" if self.seed is None else f"/machine {self.seed}"

    def facts(self) -> Json:
        """What tells it from another machine, as host facts have it."""
        if self.seed is None:
            return {"hostname": "simulated", "boot_id": "00000000-0000-4000-8000-000000000000"}
        boot = uuid.UUID(int=self._drawn("boot").getrandbits(128), version=4)
        return {"hostname": f"simulated-{self.seed}", "boot_id": str(boot)}

    def _drawn(self, what: str) -> random.Random:
        return random.Random(f"sim machine/{self.seed}/{what}")
