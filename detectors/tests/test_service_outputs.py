"""The feed's file, the verdict file and Telegraf: half documents, rotation, a listener that is away."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from service_kit import FIELDS, Host, Recorder

from pqdetect.errors import FeedError
from pqdetect.service.feed import FeedFile, parse
from pqdetect.service.outputs import FILE, Telegraf, VerdictFile
from pqdetect.service.serve import FeedSource, Told, cost, serve
from waiting import LIMIT_S, wait_for

DOCUMENT = {
    "schema": "pqtunnel/feed/v1", "role": "drone", "cell_id": "c1", "state": "running", "t_ns": 10**18,
    "mono_ns": 5 * 10**9, "boot": "b", "bin_ns": 20_000_000, "fields": list(FIELDS),
    "bins": [[50_000_000_000 - 1, [1, 2, 0]]], "complete_before": 50_000_000_000,
    "totals": {"rx_ok": 3}, "interface": {"rx_packets": 9}, "udp": {"in_errors": 1}, "first_bin": 7,
    "windows": [{"k": 5, "interface": {"rx_packets": 4}, "udp": None, "late_ns": 9}],
}  # fmt: skip


def test_a_document_is_read() -> None:
    feed = parse(json.dumps(DOCUMENT))
    assert feed.bins == {50_000_000_000 - 1: (1, 2, 0)}
    assert feed.moved == {5: {"if_rx_packets": 4}}
    assert feed.first_bin == 50_000_000_000 - 100
    assert feed.offset_ns == 10**18 - 5 * 10**9


@pytest.mark.parametrize(
    "change",
    [{"schema": "other"}, {"bin_ns": 1}, {"boot": None, "bins": [[1, [1]]]}, {"bins": "x"}, {"fields": None}],
)
def test_another_document_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FeedError):
        parse(json.dumps({**DOCUMENT, **change}))


def test_half_a_document_is_refused() -> None:
    with pytest.raises(FeedError):
        parse(json.dumps(DOCUMENT)[:-20])


def test_an_unchanged_file_is_not_parsed_again(tmp_path: Path) -> None:
    path = tmp_path / "feed.json"
    with pytest.raises(FeedError):
        FeedFile(path).read()
    path.write_text(json.dumps(DOCUMENT))
    file = FeedFile(path)
    first = file.read()
    assert file.read() is first
    newer = tmp_path / "next"
    newer.write_text(json.dumps({**DOCUMENT, "cell_id": "c2"}))
    os.utime(newer, ns=(1, 1))
    newer.replace(path)
    assert file.read().cell_id == "c2"


def test_the_verdict_file_is_turned_over(tmp_path: Path) -> None:
    lines = Host().run(6.0)
    file = VerdictFile(tmp_path, max_bytes=1500)
    for line in lines:
        file.write([line])
    file.close()
    kept = [path.read_text().splitlines() for path in (tmp_path / f"{FILE}.1", tmp_path / FILE)]
    assert all(kept[0])
    told = [json.loads(row)["k"] for rows in kept for row in rows]
    assert told == [line.k for line in lines][-len(told) :]


def test_telegraf_away_costs_nothing_but_the_view() -> None:
    now = [0.0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = taken.getsockname()
    sink = Telegraf(address, clock_s=lambda: now[0])
    lines = Host().run(1.2)
    sink.write(lines)
    assert sink.dropped_count == 2
    with socket.create_server(address) as server:
        sink.write(lines)  # too early for another attempt
        assert sink.dropped_count == 4
        now[0] = 6.0
        sink.write(lines)
        assert sink.dropped_count == 4
        peer, _ = server.accept()
        with peer:
            got = peer.recv(65536).decode()
    sink.close()
    assert got.count("\n") == 2
    assert got.startswith(
        'pq_detector,detector=test,host=drone,model=recorder,ring=lab state="ready",ready=1i,'
    )
    assert ",attack=0i," in got


def test_no_signal_waits_for_a_lock() -> None:
    """A handler runs in the thread that it interrupts, which may hold whatever it holds just then."""
    told = Told()
    for flag in (told.end, told.forget, told.mark):
        assert not any(hasattr(value, "acquire") or hasattr(value, "notify") for value in vars(flag).values())
        assert not flag.wait(0.01)
        flag.set()
        assert flag.is_set() and flag.wait(60.0)
        flag.clear()
        assert not flag.is_set()


def test_the_service_writes_until_it_is_told_to_end(tmp_path: Path) -> None:
    feed, verdicts = tmp_path / "feed.json", tmp_path / "v"
    told = Told()
    watcher = Recorder()
    file = VerdictFile(verdicts)
    thread = threading.Thread(target=serve, args=("t", watcher, FeedSource(feed), file, Telegraf(None), told))
    thread.start()
    try:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and len(watcher.taken) < 2:
            now = time.time_ns()
            complete = now // 20_000_000
            document = {
                **DOCUMENT,
                "t_ns": now,
                "mono_ns": time.monotonic_ns(),
                "complete_before": complete,
                "bins": [[number, [1, 2, 0]] for number in range(complete - 95, complete)],
            }
            (tmp_path / "new").write_text(json.dumps(document))
            (tmp_path / "new").replace(feed)
            time.sleep(0.05)
        told.forget.set()
        told.mark.set()
        wait_for(lambda: watcher.forgotten == 1 and len(watcher.marks) == 2)
    finally:
        told.end.set()
        thread.join(LIMIT_S)
        file.close()
    rows = [json.loads(line) for line in (verdicts / FILE).read_text().splitlines()]
    judged = [row for row in rows if row["state"] == "ready"]
    assert len(judged) >= 2
    assert judged[0]["packets_seen"] == 90
    assert watcher.forgotten == 1
    assert watcher.marks == [0, 0]  # of the emptied history, by either
    assert cost().rss_bytes > 1_000_000
