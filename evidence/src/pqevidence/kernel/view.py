"""The bundle and its cells as the checks see them. Raw files of a cell are read once and dropped after it."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from pqbase.documents import number_or_none, part_of, part_or_none, rows_of, whole_of
from pqevidence.analysis.handshakes import by_mode, grouped
from pqevidence.analysis.load import Known
from pqevidence.analysis.system import sampled_before
from pqevidence.analysis.traffic import Joined as Datagrams
from pqevidence.bundle.bag import payload
from pqevidence.bundle.digest import Hashed
from pqevidence.errors import LabError
from pqevidence.kernel.result import CheckResult
from pqevidence.kernel.schema import load_schema, schema_errors
from pqevidence.record.context import EXEMPT_WINDOWS, suite_of
from pqevidence.record.dataplane import DataPlane, data_plane
from pqevidence.record.faults import killed_roles
from pqevidence.record.handshake import WALL_STEP
from pqevidence.record.raw import Json, RawCell, RawRun, Span, load_cell, load_run, read_object, read_record
from pqevidence.scenario.conditions import impairs
from pqtelemetry.errors import TelemetryError
from pqtunnel.suites import Suite

#: folder of the documents of earlier runs, under data/
LINEAGE = "lineage"
#: cells that a scenario or a plan may have; a campaign of a month has a tenth of them
MOST_CELLS = 200_000
#: written into the effective scenario for readers: what a command line changed
READER_KEYS = ("overrides", "composed_of")
#: what the controller labels: measured windows, and waits that are no part of a cell's overhead
LABELS = ("handshake_cold", "handshake_pooled", "traffic", "bulk-", *EXEMPT_WINDOWS)


class Ancestor:
    """A run whose cells this bundle took over; its documents lie under data/lineage/<run_id>."""

    def __init__(self, run_id: str, folder: Path, entry: Json) -> None:
        self.run_id = run_id
        self.folder = folder
        self.entry = entry
        self.cells = {str(cell_id) for cell_id in entry["cells"]}

    @cached_property
    def raw(self) -> RawRun:
        """run.json, scenario, plan, providers, hosts as they were then."""
        return load_run(self.folder)


class BundleView:
    """Run-level files, each read when first asked for; a damaged one raises in the check that needs it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"
        #: what checks that compare cells saw so far: digest of times → where; host of a run → first clock;
        #: cell of a run → pause between its handshakes; run → what sister cells are compared by,
        #: and its attempts' accounts of the kernel
        self.seen_times: dict[bytes, str] = {}
        self.clocks: dict[tuple[int, str], tuple[int, int, str]] = {}
        self.pauses: dict[tuple[str, int], float] = {}
        self.sisters: dict[int, list[object]] = {}
        self.accounts: dict[int, list[object]] = {}
        #: what checks of the bundle's cells said, and what was read of these, for the check that comes last
        self.told: dict[str, CheckResult] = {}
        self.known: dict[str, Known] = {}
        self._records: dict[str, Json] = {}
        #: files by their path below root, where somebody has hashed or read them already
        self.hashed: Mapping[str, Hashed] = {}
        self.contents: Mapping[str, bytes] = {}

    @property
    def raw(self) -> RawRun:
        """run.json, scenario, plan, providers, hosts. Read once: what could not be read raises again."""
        if isinstance(self._loaded, LabError):
            raise self._loaded
        return self._loaded

    @cached_property
    def _loaded(self) -> RawRun | LabError:
        try:
            return load_run(self.data)
        except LabError as error:
            return error

    @cached_property
    def ancestors(self) -> list[Ancestor]:
        """The runs that taken-over cells are of, oldest first; [] for a bundle made in one run."""
        return [
            Ancestor(str(entry["run_id"]), self.data / LINEAGE / str(entry["run_id"]), dict(entry))
            for entry in rows_of(self.raw.run, "lineage", [])
        ]

    def run_of(self, cell_id: str) -> RawRun:
        """The run-level facts that the cell was measured under: its own run's, not that of the bundle."""
        for ancestor in self.ancestors:
            if cell_id in ancestor.cells:
                return ancestor.raw
        return self.raw

    @cached_property
    def plan(self) -> Json:
        """plan.json."""
        return read_object(self.data / "plan.json")

    @cached_property
    def scenario_errors(self) -> list[str]:
        """What the scenario's schema finds in the effective scenario."""
        scenario = {key: value for key, value in self.raw.scenario.items() if key not in READER_KEYS}
        return schema_errors(scenario, load_schema("pqevidence.scenario", "scenario.schema.json"))

    @cached_property
    def plan_errors(self) -> list[str]:
        """What the plan's schema finds in plan.json; more rows than any campaign has are not looked at."""
        rows = self.plan.get("cells")
        if isinstance(rows, list) and len(rows) > MOST_CELLS:
            return [f"cells: {len(rows)} rows, {MOST_CELLS} are the most"]
        return schema_errors(self.plan, load_schema("pqevidence", "plan.schema.json"))

    @cached_property
    def misshapen(self) -> str | None:
        """Why nothing that rests on scenario and plan may be looked at: their numbers say how much there is
        to do. None where both are valid, and where one cannot be read: each check that needs it says so."""
        for name in ("scenario", "plan"):
            try:
                if getattr(self, f"{name}_errors"):
                    return f"the {name} is not valid"
            except LabError:
                continue
        return None

    @cached_property
    def plan_cells(self) -> list[Json]:
        """Rows of the plan in running order."""
        return sorted((dict(row) for row in self.plan["cells"]), key=lambda row: int(row["position"]))

    @cached_property
    def cells(self) -> list[CellView]:
        """Planned cells that left a record."""
        views = [CellView(self, row) for row in self.plan_cells]
        return [view for view in views if (view.folder / "record.json").is_file()]

    def record(self, cell_id: str) -> Json:
        """record.json of a cell, read once."""
        if cell_id not in self._records:
            self._records[cell_id] = read_record(self.data / "cells" / cell_id / "record.json")
        return self._records[cell_id]

    @cached_property
    def last_carried_out(self) -> str:
        """Id of the last cell that was carried out; "" for none."""
        last = (c.cell_id for c in reversed(self.cells) if c.verdict in ("pass", "fail", "invalid"))
        return next(last, "")

    @cached_property
    def payload(self) -> list[str]:
        """Every file under data/, as bundle.bag.payload gives them."""
        return payload(self.root)

    @property
    def runs(self) -> list[RawRun]:
        """Every run that has cells here, oldest first; the bundle's own is the last."""
        return [*(ancestor.raw for ancestor in self.ancestors), self.raw]


