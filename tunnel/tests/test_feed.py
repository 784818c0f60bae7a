"""The feed: what is told when, what the host counts, and that nothing of it exists without being asked
for."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from endpoint_kit import Lab, lab

from pqbase.patience import patiently
from pqtunnel.agent import feed, hostnet
from pqtunnel.agent.feed import (
    BIN_NS,
    LAG_BINS,
    MAX_LINES,
    SHOWN_BINS,
    WINDOW_BINS,
    FeedCell,
    Windows,
)
from pqtunnel.rpc import fetch_all
from waiting import wait_until

WINDOW_NS = BIN_NS * WINDOW_BINS
FIRST = 3000
DEV = """Inter-|   Receive
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0
  eth1:    5050      47    1    2    3     0          0         0     6060      58    0    0    0     0
"""
SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
Udp: 100 7 5 90 4 0
"""


def told(cell: FeedCell) -> list[Any]:
    return [json.loads(line) for line in cell.lines[1:]]


def window(k: int) -> dict[str, Any]:
    return {"k": k, "interface": None, "udp": None, "late_ns": 5}


def test_a_bin_is_told_once_and_when_it_is_over() -> None:
    cell = FeedCell({"fields": ["a", "b"]}, FIRST)
    cell.take([(FIRST - 1, [9, 9]), (FIRST + 1, [1, 2]), (FIRST + 6, [3, 4])], FIRST + 8, [])
    assert told(cell) == [[FIRST + 1, [1, 2]]] and cell.complete_before == FIRST + 8 - LAG_BINS
    assert cell.read_from == FIRST + 1
    cell.take([(FIRST + 1, [1, 2]), (FIRST + 6, [3, 5])], FIRST + 13, [])
    assert told(cell) == [[FIRST + 1, [1, 2]], [FIRST + 6, [3, 5]]]
    assert cell.late_count == 0


def test_what_comes_too_late_is_counted() -> None:
    cell = FeedCell({}, FIRST)
    cell.take([(FIRST + 1, [1, 2])], FIRST + 10, [])
    cell.take([(FIRST + 1, [2, 4]), (FIRST + 3, [1, 1])], FIRST + 12, [])
    assert cell.late_count == 3 + 2
    assert told(cell)[-1] == [FIRST + 3, [1, 1]], "a straggler's bin is told all the same"
    cell.take([(FIRST + 3, [1, 1])], FIRST + 12, [])
    assert cell.late_count == 5


def test_a_window_is_told_after_its_bins_and_only_if_whole() -> None:
    cell = FeedCell({}, FIRST)
    k = FIRST // WINDOW_BINS
    cell.take([(FIRST + 29, [1])], FIRST + 30, [window(k - 1), window(k)])
    assert told(cell) == []
    cell.take([(FIRST + 29, [1])], FIRST + 35, [])
    assert told(cell) == [[FIRST + 29, [1]], window(k)]


def test_the_file_shows_two_seconds_and_the_stream_everything() -> None:
    cell = FeedCell({}, FIRST)
    for number in range(FIRST, FIRST + 500):
        cell.take([(number, [1])], number + LAG_BINS + 1, [])
    assert len(told(cell)) == 500
    shown = json.loads(f"[{cell.shown()[0]}]")
    assert [row[0] for row in shown] == list(range(FIRST + 500 - SHOWN_BINS, FIRST + 500))


def test_lines_are_bounded_and_what_is_cut_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pqtunnel.agent.feed.MAX_LINES", 10)
    cell = FeedCell({}, FIRST)
    cell.take([(FIRST + place, [1]) for place in range(20)], FIRST + 100, [])
    assert len(cell.lines) == 10 and cell.cut == 11
    assert MAX_LINES > 50 * 3600 * 2


def test_host_counters_are_differences_between_window_ends() -> None:
    values = iter([{"n": 5}, {"n": 7}, {"n": 30}, {"n": 31}, {"n": 29}, {"n": 60}])
    windows = Windows(lambda: (next(values), None))
    start = 1000 * WINDOW_NS
    assert windows.tick(start + 300_000_000) == []
    assert windows.tick(start + WINDOW_NS + 1_000_000) == [], "the first was not seen from its beginning"
    assert windows.tick(start + WINDOW_NS + 100_000_000) == []
    (line,) = windows.tick(start + 2 * WINDOW_NS + 2_000_000)
    assert line == {"k": 1001, "interface": {"n": 31 - 7}, "udp": None, "late_ns": 2_000_000}
    (line,) = windows.tick(start + 3 * WINDOW_NS)
    assert line["interface"] is None, "a counter that fell has started anew"
    assert windows.tick(start + 6 * WINDOW_NS) == [], "two ends at once: nobody read between them"


