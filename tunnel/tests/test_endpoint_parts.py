"""Parts of the endpoint on their own: ledger, counters, journal, stream, configuration, telemetry pages."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pqspec.shell import timestamps
from pqspec.shell.digest import digest
from pqspec.shell.ledger import HEADER, Ledger
from pqspec.shell.stream import FrameStream
from pqtunnel.agent.lineblock import LineBlock
from pqtunnel.agent.telemetry import _lines_between
from pqtunnel.config import ConfigError, EndpointConfig, parse_address
from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.endpoint.journal import Journal
from pqtunnel.errors import ConnectionLostError
from waiting import LIMIT_S, wait_until

ROW = st.tuples(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(24, 65_507),
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    st.integers(0, 2),
)


@given(sent=st.lists(ROW, max_size=20), received=st.lists(ROW, max_size=20), page=st.integers(1, 7))
def test_ledger_pages_join_to_the_whole(
    sent: list[tuple[int, ...]], received: list[tuple[int, ...]], page: int
) -> None:
    ledger = Ledger()
    for row in sent:
        ledger.tx.add(*row)  # type: ignore[arg-type]
    for row in received:
        ledger.rx.add(*row)  # type: ignore[arg-type]
    names = ["traffic", "bulk"]
    lines: list[str] = []
    while len(lines) < ledger.line_count():
        more = ledger.lines(names, len(lines), page)
        assert 0 < len(more) <= page
        lines += more
    assert lines[0] == HEADER
    expected = []
    for direction, rows in (("tx", sent), ("rx", received)):
        for epoch, sequence, size, t_in, t_out, place in rows:
            window = names[max(place, 1) - 1]
            expected.append(f"{direction},{epoch},{sequence},{size},{t_in},{t_out},{window}")
    assert lines[1:] == expected


@given(st.lists(st.one_of(st.sampled_from(["rx_ok", "tx_data", "gated"]), st.just("window")), max_size=60))
def test_windows_add_up_to_the_totals(steps: list[str]) -> None:
    counters = CellCounters()
    opened = 0
    for step in steps:
        if step == "window":
            counters.open_window(f"w{opened}")
            opened += 1
        else:
            counters.data[step] += 1
            counters.data["digest_tx"] += 0xFFFF_FFFF_FFFF_FFF1
    shown = counters.snapshot()
    if opened:
        for name in ("rx_ok", "tx_data", "gated"):
            assert sum(window[name] for window in shown["windows"].values()) == shown[name]
        digests = sum(int(window["digest_tx"], 16) for window in shown["windows"].values())
        assert digests % 2**64 == int(shown["digest_tx"], 16)
    else:
        assert shown["windows"] == {}
    json.dumps(shown)


def test_digest_is_xxh3_seeded_with_the_sequence() -> None:
    """The empty input's value is that of the xxHash project's own check; two packets that swapped their
    sequences, a flipped bit and a lost byte do not go unseen."""
    assert digest(0, b"") == 0x2D06800538D394C2
    one, two = bytes(64), bytes(63) + b"\x01"
    assert len({digest(1, one), digest(2, one), digest(1, two), digest(1, one[:-1])}) == 4
    assert (digest(1, one) + digest(2, two)) % 2**64 != (digest(2, one) + digest(1, two)) % 2**64


def test_late_datagrams_belong_to_the_window_that_sent_them() -> None:
    counters = CellCounters()
    counters.data["rx_ok"] += 1  # before the first window: the peer opened first
    counters.open_window("traffic")
    counters.data["rx_ok"] += 10
    counters.data["rx_ok"] += 2  # after the gate closed, before the next window
    counters.open_window("bulk")
    counters.data["rx_ok"] += 5
    windows = counters.snapshot()["windows"]
    assert windows["traffic"]["rx_ok"] == 13
    assert windows["bulk"]["rx_ok"] == 5


def test_handshakes_counted_at_once_from_many_threads() -> None:
    counters = CellCounters()

    def count() -> None:
        for _ in range(500):
            counters.add_handshake({"hs_started": 1, "new": 2})

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = counters.snapshot()
    assert (shown["hs_started"], shown["new"]) == (2000, 4000)


def test_journal_keeps_order_and_both_clocks() -> None:
    journal = Journal("drone")
    journal.event("prepare", cell_id="c")
    journal.event("note", reason="x")
    journal.add_spans([{"step": "connect"}, {"step": "handshake"}])
    rows = [json.loads(line) for line in journal.events.lines(0, 10)]
    assert [row["event"] for row in rows] == ["prepare", "note"]
    assert rows[0]["t_ns"] <= rows[1]["t_ns"] and rows[0]["mono_ns"] <= rows[1]["mono_ns"]
    assert {row["host"] for row in rows} == {"drone"}
    assert [json.loads(line)["step"] for line in journal.span_lines(1, 5)] == ["handshake"]
    assert journal.span_count() == 2


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 200_000), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 70_000), min_size=1, max_size=20),
)
def test_stream_reads_are_exact_however_the_bytes_arrive(sizes: list[int], cuts: list[int]) -> None:
    near, far = socket.socketpair()
    data = b"".join(bytes([n % 251]) * size for n, size in enumerate(sizes))

    def feed() -> None:
        position, turn = 0, 0
        while position < len(data):
            step = cuts[turn % len(cuts)]
            far.sendall(data[position : position + step])
            position, turn = position + step, turn + 1

    with near, far:
        feeder = threading.Thread(target=feed)
        feeder.start()
        stream = FrameStream(near, time.monotonic_ns())
        got = [bytes(stream.read(size, 60.0)) for size in sizes]
        feeder.join()
    assert b"".join(got) == data
    assert [len(part) for part in got] == sizes


def test_stream_total_deadline_holds_against_a_drip() -> None:
    near, far = socket.socketpair()
    done = threading.Event()

    def drip() -> None:
        while not done.wait(0.05):
            try:
                far.send(b"x")
            except OSError:
                return

    with near, far:
        feeder = threading.Thread(target=drip)
        feeder.start()
        start = time.monotonic()
        stream = FrameStream(near, time.monotonic_ns())
        with pytest.raises(TimeoutError):  # the drip alone would end it after 50 s, and with no error
            stream.read(1000, 0.4)
        assert time.monotonic() - start > 0.3
        done.set()
        feeder.join()


def test_stream_says_when_the_peer_is_gone() -> None:
    near, far = socket.socketpair()
    with near:
        far.sendall(b"abc")
        far.close()
        with pytest.raises(ConnectionLostError):
            FrameStream(near, time.monotonic_ns()).read(4, 1.0)


@pytest.mark.linux("reads the kernel's stamps with recvmsg(2)")
def test_kernel_timestamp_lies_between_send_and_receive() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        source = timestamps.enable(sock)
        sock.settimeout(LIMIT_S)

        def one() -> tuple[int, int, int, int, int | None]:
            """Times before sending, of the kernel, before the late read, after it; and what was dropped."""
            before = time.time_ns()
            sock.sendto(b"x", sock.getsockname())
            assert select.select([sock], [], [], LIMIT_S)[0]
            time.sleep(0.001)
            late = time.time_ns()
            _, ancillary, _, _ = sock.recvmsg(10, timestamps.ANCILLARY_BYTES)
            stamp, drops = timestamps.read(ancillary)
            return before, stamp, late, time.time_ns(), drops

        if source == timestamps.SOURCE_KERNEL:
            # The first socket to ask makes the kernel switch its stamps on, a moment later: until then the
            # time is that of the late read.
            assert wait_until(lambda: (told := one())[1] < told[2])
        before, stamp, late, after, drops = one()
    assert before <= stamp <= after
    if source == timestamps.SOURCE_KERNEL:
        assert stamp < late and drops in (0, None)


def test_kernel_drops_are_reported() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if timestamps.enable(sock) != timestamps.SOURCE_KERNEL:
            pytest.skip("this platform does not report drops")
        for _ in range(200):
            sock.sendto(b"x" * 100, sock.getsockname())
        kept = 0
        sock.setblocking(False)
        try:
            while True:
                sock.recvmsg(200, timestamps.ANCILLARY_BYTES)
                kept += 1
        except BlockingIOError:
            pass
        sock.sendto(b"y", sock.getsockname())
        _, ancillary, _, _ = sock.recvmsg(200, timestamps.ANCILLARY_BYTES)
        assert timestamps.read(ancillary)[1] == 200 - kept > 0


@pytest.mark.parametrize("block", [1 << 20])
def test_telemetry_lines_by_time(tmp_path: Path, block: int) -> None:
    file = tmp_path / "telemetry.lp"
    lines = [f"pq_cpu,host=drone system_pct={n}.0 {1_000_000_000 + n * 100}" for n in range(40_000)]
    # The sampler ends lines alike everywhere; the last line is still being written.
    file.write_bytes(("\n".join(lines) + "\n" + "pq_cpu,host=drone sys").encode())
    assert file.stat().st_size > block
    start, end = 1_000_000_000 + 10_000 * 100, 1_000_000_000 + 39_000 * 100

    def between(path: Path, start_ns: int, end_ns: int) -> tuple[list[str], bool]:
        kept, from_before = _lines_between(path, start_ns, end_ns)
        return LineBlock(kept).lines(), from_before

    assert between(file, start, end) == (lines[10_000:39_001], True)
    assert between(file, start + 20_000 * 100, end) == (lines[30_000:39_001], True)
    assert between(file, 0, 2**63) == (lines, False)
    assert between(file, 5, 6) == ([], False)
    assert between(file, 2**62, 2**63) == ([], True)
    assert between(tmp_path / "absent", 0, 1) == ([], False)


@given(
    st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=8)),
    st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=3),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_a_block_has_the_lines_of_its_bytes(lines: list[str], rest: str, since: int, limit: int) -> None:
    block = LineBlock("".join(f"{line}\n" for line in lines).encode() + rest.encode())
    assert (len(block), block.lines()) == (len(lines), lines), "a last line without its end is none yet"
    assert block.lines(since, limit) == lines[since : since + limit]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, "PQ_PEER"),
        ({"PQ_PEER": "127.0.0.1"}, "PQ_PLAINTEXT_TARGET"),
        ({"PQ_PEER": "127.0.0.1", "PQ_PLAINTEXT_TARGET": "nowhere"}, "PQ_PLAINTEXT_TARGET"),
        ({"PQ_PEER": "127.0.0.1", "PQ_PLAINTEXT_TARGET": "127.0.0.1:99999"}, "PQ_PLAINTEXT_TARGET"),
        ({"PQ_PEER": "127.0.0.1", "PQ_PLAINTEXT_TARGET": "127.0.0.1:1", "PQ_RING": "moon"}, "PQ_RING"),
        ({"PQ_PEER": "127.0.0.1", "PQ_PLAINTEXT_TARGET": "127.0.0.1:1", "PQ_SEALED_PORT": "x"},
         "PQ_SEALED_PORT"),
    ],
)  # fmt: skip
def test_configuration_errors_name_the_setting(settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EndpointConfig.from_environment("drone", settings)
    assert named in str(caught.value)


def test_configuration_defaults_are_the_published_ports() -> None:
    common = {"PQ_PLAINTEXT_TARGET": "127.0.0.1:47004", "PQ_PEER": "127.0.0.1"}
    drone = EndpointConfig.from_environment("drone", common)
    gcs = EndpointConfig.from_environment("gcs", common)
    assert (drone.sealed_port, drone.peer_sealed_port, drone.plaintext_port) == (46012, 46011, 47003)
    assert (gcs.sealed_port, gcs.peer_sealed_port, gcs.plaintext_port) == (46011, 46012, 47001)
    assert drone.handshake_port == gcs.handshake_port == 46000
    assert drone.routes["mavproxy"].source == "127.0.0.1"
    assert parse_address("198.18.1.11:47004", "x") == ("198.18.1.11", 47004)
