"""A synthetic bundle whose drone had a sensor: watts that follow the suite, heat that builds up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from report_bundle import make_bundle, plan_cells

#: suite → mean power that the invented sensor reads, W
WATTS = {
    "cs-mlkem768-aesgcm-mldsa65": 3.60,
    "cs-mlkem512-chacha20poly1305-falcon512": 3.64,
    "cs-classicmceliece348864-ascon128a-mldsa44": 4.10,
}


def edit(synthetic: bool) -> Any:
    """Append power and temperature to the drone's telemetry; one point a tick."""

    def change(root: Path) -> None:
        for cell in plan_cells(root):
            path = root / "data" / "cells" / cell["cell_id"] / "telemetry.drone.lp"
            stamps = sorted({line.rsplit(" ", 1)[1] for line in path.read_text().splitlines()})
            watts = WATTS[cell["suite_id"]]
            tags = f"host=drone,ring=lab,sensor=stub,synthetic={str(synthetic).lower()}"
            lines = []
            for place, stamp in enumerate(stamps):
                now_w = watts + (0.5 if place % 10 == 0 else 0.0)
                lines.append(
                    f"pq_power,{tags} power_w={now_w:.3f},voltage_v=5.1,current_a={now_w / 5.1:.4f} {stamp}"
                )
                heat_c = 54.0 + 0.7 * cell["position"]
                lines.append(f"pq_temp,host=drone,ring=lab,zone=cpu temperature_c={heat_c:.1f} {stamp}")
            with path.open("a") as handle:
                handle.write("\n".join(lines) + "\n")
        hosts = root / "data" / "hosts" / "drone.json"
        facts = json.loads(hosts.read_text())
        facts["sensors"] = [
            {"name": name, "available": True, "reason": None} for name in ("thermal", "power")
        ]
        hosts.write_text(json.dumps(facts))

    return change


def make(root: Path, *, synthetic: bool = False, **options: Any) -> Path:
    """Three suites, three repetitions."""
    return make_bundle(root, edit=edit(synthetic), **{"repetitions": 3, "bulk": False, **options})
