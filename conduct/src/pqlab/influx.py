"""InfluxDB seen over its 1.x API (InfluxQL), and the comparison of what it holds with the telemetry files.

The files are the record and the database is a view; `reconcile` says, series by series and field by field,
whether the view shows every point of the record with the same value. Works with InfluxDB 1.x and with the
1.x compatibility API of 2.x (any user, the token as password). Standard library only.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pqbase.documents import Json
from pqevidence.errors import EXIT_ENVIRONMENT, LabError
from pqevidence.paths import project_root
from pqlab.influx_series import Scalar, Series, points, tags_of
from pqtelemetry.errors import TelemetryError
from pqtelemetry.line import series_key
from pqtelemetry.slice import parse_line

# Telegraf's own cpu, mem and internal_* series carry other names and stay out of every comparison.
OWN_MEASUREMENTS = "/^pq_/"
# A detector sends its own points; their record is detector.ndjson, no sampler's file.
NOT_SAMPLED = ("pq_detector,",)

#: The most that one query asks for. The database builds its answer in memory, an hour's in a gigabyte, and
#: calls one partial that has more than 10,000 rows of a series; samples come 10 times a second, or 100.
PIECE_NS = 60_000_000_000
#: token of the lab's own InfluxDB 2, beside its keys
TOKEN_FILE = Path("keys") / "influxdb" / "token.secret"


class InfluxError(LabError):
    """The database cannot be asked, or answers something else than data."""

    def __init__(self, code: str, what: str, why: str, hint: str) -> None:
        super().__init__(code, what, why, hint, EXIT_ENVIRONMENT)


@dataclass
class SeriesContent:
    """Points of one series in a span: distinct timestamps, and for each field its value by time."""

    times: set[int] = field(default_factory=set)
    fields: dict[str, dict[int, Scalar]] = field(default_factory=dict)

    def add(self, time_ns: int, values: Mapping[str, Scalar | None]) -> None:
        """Take one point; null (a field that another point of the query has) is no value."""
        self.times.add(time_ns)
        for name, value in values.items():
            if value is not None:
                self.fields.setdefault(name, {})[time_ns] = value

    def total(self, name: str) -> float | int | None:
        """Sum of a numeric field, free of order: exact for integers, correctly rounded for floats.

        None for text and truth values.
        """
        values = self.fields.get(name, {}).values()
        numbers = [
            value for value in values if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        if len(numbers) != len(values):
            return None
        return sum(numbers) if all(isinstance(number, int) for number in numbers) else math.fsum(numbers)


@dataclass(frozen=True)
class SeriesComparison:
    """One series in the file and in the database; `differences` names each field that is not equal."""

    series: str
    file_count: int
    influx_count: int
    differences: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True when every point and every field is equal."""
        return self.file_count == self.influx_count and not self.differences

    def as_dict(self) -> Json:
        """JSON-ready row of run.json."""
        return {
            "series": self.series,
            "file_count": self.file_count,
            "influx_count": self.influx_count,
            "ok": self.ok,
            "differences": list(self.differences),
        }


