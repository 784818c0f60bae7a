"""What bundles hold for advice: times of cold handshakes by radio, and what the two hosts worked in them.

Raw files alone are read: spans of cells that passed, settings of their condition. A cell counts where nothing
but a radio (or nothing at all) stood between the two ends. A handshake that did not complete has no time; its
cell counts what failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pqbase.documents import number_or_none, rows_of, whole_of
from pqevidence.advise.radio import Radio, radio_of
from pqevidence.advise.wire import Pair, pair_of
from pqevidence.analysis.handshakes import WALL_FIELD, WALL_STEP
from pqevidence.analysis.load import BundleData, Cell, Span
from pqevidence.errors import LabError
from pqevidence.record.rings import weakest
from pqtunnel import suites as registry
from pqtunnel.errors import SuiteUnknown

#: kinds of spans that are an end's own work; the rest is waiting, and writing into a socket that may be full
_OWN_WORK: Final = frozenset({"crypto", "kdf", "codec"})
#: keys of a condition that must stand as they are here: anything else acts beside the radio
_ALONE: Final[Mapping[str, object]] = {
    "detector": "none", "attack": "none", "policy": "none", "rekey": "none", "drone_auth": "psk", "events": []
}  # fmt: skip
NEXT: Final = "./pqlab run radios measures 72 suites over five radios, in 25 minutes"


@dataclass(frozen=True)
class Timed:
    """One cold handshake. wall_s: the drone's, from connect to a verified FinishedGcs; work_s: of both ends'
    own work in it."""

    wall_s: float
    work_s: float


@dataclass
class Group:
    """Cells of one pair over one radio: they differ in AEAD and repetition alone."""

    timed: list[Timed] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    failed_count: int = 0

    @property
    def walls_s(self) -> list[float]:
        """Times of the completed handshakes."""
        return [one.wall_s for one in self.timed]


@dataclass(frozen=True)
class Host:
    """Whose processors did the work: as the bundle names them. ring: the weakest of its cells."""

    bundle: str
    names: Mapping[str, str]
    ring: str

    def __str__(self) -> str:
        return ", ".join(f"{role} {name}" for role, name in self.names.items())


@dataclass
class Evidence:
    """groups: by radio and pair; measured_work_s: both ends' own work by pair on the hosts that the radios
    were measured with; work_s: the same on `host`, for which advice is asked; energy_j: idle-subtracted
    energy a handshake by pair on `host`, ring hardware alone; unused: why conditions do not count."""

    host: Host
    bundles: list[str]
    groups: dict[Radio, dict[Pair, Group]] = field(default_factory=dict)
    names: dict[Radio, str] = field(default_factory=dict)
    measured_work_s: dict[Pair, list[float]] = field(default_factory=dict)
    work_s: dict[Pair, list[float]] = field(default_factory=dict)
    energy_j: dict[Pair, list[float]] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)

    @property
    def radios(self) -> list[Radio]:
        """Radios with a measured handshake."""
        return sorted(self.groups)

    def of(self, pair: Pair) -> dict[Radio, Group]:
        """The radios over which handshakes of the pair completed."""
        return {radio: g[pair] for radio, g in self.groups.items() if pair in g and g[pair].timed}

    def without(self, left_out: Radio) -> Evidence:
        """The same as if that radio had not been measured; the hosts' own work stays, it is not the
        radio's."""
        return Evidence(
            self.host,
            self.bundles,
            {r: g for r, g in self.groups.items() if r != left_out},
            self.names,
            self.measured_work_s,
            self.work_s,
            self.energy_j,
            self.unused,
        )


def gather(bundles: Sequence[Path], host: Path | None = None) -> Evidence:
    """Evidence of the bundles; host: the bundle whose hosts' work counts, the first one's if not told.

    Raises LabError where a bundle cannot be read, its times are no claim, or nothing in it is evidence.
    """
    data = [_opened(root) for root in bundles]
    worker = data[0] if host is None else _opened(host)
    found = Evidence(_host(worker, (host or bundles[0]).name), [root.name for root in bundles])
    for bundle in data:
        usable = _usable(bundle, found)
        for cell in bundle.cells:
            if cell.condition in usable and (pair := _pair(cell)) is not None:
                _add(found, cell, pair, usable[cell.condition])
        _add_work(found.measured_work_s, bundle)
    if not found.groups:
        raise _nothing(found)
    _add_work(found.work_s, worker)
    _add_energy(found, worker)
    return found


