"""Campaigns on several simulated pairs of hosts, for tests: each share is run and sealed as any run is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pqevidence.bundle import bag
from pqevidence.bundle.crate import write_crate
from pqevidence.paths import project_root
from pqlab.cli.main import main

SIM = ["--inventory", str(project_root() / "ansible" / "inventories" / "sim.ini")]
SUITES = ("cs-mlkem512-aesgcm-mldsa44", "cs-mlkem768-aesgcm-mldsa65", "cs-mlkem1024-aesgcm-mldsa87")
OTHER_KEM = ("cs-hqc128-aesgcm-mldsa44", "cs-hqc192-aesgcm-mldsa65", "cs-hqc256-aesgcm-mldsa87")
TEXT = """\
schema: pqlab/scenario/v1
name: rack-test
title: A campaign on several pairs
seed: {seed}
suites: [{suites}]
repetitions: {repetitions}
handshake: {{count: 5, min_count: 5, max_s: 20}}
traffic: {{session_s: 1}}
conditions:
  - name: baseline
  - name: rekeyed
    rekey: {{every_s: 0.4}}
"""


def run_share(
    folder: Path,
    share: str,
    pair: str | None = None,
    host: int | None = None,
    *,
    repetitions: int = 4,
    suites: tuple[str, ...] = SUITES[:1],
    seed: int = 5,
) -> Path:
    """The sealed bundle of one share; pair and host default to the share's number."""
    folder.mkdir(parents=True, exist_ok=True)
    scenario = folder / "rack.yml"
    text = TEXT.format(seed=seed, suites=", ".join(suites), repetitions=repetitions)
    scenario.write_text(text, encoding="utf-8")
    number = share.partition("/")[0]
    words = ["--share", share, "--pair", pair or f"bench-{number}"]
    words += ["--host-seed", str(host if host is not None else number)]
    before = {path.name for path in folder.glob("2*")}
    assert main(["run", str(scenario), *SIM, "--out", str(folder), *words]) == 0
    (made,) = (path for path in folder.glob("2*") if path.name not in before)
    return made


def copied(root: Path, folder: Path) -> Path:
    """A copy under the same name, to be spoiled."""
    return Path(shutil.copytree(root, folder / root.name))


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a document in place."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def rebag(root: Path) -> None:
    """Crate and tag files for what lies there now."""
    if (root / "data" / "plan.json").is_file():
        write_crate(root / "data")
    bag.write_tags(root)
