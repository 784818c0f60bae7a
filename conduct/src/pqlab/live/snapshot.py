"""One document of everything the page shows: the run's own files and the last minutes in InfluxDB.

The run's files work without a database and the database without a run; what is not there is said in words.
Of the database only the run in work is asked for, since it began: nothing of an earlier one is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from pqbase.documents import Json, number_of, part_of, rows_of, whole_of
from pqevidence.errors import LabError
from pqevidence.paths import shown
from pqevidence.record.raw import read_ndjson, read_yaml_object
from pqevidence.scenario.conditions import without
from pqlab.campaign.ring import SIM
from pqlab.campaign.store import Store, read_json, work_runs
from pqlab.influx import InfluxError, InfluxView
from pqlab.influx_series import points
from pqlab.inventory import ROLES
from pqlab.live import detectors
from pqlab.live.bands import Band, bands_of
from pqlab.live.cells import CellRows
from pqlab.live.panels import PANELS, Line, Panel, influxql

SPAN_S = 180
STEP_S = 2
#: the database is asked at most so often, however many pages are open
MIN_AGE_S = 1.5
#: a detector's last word is now for so long
VERDICT_S = 10
#: an end that no sample came from for so long is told; samples come ten times a second, Telegraf sends once
SILENT_S = 12.0
#: the most rows that the page is sent; the rest is counted
MOST_CELLS = 1000
_AT_WORK = ("starting", "running", "finishing")
#: rekeys of the cell in progress, whose own events come when it ends
_REKEYS = Line("", "pq_tunnel", "rekey_completed", "rate", ("host",), (("host", "drone"),))


@dataclass
class _Run:
    """What is known of the run that is shown."""

    status: Json
    store: Store
    conditions: dict[str, Json] = field(default_factory=dict)
    since_ns: int = 0
    simulated: bool = False
    cells: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)

    @property
    def at_work(self) -> bool:
        return self.status["state"] in _AT_WORK

    @property
    def condition(self) -> Json:
        """Of the cell in progress; {} without one."""
        return self.conditions.get(str(part_of(self.status, "current", {}).get("condition")), {})

    @property
    def cell_since_ns(self) -> int:
        """When the cell in progress began, else when the run did."""
        return max([self.since_ns, *(whole_of(event, "t_ns") for event in self.events[:1])])


class Snapshot:
    """Makes the document; keeps the last one for a moment.

    doctor: the command that asks both ends, told where one is silent.
    """

    def __init__(
        self,
        results: Path,
        view: InfluxView | None,
        clock: Callable[[], float] = time.monotonic,
        *,
        realtime_ns: Callable[[], int] = time.time_ns,
        doctor: str = "./pqlab doctor --inventory ansible/inventories/lab.ini",
    ) -> None:
        self._results = results
        self._view = view
        self._clock = clock
        self._realtime_ns = realtime_ns
        self._doctor = doctor
        self._rows = CellRows()
        #: the run that was at work when it was last looked at: its end is told, no other's
        self._watched: str | None = None
        self._made: tuple[float, Json] | None = None

    @property
    def results(self) -> Path:
        """The folder that bundles lie in."""
        return self._results

    def document(self) -> Json:
        """{now_ns, moment, run, cells, bands, influx, panels, verdicts, silent, …}; a run or database that is
        gone is said in it. moment: none, starting, first, running, finishing, stopped or ended."""
        if self._made is not None and self._clock() - self._made[0] < MIN_AGE_S:
            return self._made[1]
        now_ns = self._realtime_ns()
        document: Json = {"now_ns": now_ns, "span_s": SPAN_S, "trouble": None}
        run: _Run | None = None
        for _ in range(2):  # a run that is sealed while it is read is a bundle at the second look
            try:
                run, told = self._look(now_ns)
                break
            except (LabError, OSError) as error:
                told = {"moment": "none", "run": None, "ended": None, "newest": None, "unfinished": []}
                trouble = f"{error.what}: {error.why}" if isinstance(error, LabError) else str(error)
        else:
            document["trouble"] = trouble
        document |= told
        document |= self._database(run, now_ns)
        if run is not None:
            cells = run.cells
        else:
            ended = part_of(told, "ended", {})
            cells = rows_of(ended, "cells", [])
            ended.pop("cells", None)
        document["cells"] = cells[-MOST_CELLS:]
        document["cells_left_out"] = max(0, len(cells) - MOST_CELLS)
        document["bands"] = [
            band.as_dict() for band in (run.bands if run else ()) if band.to_s > now_ns / 1e9 - SPAN_S
        ]
        self._made = (self._clock(), document)
        return document

    # ------------------------------------------------------------------ the run

    def _look(self, now_ns: int) -> tuple[_Run | None, Json]:
        """The run to show: one at work; else the one that was watched, ended or stopped; else one that was
        left unfinished after the newest bundle."""
        stores = [Store(self._results, run_id) for run_id in work_runs(self._results)]
        states = {store.run_id: store.status_or_begun(now_ns) for store in stores}
        at_work = [run_id for run_id, status in states.items() if status["state"] in _AT_WORK]
        newest = self._newest()
        told: Json = {"ended": None, "newest": newest, "unfinished": sorted(states.keys() - {*at_work})}
        chosen = at_work[-1] if at_work else None
        if chosen is None and self._watched is not None:
            if self._watched not in states and (bundle := self._bundle(self._watched)) is not None:
                return None, {**told, "moment": "ended", "run": None, "ended": self._ended(bundle)}
            chosen = self._watched if self._watched in states else None
        if chosen is None and states and (newest is None or max(states) > str(newest["run_id"])):
            chosen = max(states)
        if chosen is None:
            return None, {**told, "moment": "none", "run": None}
        run = self._run(Store(self._results, chosen), states[chosen], now_ns)
        if run.at_work:
            self._watched = chosen
        moment = run.status["state"] if run.at_work else "stopped"
        if moment == "running" and not run.cells:
            moment = "first"
        return run, {**told, "moment": moment, "run": run.status}

    def _run(self, store: Store, status: Json, now_ns: int) -> _Run:
        plan = store.read("plan.json")
        document = store.read("run.json") if (store.data / "run.json").is_file() else {}
        sessions = rows_of(document, "sessions", [document])
        scenario_file = store.data / "scenario.effective.yml"
        scenario = read_yaml_object(scenario_file) if scenario_file.is_file() else {}
        run = _Run(
            status=status,
            store=store,
            conditions={str(row["name"]): row for row in scenario.get("conditions") or []},
            since_ns=whole_of(sessions[-1], "started_ns", 0),
            simulated=scenario.get("ring") == SIM,
            cells=self._rows.of(store.data, plan),
        )
        if run.at_work and not run.simulated:
            run.events = store.told_events()
            run.bands = self._bands(run, now_ns / 1e9)
        status["window"] = _window(run.events)
        return run

    def _bands(self, run: _Run, now_s: float) -> list[Band]:
        """Of the cells that ended within the span, and of the one in progress."""
        bands: list[Band] = []
        for row in run.cells:
            if number_of(row, "made_s") < now_s - SPAN_S:
                continue
            path = run.store.cell_dir(str(row["cell_id"])) / "events.ndjson"
            events = read_ndjson(path) if path.is_file() else []
            bands += bands_of(events, run.conditions.get(str(row["condition"])) or {}, now_s)
        return bands + bands_of(run.events, run.condition, now_s)

    # ------------------------------------------------------------------ bundles

    def _newest(self) -> Json | None:
        latest = self._results / "latest"
        return self._told_bundle(latest.resolve()) if latest.is_dir() else None

    def _bundle(self, run_id: str) -> Path | None:
        bundle = self._results / run_id
        return bundle if (bundle / "bagit.txt").is_file() else None

    def _told_bundle(self, bundle: Path) -> Json:
        """report: its path on this server; None where the bundle has none."""
        page = bundle / "data" / "report.html"
        served = bundle.parent == self._results.resolve() and page.is_file()
        return {
            "run_id": bundle.name,
            "bundle": shown(bundle),
            "report": f"/bundle/{bundle.name}/data/report.html" if served else None,
        }

    def _ended(self, bundle: Path) -> Json:
        run, plan = (read_json(bundle / "data" / name) for name in ("run.json", "plan.json"))
        return {
            **self._told_bundle(bundle.resolve()),
            "scenario": run["scenario"],
            "verdict_counts": run.get("verdict_counts") or {},
            "total": len(rows_of(plan, "cells")),
            "warnings": run.get("warnings") or [],
            "ended_ns": run.get("ended_ns"),
            "cells": self._rows.of(bundle / "data", plan),
        }

    # ------------------------------------------------------------------ the database

    def _database(self, run: _Run | None, now_ns: int) -> Json:
        """{influx, panels, verdicts, silent} of the run at work since it began, and of no other."""
        why = None
        if run is None or not run.at_work:
            why = "no run is at work"
        elif run.simulated:
            why = "a simulated run has no samplers"
        if why is not None or run is None:
            return {
                "influx": {"ok": True, "why": None},
                "panels": _empty(why),
                "verdicts": [],
                "silent": None,
            }
        if self._view is None:
            return _no_database("the inventory names no database")
        since_ns = max(now_ns - SPAN_S * 10**9, run.since_ns)
        try:
            reasons = self._sensor_reasons(self._view, since_ns)
            panels = [_panel(self._view, panel, reasons, since_ns) for panel in PANELS]
            run.bands += _rekeys(self._view, max(since_ns, run.cell_since_ns))
            verdicts = self._verdicts(self._view, run, now_ns)
            silent = self._silent(self._view, run, now_ns)
        except InfluxError as error:
            return _no_database(f"{error.what}: {error.why}")
        return {
            "influx": {"ok": True, "why": None},
            "panels": panels,
            "verdicts": verdicts,
            "silent": silent,
        }

    def _sensor_reasons(self, view: InfluxView, since_ns: int) -> dict[str, str]:
        """Sensor → why it has no value, in its host's own words; told once a minute."""
        asked = view.query(f'SELECT last("reason") FROM "pq_sensor" WHERE time >= {since_ns} GROUP BY "name"')
        return {
            name: str(row["values"][0][1])
            for row in asked
            if (name := row.get("tags", {}).get("name")) and row["values"] and row["values"][0][1]
        }

    def _verdicts(self, view: InfluxView, run: _Run, now_ns: int) -> list[Json]:
        """The last word of every detector in the cell in progress."""
        since_ns = max(now_ns - VERDICT_S * 10**9, run.cell_since_ns)
        rows = view.query(
            'SELECT last("state") AS state, last("attack") AS attack, last("degraded") AS degraded '
            f'FROM "pq_detector" WHERE time >= {since_ns} GROUP BY "host", "model"'
        )
        found = []
        for row in rows:
            _, named = next(points(row))
            known = {key: named.get(key) for key in ("state", "attack", "degraded")}
            found.append(detectors.told({**row.get("tags", {}), **known}, run.bands, now_ns / 1e9))
        return found

    def _silent(self, view: InfluxView, run: _Run, now_ns: int) -> str | None:
        """One sentence where no sample of an end has come for a while; None where both are heard."""
        now_s = now_ns / 1e9
        rows = view.query(
            f'SELECT last("got_count") FROM "pq_sampler" WHERE time >= {run.since_ns} GROUP BY "host"'
        )
        heard_s = {row.get("tags", {}).get("host"): next(points(row))[0] / 1e9 for row in rows}
        ages_s = {role: now_s - heard_s.get(role, run.since_ns / 1e9) for role in ROLES}
        quiet = {role: age_s for role, age_s in ages_s.items() if age_s > SILENT_S}
        if not quiet:
            return None
        ages = " and ".join(f"the {role} for {age_s:.0f} s" for role, age_s in quiet.items())
        if left_out := sorted({"sampler", "telegraf"} & {*without(run.condition)}):
            return f"No sample of {ages}, as this cell's condition leaves out: {', '.join(left_out)}."
        cause = "its agent is gone, or what lies between it and the database"
        if len(quiet) > 1:
            cause = "Telegraf stands still, or both agents are gone"
        return f"No sample of {ages}: {cause}. Next: {self._doctor}"


