"""One TCP connection of a handshake: framed reads under a total deadline, one send a message, spans marked.

In scope: bytes, time limits, lengths refused before memory is taken for a body. Not in scope: what the bytes
mean; the machine of `pqtunnel.handshake` says how long each body is and what to answer.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from pqspec.handshake.drone import DroneHandshake
from pqspec.handshake.gcs import GcsHandshake
from pqtunnel.errors import ConnectionLostError, HandshakeError, TunnelError
from pqtunnel.trace import Tracer
from pqtunnel.wire import ALERT_FRAME

HEADER_BYTES: Final = 4
_CHUNK_BYTES: Final = 65_536
Buffer = bytes | bytearray | memoryview


class FrameStream:
    """Buffered reads and gathered writes on one connected socket."""

    def __init__(self, sock: socket.socket, started_ns: int) -> None:
        self._socket = sock
        self._started_ns = started_ns
        self._buffer = bytearray(_CHUNK_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0

    def _limit(self, deadline_s: float) -> None:
        left_s = deadline_s - (time.monotonic_ns() - self._started_ns) / 1e9
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def read(self, count: int, deadline_s: float) -> memoryview:
        """Exactly `count` bytes, valid until the next read.

        Small reads are served from the buffer; a large body gets memory of its own once its length was
        accepted. Raises TimeoutError, ConnectionLostError.
        """
        held = self._end - self._start
        if held >= count:
            view = self._view[self._start : self._start + count]
            self._start += count
            return view
        if count <= _CHUNK_BYTES:
            if self._start + count > _CHUNK_BYTES:
                self._buffer[:held] = self._buffer[self._start : self._end]
                self._start, self._end = 0, held
            while self._end - self._start < count:
                self._end += self._receive(self._view[self._end :], deadline_s)
            view = self._view[self._start : self._start + count]
            self._start += count
            if self._start == self._end:
                self._start = self._end = 0
            return view
        body = memoryview(bytearray(count))
        body[:held] = self._view[self._start : self._end]
        self._start = self._end = 0
        while held < count:
            held += self._receive(body[held:], deadline_s)
        return body

    def _receive(self, into: memoryview, deadline_s: float) -> int:
        self._limit(deadline_s)
        got = self._socket.recv_into(into)
        if got == 0:
            raise ConnectionLostError("the peer closed the connection in the middle of the handshake")
        return got

    def write(self, buffers: Sequence[Buffer], deadline_s: float) -> None:
        """Send all buffers as one message: one system call unless the kernel's buffer fills."""
        self._limit(deadline_s)
        if len(buffers) == 1:
            self._socket.sendall(buffers[0])
            return
        total = sum(len(buffer) for buffer in buffers)
        sent = self._socket.sendmsg(buffers) if hasattr(self._socket, "sendmsg") else 0
        if sent < total:
            rest = b"".join(buffers)
            self._socket.sendall(memoryview(rest)[sent:])


def converse(
    stream: FrameStream,
    machine: DroneHandshake | GcsHandshake,
    tracer: Tracer,
    before_send: Callable[[], None] | None = None,
) -> None:
    """Drive `machine` over `stream` until it is done.

    `before_send` runs after each body and before the answer leaves: the gcs installs its receive keys there,
    and where that raises TunnelError nothing leaves. Raises HandshakeError of every kind; the machine has
    counted it, but for a lost connection.
    """
    try:
        first = machine.start()
        if first:
            tracer.mark(machine.send_step, "io")
            stream.write(first, machine.deadline_s)
        while not machine.done:
            tracer.mark(machine.wait_step, "network_wait")
            length = machine.on_header(bytes(stream.read(HEADER_BYTES, machine.deadline_s)))
            answer = machine.on_body(stream.read(length, machine.deadline_s))
            if before_send is not None:
                try:
                    before_send()
                except TunnelError as error:
                    refusal = machine.disown(error)
                    raise refusal from (error.__cause__ if refusal is error else error)
            if answer:
                tracer.mark(machine.send_step, "io")
                stream.write(answer, machine.deadline_s)
    except TimeoutError as error:
        raise machine.fail_timeout() from error
    except ConnectionLostError:
        machine.abort()
        raise
    except OSError as error:
        machine.abort()
        raise ConnectionLostError(f"the connection to the peer broke: {error.strerror or error}") from error


def refuse(sock: socket.socket, error: HandshakeError) -> None:
    """Say no, if the connection still takes it: the error's own authenticated answer or the generic alert,
    or nothing where the error says so. The reason stays in the local log."""
    if not error.send_alert:
        return
    try:
        sock.settimeout(0.2)
        sock.sendall(error.answer or ALERT_FRAME)
    except OSError:
        return  # the peer is gone: it needs no alert
