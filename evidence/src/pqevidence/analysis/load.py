"""Read a bundle's raw files into plain structures; nothing is computed here.

In scope: JSON, NDJSON and CSV of the bundle layout, with one clear error for a damaged file.
Not in scope: deciding whether a cell is good (the record's verdict says) and telemetry text, which stays
lines until a table needs a slice of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pqbase.documents import Json, part_of, parts_of, rows_of, texts_of, whole_of
from pqevidence.bundle.corrections import withdrawn
from pqevidence.errors import EXIT_CHECK, LabError
from pqevidence.record.raw import CANARY
from pqevidence.record.untimed import untimed_reasons
from pqtunnel import suites as registry
from pqtunnel.errors import SuiteUnknown

if TYPE_CHECKING:
    from pqevidence.analysis.handshakes import Handshake
    from pqevidence.analysis.system import Sampled
    from pqevidence.analysis.table import Row
    from pqevidence.analysis.traffic import Joined

#: of a file with one object a line, tens of thousands a bundle: read by plain look-ups
Line = dict[str, Any]

ROLES = ("drone", "gcs")


@dataclass(frozen=True)
class SuiteFacts:
    """What a suite id stands for; names are those of the registry.

    ``level`` is the NIST level that it is paired by; ``level_name`` what a reader is told: the classical
    baseline and `plain` have no NIST level, and enter no statistics of one.
    """

    kem: str
    sig: str
    aead: str
    level: int
    kem_family: str
    sig_family: str
    level_name: str

    @property
    def has_level(self) -> bool:
        """Is the level a NIST one?"""
        return self.level_name.isdigit()


def suite_facts(suite_id: str) -> SuiteFacts | None:
    """Facts of a registered suite (aliases resolve), or None for one the registry does not know."""
    try:
        suite = registry.get(suite_id)
    except SuiteUnknown:
        return None
    return SuiteFacts(
        kem=suite.kem.name,
        sig=suite.sig.name,
        aead=suite.aead.name,
        level=suite.kem.level,
        kem_family=registry.KEM_FAMILIES[suite.kem.family],
        sig_family=registry.SIG_FAMILIES[suite.sig.family],
        level_name=suite.level_label,
    )


def algorithm_order(name: str) -> int:
    """Place of a KEM or signature in the registry; unknown names come last."""
    names = [kem.name for kem in registry.ALL_KEMS.values()]
    names += [sig.name for sig in registry.ALL_SIGS.values()]
    return names.index(name) if name in names else len(names)


@dataclass(frozen=True)
class Span:
    """One timed step of one host; times are nanoseconds of that host's monotonic clock."""

    host: str
    handshake_id: str
    mode: str
    step: str
    kind: str
    start_ns: int
    end_ns: int
    cpu_ns: int | None = None
    runqueue_ns: int | None = None
    involuntary: int | None = None

    @property
    def duration_ns(self) -> int:
        """Length of the step."""
        return self.end_ns - self.start_ns


@dataclass
class Known:
    """What somebody read of a cell before, so that it need not be read again; None: read it.

    handshakes: by mode, those of pqevidence.analysis.handshakes.by_mode. joined: (window, direction) →
    datagrams of both ledgers. sampled: by end, those of pqevidence.analysis.system. fingerprint: columns of
    pqevidence.analysis.fingerprints.
    """

    record: Json | None = None
    handshakes: dict[str, list[Handshake]] | None = None
    joined: dict[tuple[str, str], Joined] | None = None
    sampled: dict[str, Sampled] | None = None
    fingerprint: Row | None = None


class Cell:
    """One planned cell and the raw files it left. Files are read when first asked for."""

    def __init__(
        self,
        data_dir: Path,
        plan: Json,
        withdrawn: str | None = None,
        earlier_run: str | None = None,
        known: Known | None = None,
    ) -> None:
        """withdrawn: why the cell's result was taken back after sealing; it then counts as invalid.
        earlier_run: the run that measured it, None for the bundle's own."""
        self.plan = plan
        self.earlier_run = earlier_run
        self.cell_id = str(plan["cell_id"])
        self.directory = data_dir / "cells" / self.cell_id
        self.known = known or Known()
        if self.known.record is None:
            self.known.record = read_json(self.directory / "record.json")
        self.record: Json = self.known.record
        if withdrawn is not None:
            self.record = {**self.record, "verdict": "invalid", "reason": withdrawn}

    @property
    def suite_id(self) -> str:
        """Suite of the plan, aliases resolved by the planner."""
        return str(self.plan["suite_id"])

    @property
    def condition(self) -> str:
        """Name of the condition."""
        return str(self.plan["condition"])

    @property
    def repetition(self) -> int:
        """Counted from 0 in the plan."""
        return whole_of(self.plan, "repetition")

    @property
    def verdict(self) -> str:
        """pass, fail, unsupported, invalid or not-run."""
        return str(self.record["verdict"])

    @property
    def ring(self) -> str:
        """Weakest ring of the cell's numbers."""
        return str(self.record["ring"])

    @cached_property
    def facts(self) -> SuiteFacts | None:
        """Parts of the suite."""
        return suite_facts(self.suite_id)

    @property
    def spans(self) -> list[Span]:
        """All spans of both ends; empty when the cell never reached a handshake. Read each time: those of a
        campaign do not fit into memory together."""
        return [
            Span(
                host=str(row["host"]),
                handshake_id=str(row["handshake_id"]),
                mode=str(row["mode"]),
                step=str(row["step"]),
                kind=str(row["kind"]),
                start_ns=int(row["start_ns"]),
                end_ns=int(row["end_ns"]),
                cpu_ns=row.get("cpu_ns"),
                runqueue_ns=row.get("runqueue_ns"),
                involuntary=row.get("involuntary"),
            )
            for row in read_ndjson(self.directory / "spans.ndjson")
        ]

    @cached_property
    def events(self) -> list[Line]:
        """Events of all hosts."""
        return read_ndjson(self.directory / "events.ndjson")

    @cached_property
    def counters(self) -> Json:
        """Counters by role; empty when the cell has none."""
        return read_optional_json(self.directory / "counters.json")

    @cached_property
    def traffic_windows(self) -> dict[str, Json]:
        """Window name → what both ends report about it; the canary's is in no table."""
        told = read_optional_json(self.directory / "traffic.json")
        windows = parts_of(told, "windows") if "windows" in told else {}
        return {name: window for name, window in windows.items() if name != CANARY}

    def telemetry_lines(self, role: str) -> list[str]:
        """Line protocol of one end; empty when there is none."""
        path = self.directory / f"telemetry.{role}.lp"
        return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []

    def window(self, name: str) -> tuple[int, int] | None:
        """(start, end) of a labelled window on the controller's clock, realtime ns; None without one."""
        start = end = None
        for event in self.events:
            if event.get("host") == "controller" and event.get("window") == name:
                if event["event"] == "window_start":
                    start = int(event["t_ns"])
                elif event["event"] == "window_end":
                    end = int(event["t_ns"])
        return None if start is None or end is None else (start, end)

    def value(self, letter: str, field: str) -> Json | None:
        """One field of the record ({value, unit, source, validity, reason, n}), or None when absent."""
        found = part_of(part_of(self.record, "categories", {}), letter, {}).get(field)
        return found if isinstance(found, dict) else None

    def why_invalid(self, letter: str, field: str) -> str | None:
        """Why a field of the record does not count (a busy machine); None where it does or is not there."""
        found = self.value(letter, field)
        if found is None or found.get("validity") != "invalid":
            return None
        return str(found.get("reason") or "the record does not say why")


