"""What lies in a folder of bundles: one entry a bundle, with its numbers or with the reason that it has none.

Nothing is skipped without a word: an archive, a link and what is no bundle are named as such.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pqevidence.analysis.load import ROLES, BundleData
from pqevidence.analysis.origin import END_FACTS, HOST_FACTS
from pqevidence.analysis.table import read_rows
from pqevidence.bundle.survey import unsafe
from pqevidence.errors import EXIT_OK, LabError
from pqevidence.record.quiet import busy_told
from pqevidence.verify import exit_code, verify_bundle

Json = dict[str, Any]
VERDICTS = ("pass", "fail", "unsupported", "invalid", "not-run")
RINGS = ("sim", "lab", "hardware")
#: what a damaged file can raise in code that reads it as what it should be
_DAMAGE = (
    LabError, OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
#: what an earlier index left in the folder
OWN_FILES = ("index.html", "index.csv", "index-handshakes.csv")
#: suite and condition
Place = tuple[str, str]


@dataclass(frozen=True)
class Entry:
    """One bundle. `broken`: why none of its numbers counts; all else is then what its documents claim, as far
    as they can be read.

    medians_ms: median cold handshake at the drone by suite and condition, over the cells that passed;
    cells_counts: how many those are; line: digest of scenario and hosts, equal for runs that may stand in one
    line; untimed: why its times say nothing of any machine: such a bundle has no
    medians and stands in no line.
    """

    name: str
    checked: str
    broken: str | None = None
    run_id: str | None = None
    scenario: str | None = None
    ring: str | None = None
    created_utc: str | None = None
    verdicts: Mapping[str, int] | None = None
    busy: str | None = None
    untimed: str | None = None
    line: str | None = None
    medians_ms: Mapping[Place, float] = field(default_factory=dict)
    cells_counts: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Folder:
    """Entries in order of time, and what else lies there: name and why it is not looked into."""

    entries: list[Entry]
    others: list[tuple[str, str]]


def look_through(folder: Path, *, verify: bool) -> Folder:
    """Every bundle directly in `folder`. verify: check each first, one that fails is broken."""
    entries, others = [], []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith(".") or path.name in OWN_FILES:
            continue  # work in progress, half-written files, the index itself
        if path.is_symlink():
            others.append((path.name, "a link, not followed"))
        elif path.name.endswith(".tar.zst"):
            others.append((path.name, "an archive: ./pqlab unpack makes a bundle of it"))
        elif not path.is_dir() or not ((path / "data").exists() or (path / "bagit.txt").exists()):
            others.append((path.name, "no bundle"))
        else:
            entries.append(_entry(path, verify=verify))
    entries.sort(key=lambda entry: (entry.created_utc or "", entry.name))
    return Folder(entries, others)


def _entry(path: Path, *, verify: bool) -> Entry:
    try:
        if barred := unsafe(path):
            return Entry(path.name, "not looked at", f"not opened: {barred[0]}")
        broken, checked = _checked(path) if verify else (_unsealed(path), "NOT VERIFIED")
    except OSError as error:
        return Entry(path.name, "not looked at", f"cannot be read: {error.strerror or error}")
    try:
        return _read(path, checked, broken)
    except _DAMAGE as error:
        why = error.what if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
        return Entry(path.name, checked, broken or f"cannot be read: {why}")


def _checked(path: Path) -> tuple[str | None, str]:
    """Why the bundle does not count, and what verify said of it."""
    results = verify_bundle(path)
    failed = [result for result in results if result.status == "fail"]
    if failed:
        more = f" (and {len(failed) - 1} more checks)" if len(failed) > 1 else ""
        return f"{failed[0].name}: {failed[0].observed}{more}", "verify failed"
    return None, "verified" if exit_code(results) == EXIT_OK else "verified, with warnings"


def _unsealed(path: Path) -> str | None:
    return None if (path / "tagmanifest-sha512.txt").is_file() else "not sealed"


def _read(path: Path, checked: str, broken: str | None) -> Entry:
    bundle = BundleData(path)
    rings = {cell.ring for cell in bundle.cells} or {str(bundle.scenario.get("ring", "lab"))}
    counts = dict.fromkeys(VERDICTS, 0)
    for cell in bundle.cells:
        counts[cell.verdict] += 1
    medians: dict[Place, float] = {}
    cells: dict[Place, int] = {}
    counted = broken is None and not bundle.untimed
    if counted and (path / "data" / "analysis" / "by_suite.csv").is_file():
        for row in read_rows(path / "data" / "analysis" / "by_suite.csv"):
            if not row["median_ms"]:
                continue
            place = row["suite_id"], row["condition"]
            medians[place], cells[place] = float(row["median_ms"]), int(row["n_cells"])
    return Entry(
        name=path.name,
        checked=checked,
        broken=broken,
        run_id=str(bundle.plan["run_id"]),
        scenario=str(bundle.plan["scenario"]),
        ring=min(rings, key=RINGS.index),
        created_utc=str(bundle.plan["created_utc"]),
        verdicts=counts,
        busy=busy_told(bundle.run),
        untimed="; ".join(bundle.untimed) or None,
        line=_line(bundle) if counted else None,
        medians_ms=medians,
        cells_counts=cells,
    )


def _line(bundle: BundleData) -> str:
    """Eight hex of the scenario's hash and the facts of both hosts that change what they measure."""
    hosts = {}
    for role in ROLES:
        end = bundle.hosts.get(role) or {}
        facts = end.get("host") or {}
        hosts[role] = {
            **{name: facts.get(name) for name in (*HOST_FACTS, "emulated", "wine")},
            **{name: end.get(name) for name in END_FACTS},
        }
    content: Json = {"scenario": bundle.plan["scenario_sha256"], "hosts": hosts}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
