"""One document of everything the page shows: the run's status file and the last minutes in InfluxDB.

The status file works without a database and the database without a run; what is not there is said in words.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pqlab.campaign.store import Store, work_runs
from pqlab.errors import LabError
from pqlab.influx import InfluxError, InfluxView
from pqlab.live.panels import PANELS, Line, Panel, influxql
from pqlab.paths import shown

Json = dict[str, Any]
SPAN_S = 180
STEP_S = 2
#: the database is asked at most so often, however many pages are open
MIN_AGE_S = 1.5


class Snapshot:
    """Makes the document; keeps the last one for a moment."""

    def __init__(
        self, results: Path, view: InfluxView | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._results = results
        self._view = view
        self._clock = clock
        self._made: tuple[float, Json] | None = None

    def document(self) -> Json:
        """{now_ns, run, latest, influx, panels, verdicts}; a run or database that is gone is said in it."""
        if self._made is not None and self._clock() - self._made[0] < MIN_AGE_S:
            return self._made[1]
        document: Json = {"now_ns": time.time_ns(), "span_s": SPAN_S, **self._run(), **self._database()}
        self._made = (self._clock(), document)
        return document

    def _run(self) -> Json:
        latest = self._results / "latest"
        newest = shown(latest.resolve()) if latest.is_dir() else None
        runs = work_runs(self._results)
        for run_id in reversed(runs):
            store = Store(self._results, run_id)
            try:
                status = store.status_at(time.time_ns())
            except LabError:
                continue  # its first cell has not begun, or it has just been sealed
            return {"run": status, "latest": newest}
        return {"run": None, "latest": newest}

    def _database(self) -> Json:
        empty: list[Json] = [{**_head(panel), "series": [], "none": panel.none} for panel in PANELS]
        if self._view is None:
            return {"influx": {"ok": False, "why": "the inventory names no database"}, "panels": empty}
        try:
            reasons = self._sensor_reasons(self._view)
            panels = [self._panel(self._view, panel, reasons) for panel in PANELS]
            verdicts = self._verdicts(self._view)
        except InfluxError as error:
            return {"influx": {"ok": False, "why": f"{error.what}: {error.why}"}, "panels": empty}
        return {"influx": {"ok": True, "why": None}, "panels": panels, "verdicts": verdicts}

    def _panel(self, view: InfluxView, panel: Panel, reasons: dict[str, str]) -> Json:
        series = [found for line in panel.lines for found in _series(view, line)]
        none = reasons.get(panel.sensor or "", panel.none)
        return {**_head(panel), "series": series, "none": None if series else none}

    def _sensor_reasons(self, view: InfluxView) -> dict[str, str]:
        """Sensor → why it has no value, in its host's own words; told once a minute."""
        rows = view.query(
            f'SELECT last("reason") FROM "pq_sensor" WHERE time >= now() - {SPAN_S}s GROUP BY "name"'
        )
        return {
            row["tags"]["name"]: str(row["values"][0][1])
            for row in rows
            if row.get("tags", {}).get("name") and row["values"] and row["values"][0][1]
        }

    def _verdicts(self, view: InfluxView) -> list[Json]:
        """The last word of every detector: its state, ATTACK and DEGRADED."""
        rows = view.query(
            'SELECT last("state") AS state, last("attack") AS attack, last("degraded") AS degraded '
            'FROM "pq_detector" WHERE time >= now() - 10s GROUP BY "host", "model"'
        )
        found = []
        for row in rows:
            named = dict(zip(row["columns"], row["values"][0], strict=True))
            known = {key: named.get(key) for key in ("state", "attack", "degraded")}
            found.append({**row.get("tags", {}), **known})
        return found


def _head(panel: Panel) -> Json:
    return {"id": panel.id, "title": panel.title, "unit": panel.unit}


def _series(view: InfluxView, line: Line) -> list[Json]:
    """One series for each combination of tags: {name, points: [[realtime s, value], …]}."""
    found = []
    for row in view.query(influxql(line, SPAN_S, STEP_S)):
        tags = row.get("tags", {})
        name = " ".join([*(tags.get(tag, "") for tag in line.by), line.label]).strip()
        points = [[t_ns / 1e9, value] for t_ns, value in row["values"] if isinstance(value, int | float)]
        if points:
            found.append({"name": name, "points": points})
    return found
