"""One end of one handshake over a simulated stream: the machine, its deadline, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

from pqspec.handshake import DroneHandshake, GcsHandshake
from pqspec.simulation.clock import VirtualClock
from pqspec.simulation.network import Stream
from pqtunnel.errors import ConnectionLostError, HandshakeError
from pqtunnel.handshake.established import Established
from pqtunnel.wire import ALERT_FRAME, HEADER_BYTES


class Conversation:
    """Drives a machine frame by frame. `completed` runs before the last answer leaves, as at a real GCS,
    `failed` runs once otherwise."""

    def __init__(
        self,
        clock: VirtualClock,
        stream: Stream,
        role: str,
        machine: DroneHandshake | GcsHandshake,
        completed: Callable[[Established], None],
        failed: Callable[[HandshakeError], None],
    ) -> None:
        self._clock = clock
        self._stream = stream
        self._role = role
        self._machine = machine
        self._completed = completed
        self._failed = failed
        self.is_over = False
        self._begin_ns = clock.now_ns
        stream.receivers[role] = self.take

    def start(self) -> None:
        """Send what this end sends first, if anything."""
        try:
            self._send(self._machine.start())
        except HandshakeError as error:
            self._fail(error)
        self._watch()

    def take(self, frame: bytes) -> None:
        """A frame of the other end; b"" when it has closed."""
        if self.is_over:
            return
        if not frame:
            self._machine.abort()
            self._fail(ConnectionLostError("the other end closed the connection"))
            return
        try:
            length = self._machine.on_header(frame[:HEADER_BYTES])
            answer = self._machine.on_body(frame[HEADER_BYTES : HEADER_BYTES + length])
        except HandshakeError as error:
            self._fail(error)
            return
        if self._machine.established is not None:
            self.is_over = True
            self._completed(self._machine.established)
        self._send(answer)

    def lose(self) -> None:
        """This end is gone without a word: its process has died."""
        self.is_over = True
        self._machine.abort()
        self._stream.send(self._role, b"")

    def _send(self, buffers: list[bytes]) -> None:
        if buffers:
            self._stream.send(self._role, b"".join(buffers))

    def _watch(self) -> None:
        if self.is_over:
            return
        left_ns = self._begin_ns + int(self._machine.deadline_s * 1e9) - self._clock.now_ns
        if left_ns > 0:  # it grows once the suite is known
            self._clock.after(left_ns, self._watch)
        else:
            self._fail(self._machine.fail_timeout())

    def _fail(self, error: HandshakeError) -> None:
        self.is_over = True
        if error.send_alert:
            self._stream.send(self._role, error.answer or ALERT_FRAME)
        self._stream.send(self._role, b"")
        self._failed(error)