def test_counters_of_interface_and_udp(tmp_path: Path) -> None:
    (tmp_path / "dev").write_text(DEV)
    (tmp_path / "snmp").write_text(SNMP)
    assert hostnet.interface_counters("eth1", tmp_path) == {
        "rx_bytes": 5050,
        "rx_packets": 47,
        "rx_dropped": 2,
        "tx_bytes": 6060,
        "tx_packets": 58,
    }
    assert hostnet.udp_counters(tmp_path) == {"in_errors": 5, "no_ports": 7, "rcvbuf_errors": 4}
    with pytest.raises(hostnet.HostNetError, match="no interface eth9"):
        hostnet.interface_counters("eth9", tmp_path)
    with pytest.raises(hostnet.HostNetError, match="cannot be read"):
        hostnet.udp_counters(tmp_path / "nowhere")
    (tmp_path / "snmp").write_text("Ip: 1\n")
    with pytest.raises(hostnet.HostNetError, match="nothing of UDP"):
        hostnet.udp_counters(tmp_path)


@pytest.mark.linux("interface counters are read on Linux alone")
def test_the_interface_towards_a_peer() -> None:
    assert hostnet.interface_towards("127.0.0.1") == "lo"
    assert hostnet.interface_counters("lo")["rx_packets"] >= 0
    with pytest.raises(hostnet.HostNetError, match="PQ_PEER"):
        hostnet.interface_towards("")


# ---------------------------------------------------------------------- on a real sealed link


def feed_threads() -> int:
    return sum(thread.name == "feed" for thread in threading.enumerate())


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(patiently(path.read_text))
    return found