class BundleData:
    """The data/ folder of a bundle or of a run in progress."""

    def __init__(
        self, root: Path, known: Mapping[str, Known] | None = None, scenario: Json | None = None
    ) -> None:
        """known: by cell, what was read before; scenario: scenario.effective.yml, where it was, too."""
        self.data = root / "data"
        if not (self.data / "plan.json").is_file():
            raise LabError(
                "not-a-bundle",
                f"{root} holds no result bundle",
                "data/plan.json is missing",
                "name a folder under results/, or run: ./pqlab run smoke",
                EXIT_CHECK,
            )
        self.plan = read_json(self.data / "plan.json")
        self.run = read_optional_json(self.data / "run.json")
        self.providers = read_optional_json(self.data / "providers.json")
        self.hosts = {
            role: read_optional_json(self.data / "hosts" / f"{role}.json") for role in (*ROLES, "controller")
        }
        self.scenario = scenario or _read_yaml(self.data / "scenario.effective.yml")
        taken_back = withdrawn(self.data)
        lineage, planned = rows_of(self.run, "lineage", []), rows_of(self.plan, "cells")
        earlier = {cell_id: str(run["run_id"]) for run in lineage for cell_id in texts_of(run, "cells")}
        ids = [str(plan["cell_id"]) for plan in planned]
        cells = [
            Cell(self.data, plan, taken_back.get(cell_id), earlier.get(cell_id), (known or {}).get(cell_id))
            for plan, cell_id in zip(planned, ids, strict=True)
        ]
        order = {suite_id: index for index, suite_id in enumerate(registry.ALL)}
        self.cells = sorted(
            cells,
            key=lambda c: (
                order.get(c.suite_id, len(order)),
                c.suite_id,
                c.condition,
                c.repetition,
                c.cell_id,
            ),
        )

    @property
    def conditions(self) -> list[Json]:
        """As the scenario names them."""
        return rows_of(self.scenario, "conditions", [])

    def host(self, role: str) -> Json:
        """What the end says of the machine under it."""
        return part_of(self.hosts.get(role) or {}, "host", {})

    @cached_property
    def untimed(self) -> tuple[str, ...]:
        """Why no time of this bundle is a claim, one reason a host; () where times may be claimed."""
        return untimed_reasons(self.hosts)

    @property
    def seed(self) -> int:
        """Campaign seed, which also seeds every bootstrap."""
        return whole_of(self.plan, "seed") if "seed" in self.plan else 0


def read_json(path: Path) -> Json:
    """A JSON object; a missing or damaged file is an error that names it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise unreadable(path, "the file is missing") from error
    except ValueError as error:  # no JSON, no UTF-8, a number of too many digits
        raise unreadable(path, str(error)) from error
    if not isinstance(value, dict):
        raise unreadable(path, f"expected an object, found {type(value).__name__}")
    return value


def read_optional_json(path: Path) -> Json:
    """Like :func:`read_json`, but an absent file is an empty object (the cell may not have come that far)."""
    return read_json(path) if path.is_file() else {}


def read_ndjson(path: Path) -> list[Line]:
    """One JSON object a line; absent file → no rows; a damaged line is an error that names it."""
    if not path.is_file():
        return []
    rows: list[Line] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise unreadable(path, f"line {number}: {error}") from error
    return rows


def _read_yaml(path: Path) -> Json:
    if not path.is_file():
        raise unreadable(path, "the file is missing")
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise unreadable(path, str(error)) from error
    if not isinstance(value, dict):
        raise unreadable(path, "expected a mapping")
    return value


def unreadable(path: Path, why: str) -> LabError:
    """The error for a damaged file of a bundle."""
    short = "/".join(path.parts[-3:])
    return LabError(
        "unreadable", f"cannot read {short}", why, "./pqlab verify names every damaged file", EXIT_CHECK
    )
