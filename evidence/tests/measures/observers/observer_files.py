"""observers.json of test bundles: the kernel's accounts around a traffic window. Nothing was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MS = 1_000_000
SERVICES = ("drone", "gcs", "influxdb", "mavproxy-air", "mavproxy-gcs", "sitl", "telegraf")
#: share of one core of each, while it is awake
TUNNEL, SAMPLER, VIEW, OTHER = 0.05, 0.008, 0.01, 0.04


def write_observers(cell: Path, left_out: tuple[str, ...] = (), *, scale: float = 1.0) -> None:
    """Both readings, 1 ms outside the drone's gates; `left_out` used nothing, the rest `scale` × a share."""
    window = json.loads((cell / "traffic.json").read_text())["windows"]["traffic"]["drone"]
    begin_ns, end_ns = int(window["open_ns"]) - MS, int(window["close_ns"]) + MS
    wall_ns = end_ns - begin_ns

    def used(share: float, off: bool = False) -> int:
        return 0 if off else round(scale * share * wall_ns)

    def reading(t_ns: int, part: int) -> Json:
        view_off, sampler_off = "telegraf" in left_out, "sampler" in left_out
        services = {
            name: {
                "cpu_ns": 10**9
                + part
                * used(
                    VIEW if name in ("telegraf", "influxdb") else OTHER,
                    view_off and name in ("telegraf", "influxdb"),
                ),
                "reason": None,
            }
            for name in SERVICES
        }
        end = {
            "tunnel_cpu_ns": 10**9 + part * used(TUNNEL),
            "sampler_cpu_ns": 10**9 + part * used(SAMPLER, sampler_off),
        }
        busy_ms = part * used(0.3) // MS
        return {
            "services": services,
            "t_ns": t_ns,
            "machine": {"busy_ms": 10**6 + busy_ms, "steal_ms": 0},
            "ends": {"drone": end, "gcs": dict(end)},
        }

    document = {
        "schema_version": "pqlab/observers/v1",
        "before": reading(begin_ns, 0),
        "after": reading(end_ns, 1),
    }
    (cell / "observers.json").write_text(json.dumps(document, indent=1))