def columns(fields: list[str], rows: list[list[Any]]) -> dict[str, Counter[int]]:
    """Counts by field and window."""
    found: dict[str, Counter[int]] = {name: Counter() for name in fields}
    for number, counts in rows:
        for name, count in zip(fields, counts, strict=True):
            found[name][number // WINDOW_BINS] += count
    return found


@pytest.fixture
def fed(key_folder: Path, tmp_path: Path) -> Any:
    pytest.importorskip("pq_core", reason="the native core's wheel is not installed here")
    folder = tmp_path / "feed"
    folder.mkdir()
    with lab(key_folder, tmp_path, plane="native", drone={"PQ_FEED": str(folder)}) as made:
        yield made, folder / "feed.json"


@pytest.mark.native
def test_without_being_asked_for_there_is_no_feed(fed: tuple[Lab, Path]) -> None:
    pair, path = fed
    pair.prepare()
    assert pair.handshakes(1)["completed"] == 1
    time.sleep(0.25)
    assert feed_threads() == 0 and not path.exists()
    page = pair.drone.call("fetch", cell_id="cell-1", stream="bins")
    assert page["lines"] == [] and page["reason"] == "the cell was prepared without a feed"
    pair.stop()


@pytest.mark.native
def test_attackers_datagrams_show_within_two_windows_and_plaintext_does_not(
    fed: tuple[Lab, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, path = fed
    # A data thread that is stalled books late, and so looks a reader: both get seconds more.
    more = 100
    monkeypatch.setattr(feed, "LAG_BINS", LAG_BINS + more)
    monkeypatch.setattr(feed, "SHOWN_BINS", SHOWN_BINS + 30 * more)
    pair.flowing(feed=True)
    sealed = pair.drone.agent.endpoint.dataplane.sealed_address
    marker = b"PLAINTEXT-MARKER"
    for _ in range(20):
        pair.drone.plain.send(marker * 3)
        pair.gcs.plain.receive()
        pair.gcs.plain.send(marker * 2)
        pair.drone.plain.receive()
    wait_until(lambda: path.exists() and read(path)["complete_before"] > read(path)["first_bin"] + 30)
    # Captured from the gcs's own session: a packet that the drone has opened comes again.
    cell: Any = pair.gcs.agent.endpoint.dataplane
    captured, _, _ = cell._cell.session.seal_data(b"once")
    late, newer = (cell._cell.session.seal_data(b"turned")[0] for _ in range(2))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        start_ns = time.time_ns()
        for datagram, count in (
            (captured, 6),  # once authentic, once a second copy, four times a replay
            (newer, 1),
            (late, 1),  # what the one before it had skipped
            (b"\xfd" + os.urandom(60), 7),  # foreign
            (captured[:4] + b"\x7f\0\0\1" + os.urandom(40), 8),  # forged: a header to come, no key's tag
            (b"\x10\0\0\1" + os.urandom(40), 9),  # forged: nobody's index
        ):
            for _ in range(count):
                attacker.sendto(datagram, sealed)
        first, last = start_ns // WINDOW_NS, time.time_ns() // WINDOW_NS + 1
        lags_ns: list[int] = []

        def is_told() -> bool:
            """Also notes how far behind its own time each file is."""
            shown = read(path)
            lags_ns.append(shown["t_ns"] - (shown["complete_before"] + more) * BIN_NS)
            return bool(shown["complete_before"] >= (last + 1) * WINDOW_BINS)

        assert wait_until(is_told)
        shown = read(path)
    assert min(lags_ns) <= 2 * WINDOW_NS, "two windows, and what telling them takes"
    by_name = columns(shown["fields"], shown["bins"])
    within = {name: sum(counts[k] for k in range(first, last + 1)) for name, counts in by_name.items()}
    assert (within["duplicate"], within["replay"], within["bad_header"]) == (1, 4, 7)
    assert (within["auth_failed"], within["unknown_index"]) == (8, 9)
    assert (within["sequence_gap"], within["rx_filled"]) == (1, 1)
    assert within["new_source"] == 3, "authentic data from the attacker's address"
    assert shown["bin_ns"] == BIN_NS and shown["late_count"] == 0 and shown["state"] == "running"
    assert shown["totals"]["bad_header"] == 7
    assert shown["interface_name"] == (None if sys.platform == "win32" else "lo")
    assert marker.decode() not in path.read_text()

    pair.shut()
    counted, _ = pair.stop()
    lines = [json.loads(line) for line in fetch_all(pair.drone.rpc, "cell-1", "bins")]
    header, rest = lines[0], lines[1:]
    assert header["schema"] == shown["schema"] == "pqtunnel/feed/v1"
    assert header["boot"] == shown["boot"] and header["fields"] == shown["fields"]
    bins = [line for line in rest if isinstance(line, list)]
    total = {name: sum(found.values()) for name, found in columns(header["fields"], bins).items()}
    assert total["rx_bytes_sq"] >= total["rx_bytes"] ** 2 / total["rx_datagrams"]
    for name in ("bad_header", "unknown_index", "auth_failed", "duplicate", "replay", "old_epoch"):
        assert total[name] == counted[name], name
    assert total["rx_datagrams"] == sum(
        total[name]
        for name in (
            "rx_data",
            "rx_keepalive",
            "rx_control",
            "bad_header",
            "unknown_index",
            "auth_failed",
            "duplicate",
            "replay",
            "old_epoch",
        )
    )
    windows = [line for line in rest if isinstance(line, dict)]
    ks = [line["k"] for line in windows]
    assert ks == list(range(ks[0], ks[0] + len(ks))) and len(ks) >= 2
    at_attack = [line for line in windows if first <= line["k"] <= last]
    if sys.platform == "win32":
        told_of = {(line["interface"], line["udp"]) for line in at_attack}
        assert told_of == {(None, None)}, "counters are read on Linux alone"
    else:
        assert sum(line["interface"]["rx_packets"] for line in at_attack) >= 29
        assert sum(line["udp"]["in_errors"] for line in at_attack) == 0
    assert feed_threads() == 0
    stale = read(path)["t_ns"]
    time.sleep(0.25)
    assert read(path)["t_ns"] == stale, "after the cell the file stays as it was"


@pytest.mark.native
def test_the_file_is_written_ten_times_a_second_and_tells_whose_it_is(fed: tuple[Lab, Path]) -> None:
    pair, path = fed
    pair.prepare(feed=True, cell="cell-9")
    assert read(path)["cell_id"] == "cell-9", "at once: who marks a detector now means this cell"
    assert wait_until(path.exists)
    stamps: list[int] = []

    def seconds() -> list[list[int]]:
        """What was written in each second that began with a file and is over."""
        stamp = read(path)["t_ns"]
        if stamp not in stamps:
            stamps.append(stamp)
        long_ns = 1_050_000_000
        begun = [first for first in stamps if first + long_ns < stamp]
        return [[stamp for stamp in stamps if first <= stamp < first + long_ns] for first in begun]

    def on_time(within: list[int]) -> bool:
        return sum(stamp % 100_000_000 < 50_000_000 for stamp in within) > len(within) / 2

    # A busy machine misses some, and wakes late for some: of the seconds while this test looks one is quiet.
    quiet = wait_until(lambda: any(len(within) >= 6 and on_time(within) for within in seconds()))
    assert quiet, "ten times a second, on the tenths of realtime"
    assert max(map(len, seconds())) <= 12
    shown = read(path)
    assert shown["cell_id"] == "cell-9" and shown["role"] == "drone"
    assert shown["mono_ns"] <= time.monotonic_ns()
    for side in (pair.gcs, pair.drone):
        side.call("stop", cell_id="cell-9")


@pytest.mark.native
def test_a_folder_that_cannot_be_written_is_said_once(key_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pq_core", reason="the native core's wheel is not installed here")
    gone = tmp_path / "gone"
    with lab(key_folder, tmp_path, plane="native", drone={"PQ_FEED": str(gone)}) as pair:
        pair.prepare(feed=True)

        def said() -> int:
            log = fetch_all(pair.drone.rpc, "cell-1", "log")
            return sum("feed.json cannot be written" in line for line in log)

        assert wait_until(lambda: said() > 0)
        time.sleep(0.3)
        assert said() == 1
        pair.stop()
