"""The live page: progress, series, verdicts; in words what is missing; and when a part goes away."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chrome import Chrome

from pqbase.text import utc_text
from pqlab.campaign.store import Store
from pqlab.influx import InfluxError, InfluxView
from pqlab.live.server import LiveServer
from pqlab.live.snapshot import Snapshot

RUN_ID = "20260301T120000Z-ab12cd"


class StandIn(InfluxView):
    """Answers like the lab's database; `gone` makes it refuse."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9", "pqlab")
        self.gone = False

    def query(self, influxql: str) -> list[dict[str, Any]]:
        if self.gone:
            raise InfluxError("influx-unreachable", "InfluxDB cannot be reached", "refused", "make lab-up")
        now_ns = time.time_ns()
        points = [[now_ns - step * 2_000_000_000, 4.0 + step % 5] for step in range(60, 0, -1)]
        if '"pq_sensor"' in influxql:
            return [{"name": "pq_sensor", "tags": {"name": "thermal"}, "columns": ["time", "last"],
                     "values": [[now_ns, "no thermal zone"]]}]  # fmt: skip
        if '"pq_detector"' in influxql and "state" in influxql:
            return [{"name": "pq_detector", "tags": {"host": "drone", "model": "xgboost"},
                     "columns": ["time", "state", "attack", "degraded"],
                     "values": [[0, "ready", 1, 0]]}]  # fmt: skip
        if '"pq_temp"' in influxql or '"pq_power"' in influxql:
            return []
        return [
            {
                "name": "x",
                "tags": {"host": host, "model": "xgboost"},
                "columns": ["time", "mean"],
                "values": points,
            }
            for host in ("drone", "gcs")
        ]


ETA_S = 600.0
WRITTEN_AGO_S = 5.0


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[LiveServer, StandIn, Store]]:
    store = Store(tmp_path, RUN_ID)
    store.write("plan.json", {"cells": []})
    store.write_status(
        {"run_id": RUN_ID, "state": "running", "scenario": "smoke", "done": 3, "total": 15,
         "verdict_counts": {"pass": 3}, "eta_s": ETA_S, "error": None,
         "updated_utc": utc_text(time.time_ns() - int(WRITTEN_AGO_S * 1e9)),
         "current": {"suite_id": "cs-mlkem768-aesgcm-mldsa65", "condition": "baseline", "repetition": 1}}
    )  # fmt: skip
    store.lock()
    view = StandIn()
    server = LiveServer(0, Snapshot(tmp_path, view))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server, view, store
    server.shutdown()
    thread.join(5)
    server.server_close()
    store.unlock()


@pytest.mark.parametrize("width", [360, 1280])
def test_it_shows_the_campaign_and_says_what_is_missing(
    chrome: Chrome, live: tuple[LiveServer, StandIn, Store], width: int
) -> None:
    server, view, store = live
    asked_s = (
        time.monotonic()
    )  # the status was written a moment before, however long the browser takes to start
    tab = chrome.open(server.url, width)
    tab.wait("document.body.dataset.ready === 'yes'")
    text = tab.evaluate("document.body.innerText")
    assert "3 of 15 cells. Now cs-mlkem768-aesgcm-mldsa65" in text
    facts = tab.evaluate("document.getElementById('facts').innerText")
    minutes, seconds = map(int, re.search(r"left\s+(\d+):(\d\d)\b", facts).groups())
    gone_s = ETA_S - (60 * minutes + seconds)
    assert WRITTEN_AGO_S <= gone_s <= WRITTEN_AGO_S + time.monotonic() - asked_s + 5, (
        "it runs down by the clock"
    )
    assert "xgboost at the drone: ATTACK" in text
    assert tab.evaluate("document.getElementById('bar').getAttribute('aria-valuenow')") == "3"
    for name in ("link", "refused", "cpu", "machine", "detector"):
        assert tab.evaluate(f"document.querySelectorAll('#panel-{name} polyline').length") >= 2, name
    assert "no thermal zone" in tab.evaluate("document.getElementById('panel-temperature').innerText")
    assert "synthetic" in tab.evaluate("document.getElementById('panel-power').innerText")
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert tab.problems == []
    assert all(address.startswith((server.url, "data:")) for address in tab.requests)

    view.gone = True
    tab.wait("document.getElementById('note').textContent.includes('InfluxDB cannot be reached')")
    assert "3 of 15 cells" in tab.evaluate("document.getElementById('now').textContent")
    assert tab.evaluate("document.querySelectorAll('#panels polyline').length") == 0
    view.gone = False
    tab.wait("document.querySelectorAll('#panels polyline').length > 0")
    assert tab.evaluate("document.getElementById('note').textContent") == ""

    store.write_status({**store.read_status(), "done": 4})
    tab.wait("document.getElementById('now').textContent.startsWith('4 of 15')")
    store.unlock()
    tab.wait("document.getElementById('facts').innerText.includes('killed')")
    tab.close()


def test_it_answers_to_this_machine_alone(live: tuple[LiveServer, StandIn, Store]) -> None:
    server = live[0]
    assert server.server_address[0] == "127.0.0.1"
    with urllib.request.urlopen(server.url + "state.json", timeout=5) as reply:
        assert json.load(reply)["run"]["run_id"] == RUN_ID
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for address, host, code in (
        (server.url, "elsewhere.example", 403),
        (server.url + "../etc", "127.0.0.1", 404),
    ):
        request = urllib.request.Request(address, headers={"Host": host})
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request, timeout=5)
        assert error.value.code == code
        error.value.close()
