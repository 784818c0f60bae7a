"""UDP sink: receives bulk payloads and verifies every byte, as long as its service lives."""

from __future__ import annotations

import socket
import threading
import time

from pqbase.net import claim
from pqsitl.bulk import BulkVerifier
from pqsitl.errors import SitlError
from pqsitl.net import RECEIVE_BUFFER_BYTES, RECEIVE_BYTES, owner_hint, udp_socket_state

SETTLE_S = 0.03
SETTLE_LIMIT_S = 0.5


class BulkSink:
    """A thread on one UDP port; the counts start anew at `reset`."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        try:
            claim(self._socket)
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise SitlError(
                f"cannot listen on UDP {host}:{port}: {error.strerror}",
                owner_hint("u", port),
                "port_taken",
            ) from error
        self._socket.settimeout(0.5)
        self.port: int = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._verifier = BulkVerifier()
        self._dropped_before = self._dropped()
        self._last_ns = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bulk-sink", daemon=True)
        self._thread.start()

    def reset(self, expected_seed: int | None = None, expected_size: int | None = None) -> None:
        """Forget everything received so far; from now on expect this stream, or any."""
        with self._lock:
            self._verifier = BulkVerifier(expected_seed, expected_size)
            self._dropped_before = self._dropped()

    def settle(self) -> None:
        """Wait until nothing has come for 30 ms from now on, at most 0.5 s."""
        begin_ns = time.monotonic_ns()
        end_ns = begin_ns + round(SETTLE_LIMIT_S * 1e9)
        while (now_ns := time.monotonic_ns()) < end_ns:
            quiet_s = (now_ns - max(self._last_ns, begin_ns)) / 1e9
            if quiet_s >= SETTLE_S:
                return
            time.sleep(SETTLE_S - quiet_s)

    @property
    def touched(self) -> bool:
        """Something has come since the last reset."""
        return self._verifier.count > 0

    def report(self, expected_count: int | None = None) -> dict[str, object]:
        """Counts since the last reset; `kernel_dropped` is null where the kernel does not tell."""
        dropped = self._dropped()
        with self._lock:
            report = self._verifier.as_dict(expected_count)
        before = self._dropped_before
        report["kernel_dropped"] = None if dropped is None or before is None else dropped - before
        return report

    def close(self) -> None:
        self._closing.set()
        host, port = self._socket.getsockname()
        self._socket.sendto(b"", (host if host != "0.0.0.0" else "127.0.0.1", port))  # wakes the thread
        self._thread.join(timeout=2.0)
        self._socket.close()

    def _dropped(self) -> int | None:
        state = udp_socket_state(self.port)
        return None if state is None else state[1]

    def _run(self) -> None:
        receive = self._socket.recv
        while not self._closing.is_set():
            try:
                datagram = receive(RECEIVE_BYTES)
            except TimeoutError:
                continue
            self._last_ns = time.monotonic_ns()
            with self._lock:
                self._verifier.accept(datagram)
