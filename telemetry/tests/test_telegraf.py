"""The Telegraf writer against a TCP server that stalls, disconnects and comes back."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pqtelemetry.clock import SystemClock
from pqtelemetry.collector import Collector
from pqtelemetry.filestore import FileStore
from pqtelemetry.parse import parse_line
from pqtelemetry.readers.process import OwnCpu
from pqtelemetry.sampler import Sampler
from pqtelemetry.schedule import Schedule
from pqtelemetry.telegraf import TelegrafWriter
from waiting import LIMIT_S, free_port, wait_for


class FakeTelegraf:
    """Accepts lines on a loopback port; can stall (not read) and drop its connections."""

    def __init__(self, port: int = 0) -> None:
        self.received = bytearray()
        self.reading = threading.Event()
        self.reading.set()
        self._connections: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", port))
        # Accepted connections inherit it: a reader that stalls is felt after a few kilobytes.
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._connections.append(connection)
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.reading.wait()
                data = connection.recv(4096)
                if not data:
                    return
                self.received += data

    def disconnect(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.reading.set()
        self.disconnect()

    def indices(self) -> list[int]:
        whole, _, _ = bytes(self.received).rpartition(b"\n")
        lines = whole.decode().splitlines()
        return [int(str(parse_line(line).fields["i"])) for line in lines]


@pytest.fixture
def server() -> Iterator[FakeTelegraf]:
    fake = FakeTelegraf()
    yield fake
    fake.close()


def line(index: int, pad: int = 0) -> bytes:
    return f'm i={index}i,pad="{"x" * pad}" {index}\n'.encode()


def test_lines_arrive_in_order_and_close_flushes(server: FakeTelegraf) -> None:
    writer = TelegrafWriter("127.0.0.1", server.port)
    writer.start()
    for index in range(200):
        writer.put(line(index), 1)
    writer.close(timeout_s=LIMIT_S)
    wait_for(lambda: len(server.indices()) == 200)
    assert server.indices() == list(range(200))
    assert (writer.sent_count, writer.dropped_count, writer.reconnect_count) == (200, 0, 0)


def test_after_a_disconnect_every_line_arrives_at_least_once(server: FakeTelegraf) -> None:
    writer = TelegrafWriter("127.0.0.1", server.port, backoff_s=(0.02, 0.1))
    writer.start()
    for index in range(100):
        writer.put(line(index), 1)
        if index == 50:
            wait_for(lambda: 50 in server.indices())
            server.disconnect()
        time.sleep(0.001)
    writer.close(timeout_s=LIMIT_S)
    wait_for(lambda: set(server.indices()) == set(range(100)))
    assert writer.reconnect_count == 1
    assert writer.dropped_count == 0


def test_a_stalled_reader_drops_the_oldest_lines_and_counts_them(server: FakeTelegraf) -> None:
    server.reading.clear()
    writer = TelegrafWriter("127.0.0.1", server.port, max_queued_lines=50)
    writer.start()
    for index in range(1000):  # did one wait for the network, it would wait for ever: nobody reads
        writer.put(line(index, pad=20_000), 1)
    assert writer.dropped_count > 0
    server.reading.set()
    wait_for(lambda: writer.sent_count + writer.dropped_count == 1000)
    writer.close()
    wait_for(lambda: len(server.indices()) == writer.sent_count)
    assert server.indices()[-50:] == list(range(950, 1000)), "the newest lines survive"


def test_no_telegraf_at_all_counts_everything_as_dropped() -> None:
    port = free_port()
    writer = TelegrafWriter("127.0.0.1", port, max_queued_lines=20, backoff_s=(0.01, 0.05))
    writer.start()
    for index in range(100):
        writer.put(line(index), 1)
    writer.close(timeout_s=0.3)
    assert writer.sent_count == 0
    assert writer.dropped_count == 100
    assert writer.last_error


def test_a_telegraf_that_comes_late_gets_what_the_queue_kept() -> None:
    port = free_port()
    writer = TelegrafWriter("127.0.0.1", port, backoff_s=(0.02, 0.05))
    writer.start()
    for index in range(30):
        writer.put(line(index), 1)
    wait_for(lambda: writer.last_error is not None)
    late = FakeTelegraf(port)
    try:
        wait_for(lambda: late.indices() == list(range(30)))
        writer.close()
        assert writer.dropped_count == 0
    finally:
        late.close()


@pytest.mark.linux("reads the load average in /proc")
def test_the_sampler_stays_on_schedule_while_telegraf_stalls(server: FakeTelegraf, tmp_path: Path) -> None:
    server.reading.clear()
    writer = TelegrafWriter("127.0.0.1", server.port, max_queued_lines=10)
    writer.start()
    end_ns = time.monotonic_ns() + int(LIMIT_S * 1e9)
    # A writer that blocked would never let it come so far.
    clock = SystemClock(lambda: sampler.schedule.taken_count < 45 and time.monotonic_ns() < end_ns)
    store = FileStore(tmp_path / "t.lp")
    collector = Collector([OwnCpu()], (("host", "h" * 30_000),), 50.0)
    sampler = Sampler(Schedule(clock.monotonic_ns(), 20_000_000), collector, clock, store, (), writer)
    sampler.run()
    writer.close(timeout_s=0.2)
    store.close()
    assert sampler.schedule.expected_count >= sampler.schedule.taken_count >= 45
    assert sampler.stored_count == sampler.schedule.taken_count
    assert writer.dropped_count > 0