class CellView:
    """One planned cell. `label` names it in messages."""

    def __init__(self, bundle: BundleView, plan: Json) -> None:
        self.bundle = bundle
        self.plan = plan
        self.cell_id = str(plan["cell_id"])
        self.folder = bundle.data / "cells" / self.cell_id
        # as on the terminal: the condition that nothing is asked of needs no name
        under = "" if plan["condition"] == "baseline" else f" {plan['condition']}"
        self.label = f"{plan['suite_id']}{under} #{plan['repetition']}"

    @cached_property
    def record(self) -> Json:
        """record.json."""
        return self.bundle.record(self.cell_id)

    @cached_property
    def run(self) -> RawRun:
        """The run this cell was measured in."""
        return self.bundle.run_of(self.cell_id)

    @property
    def verdict(self) -> str:
        """The record's claim."""
        return str(self.record.get("verdict"))

    @property
    def raw(self) -> RawCell:
        """The raw files. Read once: what could not be read raises again."""
        if isinstance(self._loaded, LabError):
            raise self._loaded
        return self._loaded

    @cached_property
    def _loaded(self) -> RawCell | LabError:
        try:
            return load_cell(self.folder)
        except LabError as error:
            return error

    @cached_property
    def plane(self) -> DataPlane:
        """Both ledgers joined, gates, round trips."""
        return data_plane(self.raw, self.suite)

    @cached_property
    def suite(self) -> Suite | None:
        """The registry's suite; None for one it does not know."""
        return suite_of(str(self.plan["suite_id"]))

    @property
    def shakes(self) -> bool:
        """False for suite plain, which makes no handshake."""
        return self.suite is None or not self.suite.is_plain

    @property
    def pooled_due(self) -> int | None:
        """Pooled handshakes the scenario asks of this cell; None for none."""
        pooled = part_or_none(part_of(self.run.scenario, "handshake", {}), "pooled")
        return whole_of(pooled, "count") if pooled is not None and self.shakes else None

    @property
    def torn(self) -> bool:
        """True where the condition had an end killed: what it held of the window is gone with it."""
        return bool(killed_roles(self.raw.events, self.run.condition(str(self.plan["condition"]))))

    @property
    def impaired(self) -> bool:
        """True where the condition itself makes the link lose, delay or reorder."""
        return impairs(self.run.condition(str(self.plan["condition"])))

    def value(self, letter: str, name: str) -> object:
        """A value of the record; None where it is null or absent."""
        return self.record["categories"].get(letter, {}).get(name, {}).get("value")

    def number(self, letter: str, name: str) -> float | None:
        """A number of the record as it is, whole or not; None where it is null or absent."""
        return number_or_none({name: self.value(letter, name)}, name)

    def windows(self, role: str) -> dict[str, Json]:
        """Per-window counters of one end. KeyError when the counters are not there."""
        if self.raw.counters is None:
            raise KeyError("counters.json")
        return dict(self.raw.counters[role]["windows"])

    def labelled(self) -> list[tuple[str, int, int]]:
        """(name, start, end) of the controller's windows, from events.ndjson."""
        opened: dict[str, int] = {}
        found: list[tuple[str, int, int]] = []
        for event in self.raw.events:
            name = event.get("window")
            if event.get("host") != "controller" or not isinstance(name, str) or not name.startswith(LABELS):
                continue
            if event.get("event") == "window_start":
                opened[name] = int(event["t_ns"])
            elif event.get("event") == "window_end" and name in opened:
                found.append((name, opened.pop(name), int(event["t_ns"])))
        return found

    @property
    def wall(self) -> tuple[int, int]:
        """First and last controller event. ValueError when there is none."""
        times = [int(event["t_ns"]) for event in self.raw.events if event.get("host") == "controller"]
        return min(times), max(times)

    def stopped_ns(self, role: str) -> int:
        """When one end had stopped; the cell's end where it never said so. Its files are fetched later."""
        events = [event for event in self.raw.events if event.get("event") == "stop"]
        times = [int(event["t_ns"]) for event in events if event.get("host") == role]
        return min(max(times, default=self.wall[1]), self.wall[1])

    @property
    def handshakes(self) -> dict[str, Ends]:
        """Cold handshakes by id."""
        return self._by_mode.get("cold", {})

    @property
    def pooled(self) -> dict[str, Ends]:
        """The same of the pooled window."""
        return self._by_mode.get("pooled", {})

    @cached_property
    def timed(self) -> dict[str, Ends]:
        """Cold and pooled ones together, for what holds of every handshake."""
        return {**self.handshakes, **self.pooled}

    @cached_property
    def groups(self) -> list[tuple[tuple[str, str, str], list[Span]]]:
        """Spans in file order, those together that stand together: (mode, handshake, host), rows."""
        return list(grouped(self.raw.spans or []))

    @cached_property
    def _by_mode(self) -> dict[str, dict[str, Ends]]:
        found: dict[str, dict[str, dict[str, list[Span]]]] = {}
        for (mode, handshake_id, host), spans in self.groups:
            found.setdefault(mode, {}).setdefault(handshake_id, {}).setdefault(host, []).extend(spans)
        return {
            mode: {
                handshake_id: {host: end_spans(spans) for host, spans in hosts.items()}
                for handshake_id, hosts in by_id.items()
            }
            for mode, by_id in found.items()
        }

    def keep(self) -> None:
        """Remember what tables are made of, so that nobody reads the raw files again for them. Where these
        cannot be read, or say something twice, whoever makes the tables reads them in its own way."""
        known = self.bundle.known.setdefault(self.cell_id, Known())
        known.record = self.record
        if isinstance(self._loaded, LabError):
            return
        if self.raw.spans is not None:
            known.handshakes = by_mode(self.groups)
        # of a damaged line: who makes the table reads the lines again, and says which one it is
        with contextlib.suppress(TelemetryError, ValueError):
            sampled = {role: sampled_before(self.raw, role) for role in self.raw.telemetry}
            known.sampled = {role: told for role, told in sampled.items() if told is not None}
        down, up = self.plane.down, self.plane.up
        if down and up and not (down.duplicates or up.duplicates) and self.raw.canary is None:
            known.joined = {
                (window, name): Datagrams(joined.sent, array("d", joined.latencies_ms))
                for name, join in (("down", down), ("up", up))
                for window, joined in join.windows.items()
            }

    def release(self) -> None:
        """Forget the raw files: a campaign's ledgers do not fit into memory together."""
        for name in ("_loaded", "plane", "groups", "_by_mode", "timed"):
            self.__dict__.pop(name, None)


@dataclass(frozen=True)
class EndSpans:
    """What one host wrote of one handshake: the whole-wall row, and the steps in order of start and end.

    steps_ns: the sum of their durations.
    """

    wall: Span | None
    steps: list[Span]
    steps_ns: int


#: of one handshake, by host
Ends = dict[str, EndSpans]
_NOTHING = EndSpans(None, [], 0)


def end_spans(spans: list[Span]) -> EndSpans:
    """Of all rows of one host in one handshake. Of several walls the one that began first, and the longest of
    these, counts."""
    steps = sorted((span for span in spans if span.step != WALL_STEP), key=attrgetter("start_ns", "end_ns"))
    walls = [span for span in spans if span.step == WALL_STEP]
    wall = min(walls, key=lambda span: (span.start_ns, -span.end_ns), default=None)
    return EndSpans(wall, steps, sum([span.end_ns - span.start_ns for span in steps]))


def end_of(hosts: Ends, host: str) -> EndSpans:
    """One end of a handshake; empty where it wrote nothing."""
    return hosts.get(host, _NOTHING)
