"""The InfluxDB client against a small HTTP server that answers as InfluxDB does; mutants must be noticed."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest

from pqevidence.errors import LabError
from pqlab.influx import (
    PIECE_NS,
    InfluxError,
    InfluxView,
    compare,
    file_content,
    reconcile,
    reconcile_settled,
    settling,
)
from pqtelemetry.line import Sample, encode
from pqtelemetry.slice import Point, parse_line
from waiting import free_port

BASE_NS = 1_700_000_000_000_000_000
TOKEN = "a-token"


def telemetry(host: str = "drone", count: int = 30) -> list[str]:
    """A short record: every field type, one field missing in some points, one tag with a blank."""
    lines: list[str] = []
    for index in range(count):
        time_ns = BASE_NS + index * 100_000_000
        tags = (("host", host), ("ring", "lab"))
        cpu: dict[str, int | float | bool | str] = {
            "system_pct": index * 0.1,
            "process_cpu_ns": 2**60 + index,
        }
        if index:
            cpu["process_pct"] = 5.0
        lines.append(encode(Sample("pq_cpu", cpu, tags), time_ns))
        lines.append(encode(Sample("pq_temp", {"temperature_c": 40.5}, (*tags, ("zone", "CPU 0"))), time_ns))
    lines.append(encode(Sample("pq_sensor", {"available": False, "reason": "none"}, tags), BASE_NS))
    return lines


class FakeInflux:
    """Holds points and answers the statements the client sends."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.queries: list[str] = []
        self.token: str | None = None
        self.database = "pqlab"
        self.override: Callable[[], tuple[int, bytes]] | None = None
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = fake.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("X-Influxdb-Version", "1.6.7")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        if path.startswith("/ping"):
            return 204, b""
        if self.token is not None:
            expected = "Basic " + base64.b64encode(f"anyone:{self.token}".encode()).decode()
            if authorization != expected:
                return 401, b'{"error":"unauthorized access"}'
        if self.override:
            return self.override()
        query = parse_qs(urlparse(path).query)
        statement = query["q"][0]
        assert query["epoch"] == ["ns"]
        self.queries.append(statement)
        if query["db"] != [self.database]:
            return 200, b'{"results":[{"statement_id":0,"error":"database not found: other"}]}'
        return 200, json.dumps({"results": [{"statement_id": 0, "series": self.select(statement)}]}).encode()

    def select(self, statement: str) -> list[dict[str, object]]:
        found = re.fullmatch(
            r'SELECT \* FROM (/\^pq_/|"[^"]+") WHERE time >= (\d+) AND time < (\d+)(.*) GROUP BY \*',
            statement,
        )
        assert found, statement
        source, start_ns, end_ns, where = found[1], int(found[2]), int(found[3]), found[4]
        tags = dict(re.findall(r""" AND "([^"]+)" = '([^']+)'""", where))
        chosen = [
            point
            for point in self.points
            if (
                point.measurement.startswith("pq_")
                if source == "/^pq_/"
                else f'"{point.measurement}"' == source
            )
            and start_ns <= point.time_ns < end_ns
            and tags.items() <= dict(point.tags).items()
        ]
        # As InfluxDB: one object a series, all fields of the measurement as columns, null where absent,
        # a tag key of another series of the measurement present with an empty value.
        columns: dict[str, list[str]] = {}
        tag_keys: dict[str, set[str]] = {}
        for point in chosen:
            for key in point.fields:
                if key not in columns.setdefault(point.measurement, []):
                    columns[point.measurement].append(key)
            tag_keys.setdefault(point.measurement, set()).update(key for key, _ in point.tags)
        series: dict[str, dict[str, object]] = {}
        for point in chosen:
            names = columns[point.measurement]
            item = series.setdefault(
                point.series,
                {
                    "name": point.measurement,
                    "tags": dict.fromkeys(tag_keys[point.measurement], "") | dict(point.tags),
                    "columns": ["time", *names],
                    "values": [],
                },
            )
            row = [point.time_ns, *(point.fields.get(name) for name in names)]
            # InfluxDB prints 5.0 as 5
            values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in row]
            rows = item["values"]
            assert isinstance(rows, list)
            rows.append(values)
        return list(series.values())

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def influx() -> Iterator[FakeInflux]:
    fake = FakeInflux()
    yield fake
    fake.close()


