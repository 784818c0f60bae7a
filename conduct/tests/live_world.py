"""A campaign folder and a database that answers like the lab's, for tests of the live view: a run before, in
and after its cells, with whatever is under way."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pqbase.text import utc_text
from pqlab.campaign.store import Store
from pqlab.influx import InfluxError, InfluxView

Json = dict[str, Any]
RUN_ID = "20260301T120000Z-ab12cd"
S = 10**9
STEP_S = 2
SUITES = (
    "cs-mlkem512-aesgcm-falcon512", "cs-mlkem768-aesgcm-mldsa65", "cs-hqc128-ascon128a-mldsa44",
    "cs-classicmceliece348864-chacha20poly1305-falcon512", "cs-frodokem976aes-aesgcm-mldsa65",
)  # fmt: skip
CONDITIONS: list[Json] = [
    {"name": "baseline", "link": "none", "attack": "none", "events": [], "detector": "none"},
    {"name": "watched", "link": "none", "attack": "none", "events": [], "detector": "xgboost"},
    {"name": "radio", "link": {"name": "lora", "up": {"loss_pct": 1.0}, "down": {}}, "attack": "none"},
    {"name": "blind", "link": "none", "attack": "none", "events": [], "without": ["sampler"]},
]  # fmt: skip
#: what no host of this lab has, or nobody sends
EMPTY = ('"pq_temp"', '"pq_power"', "udp_rcvbuf", "auth_failed", "bad_header", "replay")


class Database(InfluxView):
    """Answers each question with one series of the tags that it groups by, at `now_ns`, from the moment that
    was asked for on.

    gone: refuses. silent: ends that no sample comes from any more, and since when. alarm: what the detector
    says, None where none runs.
    """

    def __init__(self, now_ns: int) -> None:
        super().__init__("http://127.0.0.1:9", "pqlab")
        self.now_ns = now_ns
        self.gone = False
        self.silent: dict[str, int] = {}
        self.alarm: tuple[int, int] | None = None
        self.rekeys_s: tuple[float, ...] = ()
        self.asked: list[str] = []

    def query(self, influxql: str) -> list[Json]:
        if self.gone:
            raise InfluxError("influx-unreachable", "InfluxDB cannot be reached", "refused", "make lab-up")
        self.asked.append(influxql)
        since_ns = int(re.findall(r"time >= (\d+)", influxql)[0])
        if '"pq_sensor"' in influxql:
            return [_row({"name": "thermal"}, ["time", "last"], [[self.now_ns, "no thermal zone"]])]
        if '"pq_sampler"' in influxql:
            heard = {role: self.silent.get(role, self.now_ns) for role in ("drone", "gcs")}
            return [_row({"host": role}, ["time", "last"], [[t_ns, 1]]) for role, t_ns in heard.items()]
        if '"pq_detector"' in influxql:
            return self._detector(influxql, since_ns)
        if any(name in influxql for name in EMPTY):
            return []
        times = [t for t in range(self.now_ns - 180 * S, self.now_ns, STEP_S * S) if t >= since_ns]
        if "rekey_completed" in influxql:
            hits = [[self.now_ns - round(ago_s * S), 0.5] for ago_s in self.rekeys_s]
            rows = [[t, 0.0] for t in times] + [row for row in hits if row[0] >= since_ns]
            return [_row({"host": "drone"}, ["time", "x"], sorted(rows))] if times else []
        hosts = ("drone",) if "\"host\" = 'drone'" in influxql else ("drone", "gcs")
        return [
            _row({"host": host}, ["time", "x"], [[t, 20.0 + place + (t // (STEP_S * S)) % 5] for t in times])
            for place, host in enumerate(hosts)
            if times
        ]

    def _detector(self, influxql: str, since_ns: int) -> list[Json]:
        tags = {"host": "drone", "model": "xgboost"}
        if self.alarm is None:
            return []
        if "state" in influxql:
            columns = ["time", "state", "attack", "degraded"]
            return [_row(tags, columns, [[0, "ready", *self.alarm]])] if since_ns < self.now_ns else []
        times = [t for t in range(self.now_ns - 20 * S, self.now_ns, STEP_S * S) if t >= since_ns]
        return [_row(tags, ["time", "x"], [[t, 0.1 + 0.8 * self.alarm[0]] for t in times])] if times else []


def _row(tags: Json, columns: list[str], values: list[list[Any]]) -> Json:
    return {"name": "x", "tags": tags, "columns": columns, "values": values}


def plan_rows(count: int) -> list[Json]:
    """Cells of the plan, suites in turn."""
    return [
        {
            "cell_id": f"{place:04x}{'0' * 8}",
            "position": place,
            "suite_id": SUITES[place % len(SUITES)],
            "condition": CONDITIONS[place % 3]["name"],
            "repetition": 1 + place // len(SUITES),
            "seed": place,
        }
        for place in range(count)
    ]


def _record(cell: Json, verdict: str, reason: str | None) -> Json:
    place = int(cell["position"])
    handshake_ms = (1.4, 2.1, 9.6, 48.0, 12.5)[place % len(SUITES)] * (1 + 0.02 * (place % 7))
    fields = {
        ("D", "handshake_total_duration_ms"): handshake_ms,
        ("H", "one_way_latency_p50_ms"): 0.21 + 0.01 * (place % 4),
        ("H", "one_way_latency_p99_ms"): 0.9 + 0.1 * (place % 5),
        ("G", "packet_loss_ratio"): 0.012 if cell["condition"] == "radio" else 0.0,
        ("G", "goodput_down_mbps"): 0.31,
    }
    categories: Json = {}
    for (letter, name), value in fields.items():
        categories.setdefault(letter, {})[name] = {"value": value, "validity": "valid", "source": "x"}
    if verdict == "invalid":
        categories["D"]["handshake_total_duration_ms"]["validity"] = "invalid"
    return {"verdict": verdict, "reason": reason, "ring": "lab", "categories": categories}


def make_run(
    results: Path,
    now_ns: int,
    done: int,
    total: int = 15,
    *,
    state: str = "running",
    condition: str | None = None,
    ring: str = "lab",
    begun_s_ago: float = 170.0,
    scenario: str = "smoke",
) -> Store:
    """A run with `done` finished cells, ten seconds a cell; its lock is the caller's to hold."""
    store = Store(results, RUN_ID)
    cells = plan_rows(total)
    begun_ns = now_ns - round(begun_s_ago * S)
    store.write(
        "run.json",
        {
            "run_id": RUN_ID,
            "scenario": scenario,
            "started_ns": begun_ns,
            "warnings": [],
            "sessions": [{"started_ns": begun_ns}],
        },
    )
    text = json.dumps({"ring": ring, "conditions": CONDITIONS})  # JSON is YAML
    store.data.joinpath("scenario.effective.yml").write_text(text, encoding="utf-8")
    store.write("plan.json", {"scenario": scenario, "cells": cells})
    counts: dict[str, int] = {}
    for cell in cells[:done]:
        verdict, reason = (
            ("pass", None) if cell["position"] != 2 else ("invalid", "a neighbour used 41 % of a core")
        )
        counts[verdict] = counts.get(verdict, 0) + 1
        folder = store.cell_dir(cell["cell_id"])
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(json.dumps(_record(cell, verdict, reason)))
        ended_ns = now_ns - (done - int(cell["position"])) * 10 * S
        events = [
            {"t_ns": ended_ns - 9 * S, "host": "controller", "event": "window_start", "window": "traffic"},
            {
                "t_ns": ended_ns - 5 * S,
                "host": "drone",
                "event": "rekey",
                "result": "completed",
                "start_ns": ended_ns - 5 * S - S // 50,
                "end_ns": ended_ns - 5 * S,
            },
            {"t_ns": ended_ns - S, "host": "controller", "event": "window_end", "window": "traffic"},
            {"t_ns": ended_ns, "host": "controller", "event": "cell_end"},
        ]
        (folder / "events.ndjson").write_text("".join(json.dumps(row) + "\n" for row in events))
    current = None
    if done < total:
        current = {**cells[done], **({"condition": condition} if condition else {})}
    store.write_status(
        {
            "run_id": RUN_ID,
            "state": state,
            "scenario": scenario,
            "done": done,
            "total": total,
            "verdict_counts": counts,
            "eta_s": 130.0,
            "error": None,
            "updated_utc": utc_text(now_ns - 5 * S),
            "current": current,
        }
    )
    return store


def tell(store: Store, now_ns: int, *rows: tuple[float, str, Json]) -> None:
    """Events of the cell in progress: (s ago, event, details)."""
    store.begin_events()
    for ago_s, event, details in rows:
        t_ns = now_ns - round(ago_s * S)
        store.tell_event({"t_ns": t_ns, "host": "controller", "event": event, **details})


def seal(
    store: Store, counts: dict[str, int], report: str = "<!doctype html><title>r</title><p>the report"
) -> Path:
    """What a sealed run leaves: its bundle, `latest`, and no work folder."""
    bundle = store.results / store.run_id
    store.unlock()
    run = {**store.read("run.json"), "verdict_counts": counts, "ended_ns": 1}
    store.clear_scaffolding()
    store.root.rename(bundle)
    (bundle / "data" / "run.json").write_text(json.dumps(run))
    (bundle / "data" / "report.html").write_text(report)
    (bundle / "bagit.txt").write_text("BagIt-Version: 1.0\n")
    (store.results / "latest").symlink_to(bundle.name)
    return bundle
