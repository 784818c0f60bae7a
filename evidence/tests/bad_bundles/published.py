"""A bundle made of published numbers: the 72-suite table behind `pqc-mav-2026-02`, baseline scenario.

It claims what was claimed: sessions of 110 s at 320 Hz, each suite PASS, power from a sensor. Every figure is
the published one; what was not published is absent. A cell lasts as long as the table says it did.
"""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import yaml
from fixture_cell import DATA_COUNTERS, HANDSHAKE_COUNTERS
from fixture_handshake import BOOT_ID

from bad_bundles.forge import rebag, save, save_lines

RUN_ID = "20260201T090000Z-f00d72"
START_NS = 1_769_936_400_000_000_000
MS = 1_000_000
SESSION_S, RATE_HZ = 110, 320
#: what a reader must be told at the least, whatever else is wrong
REJECTED_BY = (
    "session_duration",
    "rate_time_packets",
    "counters_agree",
    "handshake_count",
    "power_claims",
    "raw_files",
)
PRIMITIVES = (
    ("gcs", "keygen", "base_gcs_keygen_ms", "kem_keygen_ms"),
    ("gcs", "sign", "base_gcs_sign_ms", "sig_sign_ms"),
    ("drone", "verify", "base_drone_verify_ms", "sig_verify_ms"),
    ("drone", "encaps", "base_drone_encaps_ms", "kem_encaps_ms"),
    ("gcs", "decaps", "base_gcs_decaps_ms", "kem_decaps_ms"),
)


def make(root: Path, table: Path, package: Path) -> Path:
    """Write the bundle to `root` from the published CSV `table`; `package` has every fields.yml."""
    catalogue: dict[str, Any] = {}
    for file in (package / "fields.yml", *sorted(package.glob("measures/*/fields.yml"))):
        for letter, body in yaml.safe_load(file.read_text(encoding="utf-8"))["categories"].items():
            fields = [field for field in body["fields"] if "since" not in field]  # as 0.1.0 had them
            catalogue.setdefault(letter, {"fields": []})["fields"] += fields
    with table.open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    data = root / "data"
    (data / "hosts").mkdir(parents=True)
    scenario = _scenario([row["suite_id"] for row in rows])
    text = json.dumps(scenario, indent=1) + "\n"
    (data / "scenario.effective.yml").write_text(text, encoding="utf-8")
    providers = _providers()
    save(data / "providers.json", providers)
    suites = {row["suite_id"]: {"status": "available", "reason": None} for row in rows}
    for role in ("drone", "gcs", "controller"):
        save(data / "hosts" / f"{role}.json", _host(role, suites))
    plan_cells = []
    now_ns = START_NS
    for position, row in enumerate(rows):
        cell_id = _cell_id(scenario, providers, row["suite_id"])
        plan = {
            "cell_id": cell_id,
            "suite_id": row["suite_id"],
            "condition": "baseline",
            "repetition": 1,
            "position": position,
            "block": 0,
            "seed": position,
        }
        plan_cells.append(plan)
        now_ns = _cell(data / "cells" / cell_id, plan, row, now_ns, catalogue)
    digest = hashlib.sha256(text.encode()).hexdigest()
    save(
        data / "plan.json",
        {
            "schema_version": "pqlab/plan/v1",
            "run_id": RUN_ID,
            "scenario_sha256": digest,
            "created_utc": "2026-02-01T09:00:00Z",
            "seed": 1,
            "cells": plan_cells,
            "budget": {},
        },
    )
    run = {
        "run_id": RUN_ID,
        "started_ns": START_NS,
        "ended_ns": now_ns,
        "pqlab_version": "0.1.0",
        "influx": None,
    }
    save(data / "run.json", run)
    files = sorted(p.relative_to(data).as_posix() for p in data.rglob("*") if p.is_file())
    crate: list[dict[str, Any]] = [
        {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "about": {"@id": "./"}},
        {"@id": "./", "@type": "Dataset", "identifier": RUN_ID},
    ]
    crate += [{"@id": n, "@type": "File", "contentSize": str((data / n).stat().st_size)} for n in files]
    save(data / "ro-crate-metadata.json", {"@graph": crate})
    declared = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
    (root / "bagit.txt").write_text(declared, encoding="utf-8")
    rebag(root)
    return root


def _scenario(suites: list[str]) -> dict[str, Any]:
    return {
        "schema": "pqlab/scenario/v1",
        "name": "baseline",
        "title": "",
        "ring": "lab",
        "seed": 1,
        "suites": suites,
        "repetitions": 1,
        "conditions": [{"name": "baseline", "detector": "none", "link": "none"}],
        "handshake": {"count": 30, "min_count": 5, "max_s": 20},
        "traffic": {
            "source": "auto",
            "profile": "intervals_320hz",
            "rate_hz": RATE_HZ,
            "session_s": SESSION_S,
        },
        "bulk": None,
        "ledger": True,
        "telemetry": {"rate_hz": 10, "power": "none"},
        "order": {"method": "fixed"},
    }


def _providers() -> dict[str, Any]:
    end = {"liboqs": {"version": "unknown", "sha256": "unknown"}, "pqtunnel": {"tree_sha256": "unknown"}}
    return {"drone": end, "gcs": end, "images": {}, "traffic": {}}