def load(influx: FakeInflux, lines: list[str]) -> InfluxView:
    influx.points = [parse_line(line) for line in lines]
    return InfluxView(influx.url, "pqlab")


def test_ping_tells_the_version(influx: FakeInflux) -> None:
    assert InfluxView(influx.url + "/", "pqlab").ping() == "1.6.7"


def test_counts_by_series_over_a_half_open_span(influx: FakeInflux) -> None:
    view = load(influx, telemetry() + telemetry("gcs", 10))
    assert view.count_by_series(BASE_NS, BASE_NS + 10**12) == {
        "pq_cpu,host=drone,ring=lab": 30,
        "pq_temp,host=drone,ring=lab,zone=CPU\\ 0": 30,
        "pq_sensor,host=drone,ring=lab": 1,
        "pq_cpu,host=gcs,ring=lab": 10,
        "pq_temp,host=gcs,ring=lab,zone=CPU\\ 0": 10,
        "pq_sensor,host=gcs,ring=lab": 1,
    }
    counts = view.count_by_series(BASE_NS + 100_000_000, BASE_NS + 300_000_000)
    assert counts["pq_cpu,host=drone,ring=lab"] == 2


def test_values_of_one_series(influx: FakeInflux) -> None:
    view = load(influx, telemetry(count=3) + telemetry("gcs", 3))
    rows = view.values("pq_cpu,host=drone,ring=lab", BASE_NS, BASE_NS + 10**12)
    assert [time_ns - BASE_NS for time_ns, _ in rows] == [0, 100_000_000, 200_000_000]
    assert rows[0][1] == {"system_pct": 0, "process_cpu_ns": 2**60}
    assert rows[2][1] == {"system_pct": 0.2, "process_cpu_ns": 2**60 + 2, "process_pct": 5}


def test_equal_contents_reconcile_in_every_series(influx: FakeInflux) -> None:
    lines = telemetry()
    rows = reconcile(lines, load(influx, [*lines, *telemetry("gcs")]))
    assert {row.series for row in rows} == {parse_line(line).series for line in lines}
    assert all(row.ok for row in rows)
    assert {row.file_count for row in rows} == {1, 30}
    assert rows[0].as_dict()["file_count"] == rows[0].influx_count


@pytest.mark.parametrize(
    "mutate", ["lose", "extra", "value", "integer", "field", "shift", "swap-host", "series", "swap"]
)
def test_every_mutant_of_the_database_is_noticed(influx: FakeInflux, mutate: str) -> None:
    lines = telemetry()
    other = list(lines)
    point = parse_line(other[4])
    assert point.measurement == "pq_cpu"
    fields, tags, time_ns = dict(point.fields), point.tags, point.time_ns
    if mutate == "value":
        fields["system_pct"] = 0.2 + 1e-12
    elif mutate == "integer":
        fields["process_cpu_ns"] = 2**60 + 3
    elif mutate == "field":
        del fields["process_pct"]
    elif mutate == "shift":
        time_ns += 1
    elif mutate == "swap-host":
        tags = (("host", "gcs"), ("ring", "lab"))
    elif mutate == "series":
        tags = (("host", "drone"), ("ring", "hardware"))
    other[4] = encode(Sample(point.measurement, fields, tags), time_ns)
    if mutate == "swap":
        # Same points, same sums: two values exchanged in time.
        later = parse_line(other[6])
        other[4] = encode(Sample(point.measurement, later.fields, tags), time_ns)
        other[6] = encode(Sample(point.measurement, fields, tags), later.time_ns)
    elif mutate == "lose":
        del other[4]
    elif mutate == "extra":
        other.append(encode(Sample("pq_cpu", fields, tags), time_ns + 5))
    rows = reconcile(lines, load(influx, other))
    assert "pq_cpu,host=drone,ring=lab" in [row.series for row in rows if not row.ok]
    # The same through the pure function, other way round.
    assert any(not row.ok for row in compare(file_content(other), file_content(lines)))


