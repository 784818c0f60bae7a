"""Sends the same bytes to Telegraf over TCP, from its own thread, without ever holding up the sampler.

The queue is bounded by lines; what does not fit is dropped from its old end and counted. A connection that
dies takes down what the kernel had accepted but Telegraf had not read, so after a reconnect the last few
seconds are sent again: a point with the same series and timestamp replaces itself in InfluxDB.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, replace

CONNECT_TIMEOUT_S = 2.0
STALL_LIMIT_S = 30.0
_POLL_S = 0.2
# Small, so that little more than what is sent again after a reconnect can wait in the kernel.
_SEND_BUFFER_BYTES = 65_536


@dataclass(frozen=True)
class _Batch:
    data: bytes
    line_count: int
    delivered: bool = False  # accepted by an earlier connection: sent again for safety


class TelegrafWriter:
    """A queue, a thread and a socket; `put` never blocks on the network."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        max_queued_lines: int = 20_000,
        resend_batches: int = 50,
        backoff_s: tuple[float, float] = (0.1, 5.0),
    ) -> None:
        self._address = (host, port)
        self._max_queued_lines = max_queued_lines
        self._backoff_s = backoff_s
        self._wake = threading.Condition()
        self._queue: deque[_Batch] = deque()
        self._queued_lines = 0
        self._again: deque[_Batch] = deque()
        self._recent: deque[_Batch] = deque(maxlen=resend_batches)
        self._stop_at: float | None = None
        self._socket: socket.socket | None = None
        self._connections = 0
        self.dropped_count = 0
        self.sent_count = 0
        self.last_error: str | None = None
        self._thread = threading.Thread(target=self._run, name="telegraf-writer", daemon=True)

    @property
    def reconnect_count(self) -> int:
        """Connections after the first."""
        return max(0, self._connections - 1)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, data: bytes, line_count: int) -> None:
        """Queue whole lines; drops the oldest queued batches when the bound is exceeded."""
        with self._wake:
            self._queue.append(_Batch(data, line_count))
            self._queued_lines += line_count
            while self._queued_lines > self._max_queued_lines and self._queue:
                gone = self._queue.popleft()
                self._queued_lines -= gone.line_count
                self.dropped_count += gone.line_count
            self._wake.notify()

    def close(self, timeout_s: float = 1.5) -> None:
        """Send what is queued for at most `timeout_s`, then end; the rest counts as dropped.

        A thread that hangs in a name look-up is left behind: it is a daemon and dies with the process.
        """
        with self._wake:
            self._stop_at = time.monotonic() + timeout_s
            self._wake.notify()
        self._thread.join(timeout_s + 0.3)
        with self._wake:
            self.dropped_count += self._queued_lines
            self.dropped_count += sum(batch.line_count for batch in self._again if not batch.delivered)
            self._queue.clear()
            self._again.clear()
            self._queued_lines = 0

    def _expired(self) -> bool:
        return self._stop_at is not None and time.monotonic() >= self._stop_at

    def _next(self) -> _Batch | None:
        """The next batch; None at the end of the work or of the time."""
        with self._wake:
            while not self._again and not self._queue:
                if self._stop_at is not None:
                    return None
                self._wake.wait()
            if self._expired():
                return None
            if self._again:
                return self._again.popleft()
            batch = self._queue.popleft()
            self._queued_lines -= batch.line_count
            return batch

    def _run(self) -> None:
        delay_s = self._backoff_s[0]
        try:
            while True:
                batch = self._next()
                if batch is None:
                    return
                try:
                    self._send(batch)
                    delay_s = self._backoff_s[0]
                except OSError as error:
                    self.last_error = str(error)
                    self._disconnect(batch)
                    with self._wake:
                        if self._expired():
                            return
                        limit_s = delay_s if self._stop_at is None else self._stop_at - time.monotonic()
                        self._pause(min(delay_s, limit_s))
                    delay_s = min(2 * delay_s, self._backoff_s[1])
        finally:
            self._close_socket()

    def _pause(self, seconds: float) -> None:
        """Wait out the back-off; new batches wake it, so wait for the rest (a stop shortens it)."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._expired():
            self._wake.wait(left)
            if self._stop_at is not None:
                end = min(end, self._stop_at)

    def _send(self, batch: _Batch) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=CONNECT_TIMEOUT_S)
            self._socket.settimeout(_POLL_S)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            self._connections += 1
        self._check_peer(self._socket)
        view = memoryview(batch.data)
        stalled_since = time.monotonic()
        while view:
            try:
                view = view[self._socket.send(view) :]
                stalled_since = time.monotonic()
            except TimeoutError:
                # A slow reader keeps the connection: closing it in mid-line would leave half a line there.
                if self._expired() or time.monotonic() - stalled_since > STALL_LIMIT_S:
                    raise
        self._recent.append(batch)
        if not batch.delivered:
            self.sent_count += batch.line_count
        self.last_error = None

    @staticmethod
    def _check_peer(connection: socket.socket) -> None:
        """Telegraf never answers: readable means closed, which a send would only notice one batch later."""
        if select.select([connection], [], [], 0)[0] and connection.recv(4096) == b"":
            raise ConnectionResetError("the other side closed the connection")

    def _disconnect(self, unsent: _Batch) -> None:
        had_connection = self._socket is not None
        self._close_socket()
        with self._wake:
            self._again.appendleft(unsent)
            if had_connection:
                self._again.extendleft(replace(batch, delivered=True) for batch in reversed(self._recent))
                self._recent.clear()

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
