"""The panels of the live view as files: a Grafana dashboard (InfluxQL) and an InfluxDB 2 template (Flux).

`python -m pqlab.live.dashboards` writes both into compose/dashboards; a test holds the files against this.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pqbase.documents import Json
from pqevidence.paths import project_root
from pqlab.live.panels import PANELS, Line, Panel, statement

#: of InfluxDB 2: it answers the 1.x API as the database of that name
BUCKET = "pqlab"
#: InfluxDB's own name for the colours of a chart
_COLOURS = ("#31C0F6", "#A500A5", "#FF7E27")


def grafana_target(line: Line, place: int) -> Json:
    """One query of a Grafana panel; $timeFilter and $__interval are Grafana's."""
    names = " ".join([*(f"$tag_{tag}" for tag in line.by), line.label]).strip()
    return {
        "refId": chr(ord("A") + place),
        "datasource": {"type": "influxdb", "uid": "pqlab"},
        "rawQuery": True,
        "resultFormat": "time_series",
        "alias": names,
        "query": statement(line, "$timeFilter", "$__interval"),
    }


def grafana() -> Json:
    """The dashboard, two panels a row."""
    return {
        "uid": "pqlab-live",
        "title": "PQ-MAV Lab, live",
        "description": "A view of the running campaign; the record is the raw files on each host.",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "5s",
        "time": {"from": "now-5m", "to": "now"},
        "timezone": "utc",
        "tags": ["pqlab"],
        "panels": [_grafana_panel(panel, place) for place, panel in enumerate(PANELS)],
    }


def _grafana_panel(panel: Panel, place: int) -> Json:
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": f"Empty: {panel.none}.",
        "datasource": {"type": "influxdb", "uid": "pqlab"},
        "gridPos": {"x": 12 * (place % 2), "y": 8 * (place // 2), "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": f"suffix: {panel.unit}", "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [grafana_target(line, index) for index, line in enumerate(panel.lines)],
    }


def flux(line: Line) -> str:
    """One query of an InfluxDB 2 chart; v.timeRangeStart, Stop and windowPeriod are the dashboard's."""
    tests = [f'r._measurement == "{line.measurement}"', f'r._field == "{line.field}"']
    tests += [f'r["{tag}"] == "{value}"' for tag, value in line.where]
    group = ", ".join(f'"{tag}"' for tag in line.by)
    how = {
        "mean": "aggregateWindow(every: v.windowPeriod, fn: mean, createEmpty: false)",
        "max": "aggregateWindow(every: v.windowPeriod, fn: max, createEmpty: false)",
        "rate": "aggregateWindow(every: v.windowPeriod, fn: last, createEmpty: false)\n"
        "  |> derivative(unit: 1s, nonNegative: true)",
    }[line.how]
    return (
        f'from(bucket: "{BUCKET}")\n'
        "  |> range(start: v.timeRangeStart, stop: v.timeRangeStop)\n"
        f"  |> filter(fn: (r) => {' and '.join(tests)})\n"
        f"  |> group(columns: [{group}])\n"
        # a group holds one series after another, each cell's its own: the last row is not the latest one
        '  |> sort(columns: ["_time"])\n'
        f"  |> {how}\n"
        f'  |> yield(name: "{line.label or line.field}")'
    )


def influxdb2() -> list[Json]:
    """The template: one dashboard, one chart a panel."""
    charts = [
        {
            "kind": "Xy",
            "name": panel.title,
            "note": f"Empty: {panel.none}.",
            "noteOnEmpty": True,
            "geom": "line",
            "shade": False,
            "xCol": "_time",
            "yCol": "_value",
            "xPos": 6 * (place % 2),
            "yPos": 4 * (place // 2),
            "width": 6,
            "height": 4,
            "position": "overlaid",
            "axes": [
                {"name": "x", "base": "10", "scale": "linear"},
                {"name": "y", "base": "10", "scale": "linear", "suffix": f" {panel.unit}"},
            ],
            "colors": [
                {"id": f"colour-{index}", "name": "pqlab", "type": "scale", "hex": colour, "value": index}
                for index, colour in enumerate(_COLOURS)
            ],
            "queries": [{"query": flux(line)} for line in panel.lines],
        }
        for place, panel in enumerate(PANELS)
    ]
    spec = {
        "name": "PQ-MAV Lab, live",
        "description": "A view of the running campaign; the record is the raw files on each host.",
        "charts": charts,
    }
    return [
        {
            "apiVersion": "influxdata.com/v2alpha1",
            "kind": "Dashboard",
            "metadata": {"name": "pqlab-live"},
            "spec": spec,
        }
    ]


def texts() -> dict[str, str]:
    """File name → content."""
    return {
        "grafana.json": json.dumps(grafana(), indent=1, ensure_ascii=False) + "\n",
        "influxdb2.json": json.dumps(influxdb2(), indent=1, ensure_ascii=False) + "\n",
    }


def main() -> None:
    """Write both files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else project_root() / "compose" / "dashboards"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