def test_a_difference_names_the_field_and_both_values(influx: FakeInflux) -> None:
    lines = telemetry(count=2)
    changed = [line.replace("temperature_c=40.5", "temperature_c=41.5") for line in lines]
    bad = [row for row in reconcile(lines, load(influx, changed)) if not row.ok]
    assert [row.differences for row in bad] == [
        ("temperature_c: 2 values differ, sum 81.0 in the file, 83.0 in InfluxDB",)
    ]


def test_each_host_is_compared_over_its_own_span(influx: FakeInflux) -> None:
    """Samplers are resident: what they wrote just before and after a cell's slice is no difference."""
    drone, gcs = telemetry(), telemetry("gcs")
    view = load(influx, drone + gcs)
    rows = reconcile(drone[4:-9] + gcs[8:-5], view)
    assert all(row.ok for row in rows), rows
    assert {row.series.split("host=")[1][:3] for row in rows} == {"dro", "gcs"}


@pytest.mark.parametrize("line", [encode(Sample("pq_cpu", {"f": 1}), BASE_NS), "pq_cpu,host=drone f="])
def test_a_line_no_sampler_wrote_is_an_error_of_the_lab(influx: FakeInflux, line: str) -> None:
    with pytest.raises(InfluxError) as caught:
        reconcile([*telemetry(), line], load(influx, []))
    assert caught.value.code == "telemetry-damaged"


def test_no_lines_no_rows(influx: FakeInflux) -> None:
    assert reconcile(["", "\n"], load(influx, [])) == []


def test_settling_waits_for_telegrafs_next_flush(influx: FakeInflux) -> None:
    lines = telemetry()
    view = load(influx, lines[:10])
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] >= 1.0:
            influx.points = [parse_line(line) for line in lines]

    rows = reconcile_settled(lines, view, timeout_s=5.0, sleep=sleep, clock=lambda: now[0])
    assert all(row.ok for row in rows)
    assert now[0] == 1.0
    rows = reconcile_settled(
        [*lines, *telemetry("gcs")], view, timeout_s=5.0, sleep=sleep, clock=lambda: now[0]
    )
    assert not all(row.ok for row in rows)
    assert now[0] == 6.0