def timed_of(cell: Cell) -> list[Timed]:
    """Cold handshakes that both ends timed, in the order of their first span; none where a busy machine's
    share is in their walls."""
    if cell.why_invalid("D", WALL_FIELD) is not None:
        return []
    spans: dict[str, list[Span]] = defaultdict(list)
    for span in cell.spans:
        if span.mode == "cold":
            spans[span.handshake_id].append(span)
    found = []
    for rows in spans.values():
        walls = {span.host: span.duration_ns / 1e9 for span in rows if span.step == WALL_STEP}
        if {"drone", "gcs"} <= set(walls):
            work_s = sum(span.duration_ns for span in rows if span.kind in _OWN_WORK) / 1e9
            found.append(Timed(walls["drone"], work_s))
    return found


def _opened(root: Path) -> BundleData:
    bundle = BundleData(root)
    if bundle.untimed:
        raise LabError(
            "no-claim",
            f"{root.name} is no evidence: no time of it is a claim",
            "; ".join(bundle.untimed),
            "name a bundle of hosts of their own",
        )
    return bundle


def _host(bundle: BundleData, name: str) -> Host:
    told = {
        role: str(facts.get("board") or facts.get("cpu_model") or facts.get("machine") or "unknown")
        for role in ("drone", "gcs")
        for facts in [bundle.host(role)]
    }
    rings: Iterable[str] = {cell.ring for cell in bundle.cells} or {"lab"}
    return Host(name, told, weakest(rings))


def _usable(bundle: BundleData, found: Evidence) -> dict[str, Radio]:
    """Condition → radio, of the conditions that are evidence; the others' reasons go into `found`."""
    usable: dict[str, Radio] = {}
    for condition in rows_of(bundle.plan, "conditions", []) or bundle.conditions:
        name = str(condition["name"])
        beside = [key for key, value in _ALONE.items() if (condition.get(key) or value) != value]
        radio = radio_of(condition.get("link"))
        if beside:
            found.unused[name] = f"{', '.join(beside)} acts beside the link"
        elif isinstance(radio, Radio):
            usable[name] = radio
            found.names[radio] = name
        else:
            found.unused[name] = radio or "no radio stands between the two ends"
    return usable


def _add_work(work_s: dict[Pair, list[float]], bundle: BundleData) -> None:
    """Own work in the handshakes of every cell that passed: it does not depend on the radio."""
    for cell in bundle.cells:
        if (pair := _pair(cell)) is not None and cell.verdict == "pass":
            work_s.setdefault(pair, []).extend(one.work_s for one in timed_of(cell))


def _add_energy(found: Evidence, bundle: BundleData) -> None:
    """Net energy a handshake; a sensor's word counts in ring hardware alone."""
    for cell in bundle.cells:
        told = number_or_none(cell.value("P", "energy_net_handshake_j") or {}, "value")
        pair = _pair(cell)
        if pair is not None and told is not None and cell.verdict == "pass" and cell.ring == "hardware":
            found.energy_j.setdefault(pair, []).append(float(told))


def _pair(cell: Cell) -> Pair | None:
    try:
        suite = registry.get(cell.suite_id)
    except SuiteUnknown:
        return None
    return None if suite.is_plain else pair_of(suite)


def _add(found: Evidence, cell: Cell, pair: Pair, radio: Radio) -> None:
    timed = timed_of(cell) if cell.verdict == "pass" else []
    failed = whole_of(cell.value("D", "handshake_failed_count") or {}, "value", 0)
    if not timed and not failed:
        return
    group = found.groups.setdefault(radio, {}).setdefault(pair, Group())
    group.timed += timed
    group.failed_count += failed
    group.cells.append(cell.cell_id)


def _nothing(found: Evidence) -> LabError:
    why = "; ".join(f"condition {name}: {why}" for name, why in found.unused.items())
    return LabError(
        "no-radio",
        f"{', '.join(found.bundles)} holds no cell over a radio link",
        why or "no cell with such a condition passed",
        NEXT,
    )
