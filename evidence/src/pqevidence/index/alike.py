"""Which runs may stand in one line: those between which `compare` names no difference but builds.

Same machine, ring, scenario, settings, data plane, sampler, kernel and load; a release is what may change.
Why two runs stand apart is told in the words of `compare`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pqbase.documents import Json, part_of, parts_of, rows_of, texts_of
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.origin import Differing, differing, require_comparable
from pqevidence.errors import LabError
from pqevidence.index.entries import Entry, Place

#: kinds of differences that a line over releases is drawn across
RELEASE: Final = ("build", "lab")


class _RememberedCell(Cell):
    """What `compare` asks of a cell before it compares: ring, verdict, steal."""

    def __init__(self, told: Json) -> None:
        self.record = {
            "ring": told["ring"],
            "verdict": told["verdict"],
            "categories": {"N": {"steal_mean_pct": told["steal"]}},
        }


class _Remembered(BundleData):
    """The facts of a bundle that is not opened again."""

    def __init__(self, facts: Json) -> None:
        self.plan, self.run, self.scenario = (part_of(facts, name) for name in ("plan", "run", "scenario"))
        self.providers, self.hosts = part_of(facts, "providers"), parts_of(facts, "hosts")
        self.cells = [_RememberedCell(cell) for cell in rows_of(facts, "cells")]


def remembered(entry: Entry) -> BundleData:
    """The bundle as `compare` asks of it before it compares; no file is opened."""
    return _Remembered(entry.facts)


@dataclass(frozen=True)
class Line:
    """Runs that are alike in all but their builds, oldest first; `places`: suites and conditions that at
    least two of them measured; unlike: what keeps them from the lines of the same machine and scenario before
    this one, each with the first run of that line."""

    key: str
    runs: tuple[Entry, ...]
    places: tuple[Place, ...]
    unlike: tuple[tuple[str, tuple[Differing, ...]], ...] = ()

    @property
    def scenario(self) -> str:
        return str(self.runs[0].scenario)

    @property
    def ring(self) -> str:
        return str(self.runs[0].ring)

    @property
    def machine_key(self) -> str:
        machine = self.runs[0].machine
        assert machine is not None
        return machine.key


def apart(a: Entry, b: Entry) -> list[Differing]:
    """Everything but builds that the two do not share; [] where both may stand in one line."""
    if a.ring != b.ring:
        return [Differing("ring", "ring", str(a.ring), str(b.ring))]
    if a.scenario != b.scenario:
        return [Differing("setting", "scenario", str(a.scenario), str(b.scenario))]
    found = differing(remembered(a), remembered(b))
    return [fact for fact in found if fact.kind not in RELEASE] + _samplers(a, b)


def _samplers(a: Entry, b: Entry) -> list[Differing]:
    """Sensors that only one of the two read: what samples, costs time."""
    found = []
    for role in ("drone", "gcs"):
        hosts = [part_of(part_of(entry.facts, "hosts"), role, {}) for entry in (a, b)]
        read = [", ".join(texts_of(host, "sensors", [])) for host in hosts]
        if read[0] != read[1]:
            found.append(Differing("sampler", f"{role} sensors", read[0] or "none", read[1] or "none"))
    return found


def never_together(entries: Sequence[Entry]) -> str | None:
    """Why no number of one ring stands beside one of another, as `compare` refuses it; None for one ring."""
    first = {entry.ring: entry for entry in entries if entry.facts}
    if len(first) < 2:
        return None
    a, b = list(first.values())[:2]
    try:
        require_comparable(remembered(a), remembered(b))
    except LabError as error:
        return error.why
    return None


def lines_of(entries: Sequence[Entry]) -> list[Line]:
    """Every run in the first line to whose first run it is alike; entries in order of time. A line of one run
    is one, too: the next release may join it. Entries that say why they stand apart are in none."""
    groups: dict[tuple[str, str, str], list[list[Entry]]] = defaultdict(list)
    reasons: dict[str, tuple[tuple[str, tuple[Differing, ...]], ...]] = {}
    for entry in entries:
        if entry.refused is not None or entry.apart is not None or entry.machine is None or not entry.answers:
            continue
        lines = groups[entry.machine.key, str(entry.ring), str(entry.scenario)]
        unlike = []
        for runs in lines:
            facts = apart(runs[0], entry)
            if not facts:
                runs.append(entry)
                break
            unlike.append((runs[0].name, tuple(facts)))
        else:
            lines.append([entry])
            reasons[entry.name] = tuple(unlike)
    found: list[Line] = []
    for (machine_key, _, _), lines in groups.items():
        for runs in lines:
            known = dict.fromkeys(place for run in runs for place in run.medians_ms)
            shared = tuple(place for place in known if sum(place in run.medians_ms for run in runs) > 1)
            key = f"{machine_key}-{len([line for line in found if line.machine_key == machine_key]) + 1}"
            found.append(Line(key, tuple(runs), shared, reasons[runs[0].name]))
    return found