class InfluxView:
    """One database behind one URL; every call is one HTTP request with a timeout.

    A database that asks for a token gets INFLUXDB_TOKEN (and INFLUXDB_USER), as Telegraf does, or the token
    that the lab made.
    """

    def __init__(
        self, url: str, db: str, *, user: str | None = None, token: str | None = None, timeout_s: float = 10.0
    ) -> None:
        self.url = url.rstrip("/")
        self.db = db
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"}
        token, self._token_from = _token(token)
        if token:
            pair = f"{user or os.environ.get('INFLUXDB_USER') or 'pqlab'}:{token}".encode()
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()

    def _get(self, path: str, query: Mapping[str, str]) -> tuple[Mapping[str, str], bytes]:
        address = f"{self.url}{path}"
        if query:
            address += "?" + urllib.parse.urlencode(query)
        request = urllib.request.Request(address, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as reply:
                return dict(reply.headers.items()), reply.read()
        except urllib.error.HTTPError as error:
            with error:
                body = error.read(500).decode("utf-8", errors="replace").strip()
            if error.code in (401, 403):
                raise self._refused(body or f"HTTP {error.code}") from error
            raise InfluxError(
                "influx-http",
                f"InfluxDB at {self.url} answered HTTP {error.code}",
                body,
                "docker logs pqlab-influxdb-1",
            ) from error
        except http.client.HTTPException as error:
            raise InfluxError(
                "influx-broke-off",
                f"InfluxDB at {self.url} broke off its answer",
                f"{type(error).__name__}: {error}",
                "docker logs pqlab-influxdb-1; the bundle does not depend on the database",
            ) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise InfluxError(
                "influx-unreachable",
                f"InfluxDB at {self.url} cannot be reached",
                str(reason),
                "make lab-status, then make lab-up; the bundle does not depend on the database",
            ) from error

    def _refused(self, why: str) -> InfluxError:
        if self._token_from is None:
            return InfluxError(
                "influx-refused",
                f"InfluxDB at {self.url} wants a token, and there is none",
                why,
                "set INFLUXDB_TOKEN to the token of the database, or switch its authentication off",
            )
        return InfluxError(
            "influx-refused",
            f"InfluxDB at {self.url} refuses the token of {self._token_from}",
            why,
            "it is another database's: unset INFLUXDB_TOKEN, or bring the database up anew with it "
            "(make lab-down, make lab-up)",
        )

    def _not_answered(self, why: str) -> InfluxError:
        if why.startswith("database not found"):
            return InfluxError(
                "influx-database",
                f"InfluxDB at {self.url} has no database {self.db!r}",
                why,
                "1.x makes it with Telegraf's first point, 2.x a bucket of that name when it is set up: "
                "make lab-status, then make lab-down lab-up",
            )
        return InfluxError(
            "influx-query",
            f"InfluxDB refused a query on database {self.db!r}",
            why,
            "docker logs pqlab-influxdb-1; the bundle does not depend on the database",
        )

    def ping(self) -> str:
        """Version of the server; raises InfluxError when it does not answer."""
        headers, _ = self._get("/ping", {})
        lower = {name.lower(): value for name, value in headers.items()}
        return lower.get("x-influxdb-version", "unknown")

    def query(self, influxql: str) -> list[Series]:
        """The series of one InfluxQL statement.

        Raises InfluxError when the statement fails, the database is missing, or the answer was cut.
        """
        _, body = self._get("/query", {"db": self.db, "q": influxql, "epoch": "ns"})
        try:
            document = json.loads(body)
            results = document["results"]
        except (ValueError, KeyError, TypeError) as error:
            raise InfluxError(
                "influx-answer",
                f"{self.url} does not answer like InfluxDB",
                body[:200].decode("utf-8", errors="replace"),
                "check which service listens on that port",
            ) from error
        series: list[Series] = []
        for result in results:
            if "error" in result:
                raise self._not_answered(str(result["error"]))
            series.extend(result.get("series", []))
            if result.get("partial") or any(item.get("partial") for item in result.get("series", [])):
                raise InfluxError(
                    "influx-cut",
                    "InfluxDB cut its answer short",
                    "more than 10,000 rows of a series in one answer, or its max-row-limit is set",
                    "PQ_TELEMETRY_RATE_HZ of at most 100, and max-row-limit = 0",
                )
        return series

    def content(
        self, start_ns: int, end_ns: int, measurements: str = OWN_MEASUREMENTS, *, host: str | None = None
    ) -> dict[str, SeriesContent]:
        """Every point with start_ns <= time < end_ns (of one host, where given), by canonical series key."""
        whose = "" if host is None else f" AND {_identifier('host')} = {_literal(host)}"
        found: dict[str, SeriesContent] = {}
        for from_ns in range(start_ns, end_ns, PIECE_NS):
            span = f"time >= {from_ns} AND time < {min(from_ns + PIECE_NS, end_ns)}"
            for item in self.query(f"SELECT * FROM {measurements} WHERE {span}{whose} GROUP BY *"):
                content = found.setdefault(series_key(item["name"], tags_of(item)), SeriesContent())
                for time_ns, values in points(item):
                    content.add(time_ns, values)
        return found

    def count_by_series(self, start_ns: int, end_ns: int) -> dict[str, int]:
        """Number of points of each of the samplers' series with start_ns <= time < end_ns."""
        return {key: len(content.times) for key, content in self.content(start_ns, end_ns).items()}

    def values(self, series: str, start_ns: int, end_ns: int) -> list[tuple[int, dict[str, Scalar]]]:
        """Points of one series, given by its canonical key: (time_ns, fields that are present), by time."""
        # A series key is a line without fields: borrow the strict parser to take it apart.
        point = parse_line(f"{series} x=0i 0")
        where = "".join(f" AND {_identifier(key)} = {_literal(value)}" for key, value in point.tags)
        statement = (
            f"SELECT * FROM {_identifier(point.measurement)} "
            f"WHERE time >= {start_ns} AND time < {end_ns}{where} GROUP BY *"
        )
        rows: list[tuple[int, dict[str, Scalar]]] = []
        for item in self.query(statement):
            if tags_of(item) != point.tags:
                continue
            for time_ns, named in points(item):
                rows.append((time_ns, {key: value for key, value in named.items() if value is not None}))
        return sorted(rows, key=lambda row: row[0])


def _token(given: str | None) -> tuple[str | None, str | None]:
    """The token and where it is from: the caller's, INFLUXDB_TOKEN, or the one that the lab made for its own
    InfluxDB 2 (compose/lab.sh); (None, None) without any. A database that asks for none ignores it."""
    if given:
        return given, "the caller"
    if named := os.environ.get("INFLUXDB_TOKEN"):
        return named, "INFLUXDB_TOKEN"
    kept = project_root() / TOKEN_FILE
    try:
        made = kept.read_text(encoding="ascii").strip()
    except OSError:
        return None, None
    return (made, str(TOKEN_FILE)) if made else (None, None)


def _identifier(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def file_content(lines: Iterable[str]) -> dict[str, SeriesContent]:
    """What the telemetry lines say, by series; raises pqtelemetry's ParseError for a damaged line."""
    found: dict[str, SeriesContent] = {}
    for line in lines:
        if line.strip():
            point = parse_line(line)
            found.setdefault(point.series, SeriesContent()).add(point.time_ns, point.fields)
    return found


def compare(record: Mapping[str, SeriesContent], view: Mapping[str, SeriesContent]) -> list[SeriesComparison]:
    """One row a series of the record, and one for each series that only the view has."""
    rows: list[SeriesComparison] = []
    for key in sorted(record.keys() | view.keys()):
        ours, theirs = record.get(key, SeriesContent()), view.get(key, SeriesContent())
        differences = [
            f"times: {len(ours.times - theirs.times)} missing, {len(theirs.times - ours.times)} extra"
        ]
        if ours.times == theirs.times:
            differences = []
        for name in sorted(ours.fields.keys() | theirs.fields.keys()):
            left, right = ours.fields.get(name, {}), theirs.fields.get(name, {})
            if len(left) != len(right):
                differences.append(f"{name}: {len(left)} values in the file, {len(right)} in InfluxDB")
            elif left != right:
                unequal = len(left.items() ^ right.items()) - len(left.keys() ^ right.keys())
                differences.append(
                    f"{name}: {unequal // 2} values differ, "
                    f"sum {ours.total(name)!r} in the file, {theirs.total(name)!r} in InfluxDB"
                )
        rows.append(SeriesComparison(key, len(ours.times), len(theirs.times), tuple(differences)))
    return rows


def reconcile(lines: Iterable[str], view: InfluxView) -> list[SeriesComparison]:
    """Compare telemetry lines with the database, each host over exactly the span of its own lines.

    The samplers run on between cells and no two hosts tick at the same moment: over a common span one host's
    next tick would look like an extra point. Raises InfluxError when the database cannot be asked, and for
    lines that no sampler wrote (damaged, or without the tag host).
    """
    by_host: dict[str, dict[str, SeriesContent]] = {}
    try:
        contents = file_content(lines)
    except TelemetryError as error:
        raise _damaged(str(error)) from error
    for series, content in contents.items():
        host = _host(series)
        if host is None:
            raise _damaged(f"series {series} has no tag host")
        by_host.setdefault(host, {})[series] = content
    rows: list[SeriesComparison] = []
    for host, record in sorted(by_host.items()):
        start_ns = min(min(content.times) for content in record.values())
        end_ns = max(max(content.times) for content in record.values()) + 1
        seen = view.content(start_ns, end_ns, host=host)
        rows += compare(record, {key: c for key, c in seen.items() if not key.startswith(NOT_SAMPLED)})
    return rows


def reconcile_settled(
    lines: Iterable[str],
    view: InfluxView,
    *,
    timeout_s: float = 5.0,
    poll_s: float = 0.5,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[SeriesComparison]:
    """`reconcile`, asked again until all is equal or `timeout_s` is over: Telegraf writes once a second."""
    kept = list(lines)
    end = clock() + timeout_s
    while True:
        rows = reconcile(kept, view)
        if all(row.ok for row in rows) or clock() >= end:
            return rows
        sleep(poll_s)


def settling(
    view: InfluxView,
    *,
    timeout_s: float = 5.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[Iterable[str]], list[SeriesComparison]]:
    """`reconcile_settled` for the cells of one run, which wait `timeout_s` between them all: what Telegraf
    still held has arrived by then, and what a database lost when it was started again never will."""
    end: list[float] = []

    def compare_cell(lines: Iterable[str]) -> list[SeriesComparison]:
        if not end:
            end.append(clock() + timeout_s)
        left_s = max(0.0, end[0] - clock())
        return reconcile_settled(lines, view, timeout_s=left_s, sleep=sleep, clock=clock)

    return compare_cell


def _damaged(why: str) -> InfluxError:
    return InfluxError(
        "telemetry-damaged",
        "a telemetry line cannot be compared with InfluxDB",
        why,
        "look at the telemetry.*.lp files of that cell",
    )


def _host(series: str) -> str | None:
    return dict(parse_line(f"{series} x=0i 0").tags).get("host")
