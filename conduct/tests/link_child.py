"""A controller to be killed: holds the link, has a partition begin, and then hangs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fake_agent import FakeLab

from pqevidence.plan import Cell
from pqlab.campaign.agents import Pair
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.link import LinkControl
from pqlab.campaign.timeline import Timeline


class Silent:
    """A journal nobody reads."""

    def event(self, kind: str, **details: Any) -> None:
        return


def run(address: tuple[str, int], folder: str) -> None:
    """Never returns."""
    around = FakeLab(Path(folder)).around()
    condition = {
        "name": "lossy",
        "link": {"up": {"delay_ms": 80}, "down": {}},
        "rekey": "none",
        "events": [{"at_s": 0.1, "kind": "partition", "for_s": 600}],
    }
    cell = Cell("dead", "cs-mlkem768-aesgcm-mldsa65", "lossy", 1, 0, 0, seed=1)
    timeline = Timeline(
        condition, cell, Pair(around.inventory, around.connect), SystemClock(), Silent(), LinkControl(address)
    )
    timeline.before()
    with timeline.during():
        print("ready", flush=True)
        time.sleep(600)
