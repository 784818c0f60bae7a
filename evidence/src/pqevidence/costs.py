"""Measured costs of a cell, for estimates: from an earlier bundle, and for the rest from a built-in table.

The table is the published sum of the primitives of each suite (results/reference/handshake-floor-x86.csv).
The constants were read off two runs on a 2-core x86-64 machine at load 5: 24 cells of 1 s, 9 of 10 s.
What a bundle holds wins over both; suites it lacks are the table's, scaled by how the two compare.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from pqbase.documents import Json, number_of, part_of, parts_of, rows_of, whole_of
from pqevidence.paths import project_root
from pqtunnel.suites import EXTRA, PLAIN, SUITES

_TABLE = Path("results") / "reference" / "handshake-floor-x86.csv"
#: a handshake beyond its primitives: the wire, and the pause between two of a block
_BEYOND_CRYPTO_S = 0.003
_EXEMPT_WINDOWS = ("thermal_gate", "link_setup", "link_probe", "key_pool", "canary", "heal")


@dataclass(frozen=True)
class Costs:
    """What to expect, in seconds.

    handshake_s: one handshake of a block, its pause included, by suite; measured: the suites of it that the
    bundle `source` measured; cell_s: a cell outside its windows and the step to the next one, plus datagram_s
    for every datagram; wait_s: labelled waits (link setup, probes) by condition; finish_s: from the last cell
    to the sealed bundle, plus finish_datagram_s for every datagram of the run.
    """

    source: str | None = None
    handshake_s: dict[str, float] = field(default_factory=dict)
    measured: frozenset[str] = frozenset()
    cell_s: float = 0.195
    datagram_s: float = 3.0e-5
    wait_s: dict[str, float] = field(default_factory=dict)
    finish_s: float = 4.2
    finish_datagram_s: float = 2.6e-5


def built_in_costs() -> Costs:
    """From the shipped table alone; without it (a checkout elsewhere) no suite is known.

    An extra takes what the suite of the same signature and (ML-)KEM takes: X25519, Ed25519 and the AEAD are
    lost beside the pause between two handshakes. SLH-DSA stands in no table and stays unknown.
    """
    file = project_root() / _TABLE
    if not file.is_file():
        return Costs()
    with file.open(encoding="utf-8", newline="") as handle:
        floors = {row["suite"]: float(row["floor_ms"]) / 1e3 for row in csv.DictReader(handle)}
    known = {suite: floor + _BEYOND_CRYPTO_S for suite, floor in floors.items()}
    return Costs(handshake_s={**known, **_extras(known)})


def _extras(known: dict[str, float]) -> dict[str, float]:
    by_pair = {(s.kem.token, s.sig.token): known[s.id] for s in SUITES.values() if s.id in known}
    found = {PLAIN.id: 0.0}
    for suite in EXTRA.values():
        pair = suite.kem.token.removeprefix("x25519"), suite.sig.token
        if pair == ("", "ed25519"):
            found[suite.id] = _BEYOND_CRYPTO_S
        elif pair in by_pair:
            found[suite.id] = by_pair[pair]
    return found


def load_costs(bundle: Path | None) -> Costs:
    """The built-in table, corrected by what `bundle` measured.

    A damaged bundle corrects nothing rather than being an error: it costs precision of an estimate; `verify`
    is there to say so.
    """
    known = built_in_costs()
    if bundle is None:
        return known
    try:
        records = list(_records(bundle / "data"))
        return _corrected(known, bundle.name, records)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return known


def _records(data: Path) -> Iterable[Json]:
    for file in sorted((data / "cells").glob("*/record.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        # a simulation's times are its model's, not a machine's
        if record["verdict"] == "pass" and record["ring"] != "sim":
            yield record


def _corrected(known: Costs, name: str, records: list[Json]) -> Costs:
    by_suite: dict[str, list[float]] = {}
    beside: list[float] = []
    waits: dict[str, list[float]] = {}
    walls: list[tuple[int, int]] = []
    for record in records:
        lengths = {
            str(w["name"]): (whole_of(w, "end_ns") - whole_of(w, "start_ns")) / 1e9
            for w in rows_of(record, "windows")
        }
        categories, wall = parts_of(record, "categories"), part_of(record, "wall")
        completed = number_of(part_of(categories["D"], "handshake_completed_count"), "value", 0.0)
        if completed and "handshake_cold" in lengths:
            by_suite.setdefault(str(record["suite_id"]), []).append(lengths["handshake_cold"] / completed)
        datagrams = number_of(part_of(categories["G"], "packets_sent_count"), "value", 0.0)
        beside.append(number_of(wall, "overhead_s") - known.datagram_s * datagrams)
        waited = sum(seconds for window, seconds in lengths.items() if window in _EXEMPT_WINDOWS)
        waits.setdefault(str(record["condition"]), []).append(waited)
        walls.append((whole_of(wall, "start_ns"), whole_of(wall, "end_ns")))
    if not by_suite:
        return known
    measured = {suite: median(values) for suite, values in by_suite.items()}
    ratios = [measured[s] / known.handshake_s[s] for s in measured if known.handshake_s.get(s)]
    speed = math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0
    # a pause between two sessions of a run is no step to the next cell
    steps = [(after - before) / 1e9 for (_, before), (after, _) in pairwise(sorted(walls))]
    steps = [step for step in steps if 0 <= step < 10]
    return replace(
        known,
        source=name,
        handshake_s={**{s: v * speed for s, v in known.handshake_s.items()}, **measured},
        measured=frozenset(measured),
        cell_s=max(0.0, median(beside)) + (median(steps) if steps else 0.05),
        wait_s={condition: median(values) for condition, values in waits.items() if max(values) > 0},
    )
