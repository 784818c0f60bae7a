"""A built bundle with cold handshakes over radios, for the tests of advice: nothing in it was measured.

Times are drawn by `pqlab.sim.air`, which follows every packet through the router's own channels, plus
invented processor times: another model than the one under test.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pqevidence.advise.radio import Radio
from pqevidence.advise.transfer import handshake_seconds
from pqevidence.advise.wire import messages
from pqlab.sim.air import Air
from pqlink.channel import Channel
from pqlink.settings import Side
from pqtunnel import suites as registry

Json = dict[str, Any]
#: half of a 2 x 2 x 2 design and its middle, as scenarios/radios.yml has it
RADIOS = {
    "slow-clean-far": Radio(800, 60, 0),
    "slow-lossy-near": Radio(800, 15, 1.5),
    "middle": Radio(2000, 30, 0.5),
    "fast-clean-near": Radio(6000, 15, 0),
    "fast-lossy-far": Radio(6000, 60, 1.5),
}
SUITES = (
    "cs-mlkem512-aesgcm-falcon512", "cs-mlkem512-aesgcm-mldsa44", "cs-hqc128-aesgcm-mldsa44",
    "cs-mlkem768-aesgcm-mldsa65", "cs-hqc192-aesgcm-mldsa65", "cs-mlkem1024-aesgcm-falcon1024",
)  # fmt: skip
CPU = "invented processor"


def link_of(radio: Radio) -> Json:
    """The block of a condition."""
    side = {"rate_kbps": radio.rate_kbps, "delay_ms": radio.delay_ms, "queue_ms": 1000}
    side |= {"loss_pct": radio.loss_pct} if radio.loss_pct else {}
    return {"up": dict(side), "down": dict(side)}


def followed_seconds(suite_id: str, radio: Radio, rng: random.Random) -> float:
    """One handshake, packet by packet."""
    ways = []
    for _ in range(2):
        channel = Channel(random.Random(rng.random()))
        channel.set(Side.parse(link_of(radio)["up"]))
        ways.append(channel)
    air = Air(*ways)
    now_ns = air.connect(0) + round(radio.delay_ms * 1e6)  # the ground speaks when the ACK is there
    for frame in messages(registry.get(suite_id)):
        now_ns = air.carry(frame.sender, frame.size_bytes, now_ns)
    return now_ns / 1e9


def make_radio_bundle(
    root: Path,
    *,
    radios: Mapping[str, Radio] = RADIOS,
    suites: Sequence[str] = SUITES,
    count: int = 20,
    ring: str = "lab",
    energy_j: float | None = None,
    conditions: Sequence[Json] = (),
    work_ms: float = 4.0,
    beside_ms: float = 0.0,
    follow: bool = True,
    failed: Sequence[str] = (),
) -> Path:
    """Write it and return `root`. count: handshakes a cell; conditions: further ones, each cell of them on
    the direct path; beside_ms: on every time; follow: times of the model that follows every packet, else of
    the one under test; failed: conditions whose cells completed nothing."""
    rng = random.Random(5)
    listed = [{"name": name, "link": link_of(radio)} for name, radio in radios.items()] + list(conditions)
    data, cells = root / "data", []
    for condition in listed:
        for suite_id in suites:
            cell_id = f"{len(cells):016x}"
            cells.append(
                {
                    "cell_id": cell_id,
                    "suite_id": suite_id,
                    "condition": condition["name"],
                    "repetition": 1,
                    "position": len(cells),
                    "block": 0,
                    "seed": 1,
                }
            )
            radio = radios.get(condition["name"])
            lost = condition["name"] in failed
            walls = (
                []
                if lost
                else [_times(suite_id, radio, rng, work_ms, follow, beside_ms) for _ in range(count)]
            )
            _write_cell(data / "cells" / cell_id, walls, ring, energy_j, count if lost else 0)
    write(data / "plan.json", {"cells": cells, "conditions": listed, "seed": 1, "run_id": root.name})
    write(data / "scenario.effective.yml", {"name": "built", "conditions": listed})
    write(data / "run.json", {"run_id": root.name})
    for role in ("drone", "gcs"):
        write(data / "hosts" / f"{role}.json", {"host": {"machine": "x86_64", "cpu_model": CPU}})
    return root


def write(path: Path, value: Any) -> None:
    """JSON, which is YAML as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")


def _times(
    suite_id: str, radio: Radio | None, rng: random.Random, work_ms: float, follow: bool, beside_ms: float
) -> tuple[float, float]:
    """(wall, work) of one handshake, s."""
    work_s = work_ms / 1e3 * (0.9 + 0.2 * rng.random())
    if radio is None:
        carried_s = 0.001
    elif follow:
        carried_s = followed_seconds(suite_id, radio, rng)
    else:
        carried_s = handshake_seconds(messages(registry.get(suite_id)), radio, rng)
    return carried_s + work_s + beside_ms / 1e3, work_s


def _write_cell(
    folder: Path, walls: list[tuple[float, float]], ring: str, energy_j: float | None, failed: int
) -> None:
    rows = []
    for number, (wall_s, work_s) in enumerate(walls):
        common = {"handshake_id": f"{number:08x}", "mode": "cold"}
        for host in ("drone", "gcs"):
            end_ns, half_ns = round(wall_s * 1e9), round(work_s * 1e9 / 2)
            rows.append(
                {**common, "host": host, "step": "verify", "kind": "crypto", "start_ns": 0, "end_ns": half_ns}
            )
            rows.append(
                {**common, "host": host, "step": "handshake", "kind": "wall", "start_ns": 0, "end_ns": end_ns}
            )
    fields = {"D": {"handshake_failed_count": {"value": failed}}}
    fields["P"] = {"energy_net_handshake_j": {"value": energy_j}} if energy_j is not None else {}
    verdict = "fail" if failed else "pass"
    write(folder / "record.json", {"verdict": verdict, "ring": ring, "reason": None, "categories": fields})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "spans.ndjson").write_text(text, encoding="utf-8")
