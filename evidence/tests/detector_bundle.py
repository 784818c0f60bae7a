"""Synthetic bundles of a campaign with detectors: conditions, verdicts, CPU, providers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fixture_handshake
from detector_files import facts, write_usage, write_watched
from report_bundle import make_bundle, plan_cells

BASE = {"name": "baseline", "detector": "none", "detector_history": "cold", "link": "none", "attack": "none"}
XGBOOST = {**BASE, "name": "xgboost", "detector": "xgboost"}
TST = {**BASE, "name": "tst", "detector": "tst", "detector_history": "warm"}
TWIN = {**BASE, "name": "baseline-aa", "aa_of": "baseline"}
SUITES = (
    "cs-mlkem768-aesgcm-mldsa65",
    "cs-hqc192-aesgcm-mldsa65",
    "cs-classicmceliece348864-ascon128a-mldsa44",
)
#: invented times of the one suite that the other fixtures do not have
HQC = (1.9, 0.11, 0.045, 3.7, 5.4)
SHARES = {"xgboost": 0.004, "tst": 0.015}


def edit(root: Path) -> None:
    """Give every cell what its condition's detector would have left."""
    data = root / "data"
    providers = json.loads((data / "providers.json").read_text())
    providers["detectors"] = {name: facts(name) for name in SHARES}
    (data / "providers.json").write_text(json.dumps(providers, indent=1))
    detectors = {
        c["name"]: c for c in json.loads((data / "scenario.effective.yml").read_text())["conditions"]
    }
    for row in plan_cells(root):
        cell, condition = data / "cells" / row["cell_id"], detectors[row["condition"]]
        name = condition["detector"]
        write_usage(cell, tuple(SHARES), name, share=SHARES.get(name, 0.0))
        if name != "none":
            write_watched(cell, name, warm=condition["detector_history"] == "warm")


def make(root: Path, **options: Any) -> Path:
    """Three suites of three families under four conditions, three repetitions, sessions of 2.4 s."""
    fixture_handshake.TIMES.setdefault(SUITES[1], HQC)
    given: dict[str, Any] = {
        "suites": SUITES,
        "repetitions": 3,
        "conditions": (BASE, XGBOOST, TST, TWIN),
        "bulk": False,
        "session_s": 2.4,
        **options,
    }
    return make_bundle(root, edit=edit, **given)
