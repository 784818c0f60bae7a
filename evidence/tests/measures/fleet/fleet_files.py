"""The raw files of a fleet for test bundles: a small farm, all of it within 20 ms. Nothing was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MS = 1_000_000
DRONES = 4
#: as an effective scenario writes it
SETTINGS: Json = {
    "drones": DRONES,
    "arrive_s": 0.001,
    "window_s": 0.001,
    "probe_hz": 10,
    "outage_s": 0.1,
    "exchange_count": 2,
    "rate_hz": 320,
    "load_s": 0.2,
    "size_bytes": 64,
    "limit_s": 5,
}
#: the fleet's monotonic clock begins here
BEGIN_NS = 5_000_000_000
LENGTH_NS = 20 * MS
HEADERS = {
    "attempts": "stage,drone,attempt,kind,due_ns,dialled_ns,connected_ns,hello_ns,established_ns,"
    "first_packet_ns,outcome",
    "back": "stage,drone,back_ns",
    "probes": "stage,drone,sent_ns,returned_ns",
    "samples": "t_ns,farm_cpu_ns,farm_rss_kib,station_process,station_cpu_ns,station_rss_kib,"
    "machine_busy_ticks",
    "loads": "stage,drones,rate_hz,size_bytes,begin_ns,end_ns,offered_count,sent_count,arrived_count",
}
#: of each stage, ms after the begin: it begins, the drones may dial, it is over
STAGES: dict[str, tuple[float, float, float]] = {
    "join": (1, 1, 3),
    "quiet": (4, 4, 5),
    "rekeying": (6, 6, 8),
    "restart": (9, 10, 12),
    "outage": (13, 14, 16),
}
_MASK = (1 << 64) - 1


def moments(seed: int, spread_us: int) -> list[int]:
    """splitmix64, written once more: a test must not ask the code that it tests."""
    found, state = [], seed & _MASK
    for _ in range(DRONES):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        one = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        two = (one ^ (one >> 27)) * 0x94D049BB133111EB & _MASK
        found.append((two ^ (two >> 31)) % spread_us)
    return found


def at(ms: float) -> int:
    return BEGIN_NS + round(ms * MS)


def write_fleet(cell: Path, seed: int, realtime_ns: int) -> None:
    """All files; `realtime_ns` is the moment at which the fleet began."""
    due = {"join": moments(seed, 1000), "rekeying": moments(seed ^ 0x52454B4559000000, 1000)}
    rows: dict[str, list[str]] = {name: [header] for name, header in HEADERS.items()}
    numbers = [0] * DRONES
    for stage in ("join", "rekeying", "restart", "outage"):
        opens = at(STAGES[stage][1])
        for drone in range(DRONES):
            numbers[drone] += 1
            known = due.get(stage)
            start = opens + 1000 * known[drone] if known else opens + 1000 * drone
            kind = "rekey" if stage == "rekeying" else "session"
            steps = [start + step * 10_000 for step in range(1, 6)]
            told = [stage, drone, numbers[drone], kind, start if known else "", *steps, "completed"]
            rows["attempts"].append(",".join(map(str, told)))
            if stage != "rekeying":
                rows["back"].append(f"{stage},{drone},{steps[-1]}")
    for stage, (_, _, over) in STAGES.items():
        for drone in range(2 * DRONES):
            sent = at(over) + 1000 * drone
            rows["probes"].append(f"{stage},{drone % DRONES},{sent},{sent + 200_000 + 1000 * drone}")
    for step in range(2 * LENGTH_NS // MS + 1):
        t_ns, second = at(step / 2), step >= 20
        cpu = (step - 20 if second else step) * 100_000
        rows["samples"].append(
            f"{t_ns},{step * 150_000},5000,{61 if second else 11},{cpu},{4096 + 8 * min(step, 6)},"
            f"{100 + step // 30}"
        )
    rows["loads"].append(f"load-{DRONES},{DRONES},320,64,{at(17)},{at(18)},256,256,256")
    for name, lines in rows.items():
        (cell / f"fleet.{name}.csv").write_text("".join(f"{line}\n" for line in lines))
    stages: Json = {
        name: {"begin_ns": at(begin), "waited_ns": at(over)} for name, (begin, _, over) in STAGES.items()
    }
    stages["restart"]["gone_ns"] = at(8.5)
    stages["outage"] |= {"gone_ns": at(12.5), "healed_ns": at(14), "healed_by_ns": at(14.1)}
    document = {
        "schema_version": "pqlab/fleet/v1",
        "settings": SETTINGS,
        "seed": seed,
        "builds": {"image": "sha256:00", "pqlink_sha256": "00", "pqfarm_sha256": "00"},
        "clocks": {
            "begin": {"realtime_ns": realtime_ns, "monotonic_ns": at(0)},
            "end": {"realtime_ns": realtime_ns + LENGTH_NS, "monotonic_ns": at(20)},
        },
        "stages": stages,
        "arrivals": {
            name: {"begin_ns": at(STAGES[name][1]), "spread_us": spread_us}
            for name, spread_us in (("join", 1000), ("quiet", 0), ("rekeying", 1000))
        },
        "listening": [{"t_ns": at(0.5), "process": 11}, {"t_ns": at(10), "process": 61}],
        "wake_ns": [5000 + 10 * n for n in range(100)],
        "farm": {"crossed_count": 0, "dropped_count": 0},
    }
    (cell / "fleet.json").write_text(json.dumps(document, indent=1))
    lines = [
        _status("join", 1, 0, 0),
        _status("rekeying", 2, 6, 0),
        _status("restart", 1, 2, 0),
        _status("outage", 2, 4, 0),
        _status("load", 2, 4, 64),
    ]
    for line in lines[:-1]:
        line["t_ns"] = at(STAGES[str(line["stage"])][2])
    (cell / "fleet.station.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _status(stage: str, handshakes: int, probes: int, load: int) -> Json:
    drones = [
        {"name": f"d{n:04}", "hs_completed": handshakes, "rx_ok": probes + load, "tx_data": probes}
        for n in range(DRONES)
    ]
    total = handshakes * DRONES
    return {"stage": stage, "t_ns": 0, "told": {"hs_started": total, "hs_completed": total, "drone": drones}}


def with_fleet(cell: Path, seed: int) -> None:
    """The files, and the window in the cell's events: between the last measured window and the stop."""
    path = cell / "events.ndjson"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    stop_ns = min(int(event["t_ns"]) for event in events if event["event"] == "stop")
    begin_ns = stop_ns - 25 * MS
    for kind, t_ns in (("window_start", begin_ns), ("window_end", begin_ns + LENGTH_NS)):
        events.append({"t_ns": t_ns, "host": "controller", "event": kind, "window": "fleet"})
    events.sort(key=lambda event: int(event["t_ns"]))
    path.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    write_fleet(cell, seed, begin_ns)
