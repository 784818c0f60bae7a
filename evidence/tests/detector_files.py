"""Raw files of cells with detectors, for test bundles: verdicts, bins, control groups, a canary's truth.

Nothing here was measured, and nothing of the code under test is imported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MS = 1_000_000
WINDOW_NS = 600 * MS
BIN_NS = 20 * MS
SHA = {"xgboost": "ab" * 32, "tst": "cd" * 32, "cascade": "ef" * 32}
FIELDS = ("rx_datagrams", "rx_bytes", "tx_data", "tx_bytes", "bad_header", "auth_failed")
#: datagrams in and out in each bin
SEEN = (1, 7)


def facts(name: str) -> Json:
    """What providers.json says of a detector."""
    card = {
        "schema": "pqdetect/card/v1",
        "name": name,
        "kind": "trees" if name == "xgboost" else "transformer",
        "sha256": SHA[name],
        "parameters_count": 12_345,
        "size_bytes": 98_304 if name == "xgboost" else 2_000_000,
        "window_s": 0.6,
        "history_windows": 5 if name == "xgboost" else 400,
        "first_verdict_windows": 1,
        "time_to_first_verdict_s": 0.6,
        "inference": {"median_us": 8.0 if name == "xgboost" else 6700.0},
    }
    return {
        "image": f"pqlab/detector-{name}:dev",
        "image_id": "sha256:" + "12" * 32,
        "model": name,
        "sha256": SHA[name],
        "card": card,
    }


def gate_of(cell: Path) -> tuple[int, int]:
    window = json.loads((cell / "traffic.json").read_text())["windows"]["traffic"]["drone"]
    return int(window["open_ns"]), int(window["close_ns"])


def end_of(cell: Path) -> int:
    rows = [json.loads(line) for line in (cell / "events.ndjson").read_text().splitlines()]
    return max(int(row["t_ns"]) for row in rows if row["host"] == "controller")


def verdict(
    name: str, k: int, history: int, *, attack: bool = False, late_ms: int = 120, cell: str = "c"
) -> Json:
    t_ns = (k + 1) * WINDOW_NS + late_ms * MS
    return {
        "k": k,
        "t_ns": t_ns,
        "latency_ms": float(late_ms),
        "deadline_met": late_ms <= 600,
        "state": "ready",
        "attack_score": 0.97 if attack else 0.01,
        "degraded_score": 0.02,
        "attack": attack,
        "degraded": False,
        "history_windows": history,
        "packets_seen": 30 * sum(SEEN),
        "cpu_ns": 10**8 + 10**6 * history,
        "rss_bytes": 70_000_000,
        "detector": name,
        "model": name,
        "sha256": SHA[name],
        "cell_id": cell,
        "boot": "b1",
        "gap_windows": 0,
        "reset": None,
        "schema": "pqdetect/verdict/v1",
    }


def write_bins(cell: Path, first: int, last: int) -> None:
    """Every bin from `first` to before `last`, busy alike."""
    header = {"schema": "pqtunnel/feed/v1", "role": "drone", "bin_ns": BIN_NS, "fields": list(FIELDS)}
    counts = [SEEN[0], 90, SEEN[1], 600, 0, 0]
    lines = [json.dumps(header)] + [json.dumps([number, counts]) for number in range(first, last)]
    (cell / "bins.ndjson").write_text("".join(f"{line}\n" for line in lines))


def write_usage(
    cell: Path, names: tuple[str, ...], awake: str, *, share: float = 0.012, asleep_ns: int = 0
) -> None:
    """Both readings of every detector's control group: `share` of a core for the one that is awake."""
    open_ns, close_ns = gate_of(cell)
    before_ns, after_ns = open_ns - MS, close_ns + MS
    before, after = {}, {}
    for name in names:
        used = round(share * (after_ns - before_ns)) if name == awake else asleep_ns
        row = {"rss_bytes": 71_000_000, "frozen": name != awake, "reason": None}
        before[name] = {**row, "t_ns": before_ns, "cpu_ns": 5 * 10**9}
        after[name] = {**row, "t_ns": after_ns, "cpu_ns": 5 * 10**9 + used}
    document = {"schema_version": "pqlab/detectors/v1", "before": before, "after": after}
    (cell / "detectors.json").write_text(json.dumps(document, indent=1))


def write_watched(cell: Path, name: str, *, raised: bool = True, warm: bool = False) -> None:
    """What a detector that watched the cell left; its canary lies between traffic window and end."""
    open_ns, close_ns = gate_of(cell)
    end_ns = end_of(cell)
    first, last = -(-open_ns // WINDOW_NS), (end_ns - 120 * MS) // WINDOW_NS - 1
    on_ns, off_ns = close_ns + 100 * MS, end_ns - 200 * MS
    rows = []
    for k in range(first, last + 1):
        told = raised and (k + 1) * WINDOW_NS > on_ns
        history = k - first + (200 if warm else 1)
        rows.append(verdict(name, k, history, attack=told, cell=cell.name))
    (cell / "detector.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_bins(cell, first * 30, (last + 1) * 30)
    (cell / "canary").mkdir()
    truth = [
        {"schema": "pqattack/truth/v1", "cell_id": cell.name, "bin_ns": BIN_NS},
        {
            "episode": 1,
            "kind": "forged",
            "benign": False,
            "target": "drone",
            "path": "direct",
            "rate_pps": 1000,
            "t_on_ns": on_ns,
            "t_off_ns": off_ns,
            "sent_count": 900,
            "failed_count": 0,
            "ended": "deadline",
        },
    ]
    (cell / "canary" / "attack.ndjson").write_text("".join(json.dumps(row) + "\n" for row in truth))


__all__ = [
    "BIN_NS", "FIELDS", "MS", "SEEN", "SHA", "WINDOW_NS", "end_of", "facts", "gate_of", "verdict",
    "write_bins", "write_usage", "write_watched",
]  # fmt: skip