def _window(events: list[Json]) -> str | None:
    """The window of a cell that is open now."""
    open_now: list[str] = []
    for event in events:
        if event.get("event") == "window_start":
            open_now.append(str(event.get("window")))
        elif event.get("event") == "window_end" and str(event.get("window")) in open_now:
            open_now.remove(str(event.get("window")))
    return open_now[-1] if open_now else None


def _head(panel: Panel) -> Json:
    return {"id": panel.id, "title": panel.title, "unit": panel.unit}


def _empty(why: str | None) -> list[Json]:
    return [{**_head(panel), "series": [], "none": why or panel.none} for panel in PANELS]


def _no_database(why: str) -> Json:
    return {
        "influx": {"ok": False, "why": why},
        "panels": _empty("the database does not answer"),
        "verdicts": [],
        "silent": None,
    }


def _panel(view: InfluxView, panel: Panel, reasons: dict[str, str], since_ns: int) -> Json:
    series = [found for line in panel.lines for found in _series(view, line, since_ns)]
    none = reasons.get(panel.sensor or "", panel.none)
    return {**_head(panel), "series": series, "none": None if series else none}


class _Drawn(TypedDict):
    """One line of a panel: (realtime s, value) of each point."""

    name: str
    points: list[tuple[float, float]]


def _series(view: InfluxView, line: Line, since_ns: int) -> list[_Drawn]:
    """One series for each combination of tags."""
    found: list[_Drawn] = []
    for row in view.query(influxql(line, since_ns, STEP_S)):
        tags = row.get("tags", {})
        name = " ".join([*(tags.get(tag, "") for tag in line.by), line.label]).strip()
        drawn = [
            (t_ns / 1e9, value)
            for t_ns, values in points(row)
            for value in values.values()
            if isinstance(value, int | float)
        ]
        if drawn:
            found.append({"name": name, "points": drawn})
    return found


def _rekeys(view: InfluxView, since_ns: int) -> list[Band]:
    """Steps in which the drone switched keys, as bands of a step."""
    return [
        Band("rekey", t_s - STEP_S, t_s, "completed")
        for series in _series(view, _REKEYS, since_ns)
        for t_s, value in series["points"]
        if value > 0
    ]