def _host(role: str, suites: dict[str, Any]) -> dict[str, Any]:
    host = {
        "machine": "aarch64",
        "cpu_model": "published",
        "cpu_count": 4,
        "kernel": "published",
        "hostname": role,
        "board_revision": None,
        "boot_id": BOOT_ID,
    }
    facts: dict[str, Any] = {"host": host}
    if role != "controller":
        facts |= {"role": role, "ring": "lab", "protocol_version": 1, "agent_version": "published"}
        facts |= {"suites": suites, "sensors": [], "selftest": {"ok": True, "items": []}}
    return facts


def _cell_id(scenario: dict[str, Any], providers: dict[str, Any], suite_id: str) -> str:
    blocks = {key: scenario[key] for key in ("handshake", "traffic", "bulk", "ledger", "telemetry")}
    content = {
        "condition": {**scenario["conditions"][0], **blocks},
        "providers": {"drone": providers["drone"], "gcs": providers["gcs"]},
        "repetition": 1,
        "suite": suite_id,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[
        :16
    ]


def _number(row: dict[str, str], name: str) -> float:
    return float(row[name]) if row.get(name) else 0.0


def _cell(folder: Path, plan: dict[str, Any], row: dict[str, str], start_ns: int, catalogue: Any) -> int:
    folder.mkdir(parents=True)
    total_ns = round(_number(row, "base_suite_total_ms") * MS)
    shake_ns = round(_number(row, "base_handshake_ms") * MS)
    shake_ns = min(shake_ns, total_ns)
    carry_ns = min(round(_number(row, "base_suite_active_ms") * MS), total_ns - shake_ns)
    end_ns, split_ns = start_ns + total_ns, start_ns + shake_ns
    marks = [
        (start_ns, "prepare", None),
        (start_ns, "window_start", "handshake_cold"),
        (split_ns, "window_end", "handshake_cold"),
        (split_ns, "window_start", "traffic"),
        (split_ns + carry_ns, "window_end", "traffic"),
        (end_ns, "cell_end", None),
    ]
    events = [{"t_ns": t, "host": "controller", "event": kind, "window": window} for t, kind, window in marks]
    save_lines(folder / "events.ndjson", events)
    save_lines(folder / "spans.ndjson", _spans(plan, row, shake_ns))
    sent, got = int(_number(row, "base_pkts_sent")), int(_number(row, "base_pkts_recv"))
    counters = {role: _counters(role, sent, got) for role in ("drone", "gcs")}
    save(folder / "counters.json", counters)
    gate = {"source": "published", "open_ns": split_ns, "close_ns": split_ns + carry_ns, "source_report": {}}
    window = {"route": "mavproxy", "spec": {}, "drone": gate, "gcs": gate}
    save(folder / "traffic.json", {"windows": {"traffic": window}})
    watts = _number(row, "base_power_avg_w")
    (folder / "telemetry.drone.lp").write_text(
        f"pq_power,host=drone,ring=lab,sensor=published power_w={watts} {split_ns}\n", encoding="utf-8"
    )
    save(folder / "record.json", _record(plan, row, catalogue, (start_ns, end_ns)))
    return end_ns


def _spans(plan: dict[str, Any], row: dict[str, str], shake_ns: int) -> list[dict[str, Any]]:
    common = {
        "handshake_id": plan["cell_id"],
        "index": 0,
        "mode": "cold",
        "suite_id": plan["suite_id"],
        "clock": "monotonic",
    }
    rows = []
    at_ns = 0
    for host, step, column, _ in PRIMITIVES:
        length_ns = round(_number(row, column) * MS)
        span = {"host": host, "step": step, "kind": "crypto", "start_ns": at_ns, "end_ns": at_ns + length_ns}
        rows.append({**common, **span})
        at_ns += length_ns
    wall = {"step": "handshake", "kind": "wall", "start_ns": 0, "end_ns": max(shake_ns, at_ns)}
    return rows + [{**common, **wall, "host": host} for host in ("drone", "gcs")]


def _counters(role: str, sent: int, got: int) -> dict[str, Any]:
    window: dict[str, Any] = dict.fromkeys(DATA_COUNTERS, 0) | {"digest_tx": "0" * 16, "digest_rx": "0" * 16}
    window["tx_data" if role == "drone" else "rx_ok"] = sent if role == "drone" else got
    total = dict(window) | {f"hs_{name}": 0 for name in HANDSHAKE_COUNTERS}
    return total | {"hs_started": 1, "hs_completed": 1, "windows": {"traffic": window}}


def _record(
    plan: dict[str, Any], row: dict[str, str], catalogue: Any, wall: tuple[int, int]
) -> dict[str, Any]:
    categories: dict[str, Any] = {}
    for letter, category in catalogue.items():
        categories[letter] = {
            spec["name"]: {
                "value": None,
                "unit": spec["unit"],
                "source": spec["source"],
                "validity": "null",
                "reason": "not published",
                "n": None,
            }
            for spec in category["fields"]
        }
    known = {("E", name): _number(row, column) for _, _, column, name in PRIMITIVES}
    known[("D", "handshake_total_duration_ms")] = _number(row, "base_handshake_ms")
    known[("P", "power_mean_w")] = _number(row, "base_power_avg_w")
    known[("M", "session_nominal_s")] = SESSION_S
    for (letter, name), value in known.items():
        categories[letter][name] |= {"value": value, "validity": "ok", "reason": None, "n": 1}
    return {
        "schema_version": "pqlab/record/v1",
        **{k: plan[k] for k in plan if k not in ("block", "seed")},
        "ring": "lab",
        "verdict": row["base_verdict"].lower(),
        "reason": None,
        "attempts": 1,
        "windows": [],
        "wall": {"start_ns": wall[0], "end_ns": wall[1], "overhead_s": 0.0},
        "categories": categories,
    }
