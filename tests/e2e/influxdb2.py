"""The shipped dashboard of InfluxDB 2, asked query by query, and held against what the live view asks for."""

from __future__ import annotations

import csv
import io
import json
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import datetime

from pqlab.influx import InfluxView
from pqlab.live.panels import PANELS, influxql

from .conftest import ROOT

IMAGE = "pqlab/influxdb2:dev"
TEMPLATE = ROOT / "compose" / "dashboards" / "influxdb2.json"
NS = 1_000_000_000

#: (values of the tags that tell the lines of a chart apart, start of the second in ns) → value
Drawn = dict[tuple[tuple[str, ...], int], float]


@dataclass(frozen=True)
class Server:
    """One InfluxDB 2 by its address and token."""

    url: str
    token: str

    def flux(self, query: str) -> list[dict[str, str]]:
        """The rows of one query; raises urllib.error.HTTPError where the server refuses it."""
        request = urllib.request.Request(
            f"{self.url}/api/v2/query?{urllib.parse.urlencode({'org': 'pqlab'})}",
            data=json.dumps({"query": query, "dialect": {"header": True, "annotations": []}}).encode(),
            headers={"Authorization": f"Token {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return list(csv.DictReader(io.StringIO(reply.read().decode())))

    def write(self, lines: str, database: str = "pqlab") -> None:
        """Points by the 1.x write API, as Telegraf sends them; raises urllib.error.HTTPError."""
        request = urllib.request.Request(
            f"{self.url}/write?db={database}", data=lines.encode(), method="POST"
        )
        request.add_header("Authorization", f"Token {self.token}")
        with urllib.request.urlopen(request, timeout=30):
            pass

    @property
    def view(self) -> InfluxView:
        return InfluxView(self.url, "pqlab", token=self.token)


def dashboard(server: Server, start_s: int, end_s: int) -> dict[str, Drawn]:
    """What each query of the dashboard draws between two whole seconds, a value a second."""
    found: dict[str, Drawn] = {}
    for part in json.loads(TEMPLATE.read_text()):
        for panel, chart in zip(PANELS, part["spec"]["charts"], strict=True):
            assert chart["name"] == panel.title
            for place, (line, query) in enumerate(zip(panel.lines, chart["queries"], strict=True)):
                text = query["query"]
                for name, given in (
                    ("timeRangeStart", f"time(v: {start_s * NS})"),
                    ("timeRangeStop", f"time(v: {end_s * NS})"),
                    ("windowPeriod", "1s"),
                ):
                    text = text.replace(f"v.{name}", given)
                # a window is named by its end there, by its start in the live view
                found[f"{panel.id} {place}"] = {
                    (tuple(row[tag] for tag in line.by), _second(row["_time"]) - NS): float(row["_value"])
                    for row in server.flux(text)
                    if row["_value"]
                }
    return found


def _second(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * NS


def live(server: Server, start_s: int, end_s: int) -> dict[str, Drawn]:
    """What the live view draws of the same seconds, but for a rate in the first one: InfluxQL takes it from
    the second before, Flux has none there."""
    found: dict[str, Drawn] = {}
    for panel in PANELS:
        for place, line in enumerate(panel.lines):
            drawn = found.setdefault(f"{panel.id} {place}", {})
            first_ns = (start_s + (line.how == "rate")) * NS
            for series in server.view.query(influxql(line, start_s * NS, 1)):
                tags = tuple(str(series["tags"][tag]) for tag in line.by)
                drawn.update(
                    {
                        (tags, int(ns)): float(value)
                        for ns, value in series["values"]
                        if first_ns <= ns < end_s * NS
                    }
                )
    return found
