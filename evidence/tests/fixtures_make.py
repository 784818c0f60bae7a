"""Synthetic test data: a small run's work directory with raw files in the bundle's own format.

Nothing here was measured. Times are drawn from a seeded generator around plausible values, and every
host says so (`hostname: synthetic-test-data`). The module imports nothing of the code under test, so a
mistake in record, bundle or verify cannot be cancelled by the same mistake here.

    make_work_dir(tmp_path / ".work" / RUN_ID) -> that path, with data/ in it
    python fixtures_make.py DIR                 -> the same, from a shell
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

from fixture_cell import BULK_PPS, BULK_SIZE_BYTES, write_cell, write_json
from fixture_handshake import BOOT_ID, HOSTNAME, MS, SUITES, T0_NS

RUN_ID = "20260301T120000Z-ab12cd"


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def make_work_dir(
    work_dir: Path,
    *,
    suites: tuple[str, ...] = tuple(SUITES),
    repetitions: int = 1,
    session_s: float = 1.0,
    handshakes: int = 8,
    pooled: int | None = None,
    bulk: bool = True,
    seed: int = 1,
    conditions: tuple[dict[str, Any], ...] = ({"name": "baseline", "detector": "none", "link": "none"},),
) -> Path:
    """Write one synthetic run under `work_dir`/data and return `work_dir`."""
    rng = random.Random(seed)
    data = work_dir / "data"
    (data / "hosts").mkdir(parents=True)
    scenario = _scenario(suites, repetitions, session_s, handshakes, bulk)
    if pooled is not None:
        scenario["handshake"]["pooled"] = {"count": pooled}
    scenario["conditions"] = [dict(condition) for condition in conditions]
    providers = _providers()
    scenario_text = json.dumps(scenario, indent=1) + "\n"  # JSON is YAML
    (data / "scenario.effective.yml").write_text(scenario_text, encoding="utf-8")
    write_json(data / "providers.json", providers)
    for role in ("drone", "gcs"):
        write_json(data / "hosts" / f"{role}.json", _hello(role, suites))
    write_json(data / "hosts" / "controller.json", {"host": _host("controller"), "python": "3.11.7"})

    cells = _plan_cells(scenario, providers, suites, repetitions)
    by_block = [[cell for cell in cells if cell["block"] == block] for block in range(repetitions)]
    for number, block in enumerate(by_block):
        random.Random(f"{scenario['seed']}/{number}").shuffle(block)
    cells = [cell for block in by_block for cell in block]
    for position, cell in enumerate(cells):
        cell["position"] = position
    write_json(
        data / "plan.json",
        {
            "schema_version": "pqlab/plan/v1",
            "run_id": work_dir.name if work_dir.name[:1] == "2" else RUN_ID,
            "scenario_sha256": hashlib.sha256(scenario_text.encode()).hexdigest(),
            "created_utc": "2026-03-01T11:59:59Z",
            "seed": 7,
            "cells": cells,
            "budget": {"cells": len(cells), "eta_s": 4.0 * len(cells)},
        },
    )
    now = T0_NS + 500 * MS
    influx: list[dict[str, Any]] = []
    for cell in cells:
        now, series = write_cell(data / "cells" / cell["cell_id"], cell, scenario, now, rng)
        influx.append({"cell_id": cell["cell_id"], "series": series})
        now += 20 * MS
    write_json(
        data / "run.json",
        {
            "run_id": RUN_ID,
            "started_ns": T0_NS,
            "ended_ns": now + 100 * MS,
            "controller": {"hostname": HOSTNAME, "controller_on_dut": True},
            "pqlab_version": "1.0.0",
            "loadavg_start": [0.1, 0.1, 0.1],
            "loadavg_end": [0.4, 0.2, 0.1],
            "command": ["pqlab", "run", "fixture"],
            "exit_verdict": "pass",
            "influx": {"available": True, "cells": influx},
        },
    )
    return work_dir


def make_keys(keys_dir: Path, seed: int = 99) -> list[Path]:
    """Write three synthetic secret files (raw, PEM-like, JSON with base64) and return their paths."""
    rng = random.Random(seed)
    keys_dir.mkdir(parents=True)
    raw = keys_dir / "psk.key"
    raw.write_bytes(rng.randbytes(32))
    pem = keys_dir / "client.key"
    body = hashlib.sha256(b"synthetic").hexdigest()
    pem.write_text(f"-----BEGIN TEST BLOCK-----\n{body}\n-----END TEST BLOCK-----\n", encoding="ascii")
    signing = keys_dir / "signing.key"
    signing.write_bytes(rng.randbytes(4032))
    return [raw, pem, signing]


def _scenario(
    suites: tuple[str, ...], repetitions: int, session_s: float, handshakes: int, bulk: bool
) -> dict[str, Any]:
    return {
        "schema": "pqlab/scenario/v1",
        "name": "fixture",
        "title": "Synthetic test data, measured nowhere",
        "ring": "lab",
        "seed": 7,
        "suites": list(suites),
        "repetitions": repetitions,
        "conditions": [],
        "handshake": {"count": handshakes, "min_count": 5, "max_s": 20},
        "traffic": {"source": "auto", "profile": "intervals_320hz", "rate_hz": 320, "session_s": session_s},
        "bulk": {"size_bytes": BULK_SIZE_BYTES, "rates_pps": [BULK_PPS], "step_s": 1} if bulk else None,
        "ledger": True,
        "telemetry": {"rate_hz": 10, "power": "none"},
        "order": {"method": "blocked-random"},
    }


def _plan_cells(
    scenario: dict[str, Any], providers: dict[str, Any], suites: tuple[str, ...], repetitions: int
) -> list[dict[str, Any]]:
    ends = {"drone": providers["drone"], "gcs": providers["gcs"]}
    cells = []
    for repetition in range(repetitions):
        for suite_id in suites:
            for condition in scenario["conditions"]:
                settings = {
                    **condition,
                    **{key: scenario[key] for key in ("handshake", "traffic", "bulk", "ledger", "telemetry")},
                }
                key = canonical(
                    {"condition": settings, "providers": ends, "repetition": repetition, "suite": suite_id}
                )
                cell_id = hashlib.sha256(key.encode()).hexdigest()[:16]
                cells.append(
                    {
                        "cell_id": cell_id,
                        "suite_id": suite_id,
                        "condition": condition["name"],
                        "repetition": repetition,
                        "position": 0,
                        "block": repetition,
                        "seed": seed_of(scenario["seed"], suite_id, condition["name"], repetition),
                    }
                )
    return cells


def seed_of(campaign: int, suite: str, condition: str, repetition: int) -> int:
    """A cell's seed, as the lab derives it (docs/WITNESSES.md)."""
    digest = hashlib.sha256(canonical([campaign, suite, condition, repetition]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 11


def _providers() -> dict[str, Any]:
    end = {
        "python": "3.13.5",
        "openssl": "OpenSSL 3.5.1",
        "cryptography": "45.0.0",
        "liboqs": {"version": "0.13.0", "sha256": "11" * 32},
        "ascon_native": {"version": "0.1.0", "sha256": "22" * 32},
        "core": {"version": "0.1.0", "sha256": "66" * 32},
        "pqtunnel": {"version": "0.1.0", "tree_sha256": "33" * 32},
    }
    return {
        "drone": end,
        "gcs": json.loads(json.dumps(end)),
        "images": {"tunnel": "sha256:" + "44" * 32, "sitl": "sha256:" + "55" * 32},
        "traffic": {"source": "embedded", "pymavlink": "2.4.50"},
    }


def _host(role: str) -> dict[str, Any]:
    return {
        "machine": "x86_64",
        "cpu_model": "synthetic CPU",
        "cpu_count": 2,
        "cpu_features": ["aes", "avx2", "pclmulqdq"],
        "kernel": "6.1.0-synthetic",
        "hostname": HOSTNAME if role == "controller" else role,
        "board_revision": None,
        "boot_id": BOOT_ID,
        "in_container": role != "controller",
    }


def _primitives(suite: str) -> list[tuple[str, str]]:
    """(kind, token) of a suite id, which reads cs-{kem}-{aead}-{sig}; `plain` has none."""
    if suite == "plain":
        return []
    _, kem, aead, sig = suite.split("-")
    return [("kem", kem), ("aead", aead), ("sig", sig)]


def _hello(role: str, suites: tuple[str, ...]) -> dict[str, Any]:
    return {
        "role": role,
        "agent_version": "0.1.0",
        "protocol_version": 1,
        "ring": "lab",
        "host": _host(role),
        "suites": {suite: {"status": "available", "reason": None} for suite in suites},
        "selftest": {
            "ok": True,
            "items": [
                {"name": name, "ok": True, "detail": "known answer"}
                for name in sorted(
                    {f"{kind}/{part}" for suite in suites for kind, part in _primitives(suite)}
                )
            ],
        },
        "sensors": [
            {"name": "thermal", "available": False, "reason": "no thermal zone"},
            {"name": "power", "available": False, "reason": "not asked for"},
            {"name": "steal", "available": True, "reason": None},
        ],
        "dataplane": "native",
        "dataplane_asked": "auto",
    }


if __name__ == "__main__":
    print(make_work_dir(Path(sys.argv[1])))