def test_a_run_waits_once_for_what_never_comes(influx: FakeInflux) -> None:
    """A database that was started again has lost every cell's points: one wait, not one a cell."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    compare_cell = settling(InfluxView(influx.url, "pqlab"), timeout_s=5.0, sleep=sleep, clock=lambda: now[0])
    for _ in range(4):
        assert not all(row.ok for row in compare_cell(telemetry()))
    assert now[0] == 5.0


def test_nobody_listens() -> None:
    port = free_port()
    with pytest.raises(InfluxError) as caught:
        InfluxView(f"http://127.0.0.1:{port}", "pqlab", timeout_s=1).ping()
    assert isinstance(caught.value, LabError)
    assert caught.value.code == "influx-unreachable"
    assert caught.value.exit_code == 4
    assert "make lab-up" in caught.value.hint


def test_the_token_is_the_password(influx: FakeInflux, monkeypatch: pytest.MonkeyPatch) -> None:
    influx.token = TOKEN
    influx.points = [parse_line(line) for line in telemetry(count=1)]
    right = InfluxView(influx.url, "pqlab", user="anyone", token=TOKEN)
    assert len(right.count_by_series(BASE_NS, BASE_NS + 1)) == 3
    for wrong in (None, "another"):
        with pytest.raises(InfluxError) as caught:
            InfluxView(influx.url, "pqlab", user="anyone", token=wrong).count_by_series(0, 1)
        assert caught.value.code == "influx-refused"
        assert TOKEN not in caught.value.text()
    monkeypatch.setenv("INFLUXDB_USER", "anyone")
    monkeypatch.setenv("INFLUXDB_TOKEN", TOKEN)
    assert len(InfluxView(influx.url, "pqlab").count_by_series(BASE_NS, BASE_NS + 1)) == 3


def test_a_wrong_token_is_named_by_where_it_came_from(
    influx: FakeInflux, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    influx.token = TOKEN
    monkeypatch.setattr("pqlab.influx.project_root", lambda: tmp_path)
    monkeypatch.delenv("INFLUXDB_TOKEN", raising=False)

    def told() -> str:
        with pytest.raises(InfluxError) as caught:
            InfluxView(influx.url, "pqlab", user="anyone").count_by_series(0, 1)
        return caught.value.what

    assert told().endswith("wants a token, and there is none")
    monkeypatch.setenv("INFLUXDB_TOKEN", "another")
    assert told().endswith("refuses the token of INFLUXDB_TOKEN")
    monkeypatch.delenv("INFLUXDB_TOKEN")
    kept = tmp_path / "keys" / "influxdb" / "token.secret"
    kept.parent.mkdir(parents=True)
    kept.write_text("yet another\n")
    assert told().endswith("refuses the token of keys/influxdb/token.secret")
    kept.write_text(f"{TOKEN}\n")
    assert InfluxView(influx.url, "pqlab", user="anyone").count_by_series(0, 1) == {}


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, b'{"code":"not found","message":"no dbrp mapping found"}', "influx-http"),
        (500, b"oops", "influx-http"),
        (200, b"<html>a web server</html>", "influx-answer"),
        (200, b'{"message":"not influx"}', "influx-answer"),
        (200, b'{"results":[{"error":"parse error"}]}', "influx-query"),
        (
            200,
            b'{"results":[{"series":[{"name":"m","columns":[],"values":[],"partial":true}]}]}',
            "influx-cut",
        ),
    ],
)
def test_strange_answers_have_names(influx: FakeInflux, status: int, body: bytes, code: str) -> None:
    influx.override = lambda: (status, body)
    with pytest.raises(InfluxError) as caught:
        InfluxView(influx.url, "pqlab").content(0, 1)
    assert caught.value.code == code
    assert caught.value.hint


def test_a_database_that_is_not_there(influx: FakeInflux) -> None:
    with pytest.raises(InfluxError, match="has no database 'other'") as caught:
        InfluxView(influx.url, "other").content(0, 1)
    assert caught.value.code == "influx-database"
    assert "make lab-down lab-up" in caught.value.hint


def test_a_long_span_is_asked_for_in_pieces(influx: FakeInflux) -> None:
    """InfluxDB ran out of its gigabyte over the answer for one session of an hour."""
    step_ns, tags = 7_000_000_000, (("host", "drone"), ("ring", "lab"))
    times = range(BASE_NS, BASE_NS + 3_600_000_000_000, step_ns)
    lines = [encode(Sample("pq_cpu", {"system_pct": 1.5}, tags), time_ns) for time_ns in times]
    view = load(influx, lines)
    assert all(row.ok for row in reconcile(lines, view))
    spans = [tuple(map(int, re.findall(r"time (?:>=|<) (\d+)", statement))) for statement in influx.queries]
    assert len(spans) == 60 and max(end - begin for begin, end in spans) <= PIECE_NS
    assert [begin for begin, _ in spans[1:]] == [end for _, end in spans[:-1]], "no gap, nothing twice"
    influx.points.pop(300)
    assert not all(row.ok for row in reconcile(lines, view)), "a point that is missing in the middle"


def test_an_answer_that_breaks_off_is_an_error_of_the_lab() -> None:
    begun = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"res'
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(begun)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(InfluxError) as caught:
            InfluxView(f"http://127.0.0.1:{listener.getsockname()[1]}", "pqlab").content(0, 1)
        thread.join()
    assert caught.value.code == "influx-broke-off" and caught.value.hint
