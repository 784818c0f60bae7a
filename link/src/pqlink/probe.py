"""Achieved delay, jitter and loss, measured through the path: UDP echoes and TCP connection attempts.

UDP: stamped datagrams, echoed with the other end's stamp; each direction apart. One-way delays need one clock
for both ends, which containers on one machine have. TCP: the time from SYN to SYN-ACK; an attempt that is not
answered before its first repetition (1 s, RFC 6298 section 2.1) has lost one of the two. Both figures are the
kernel's (struct tcp_info, linux/tcp.h), so that a prober that comes late counts nothing as lost or slow.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pqbase.documents import Json, number_of, whole_of
from pqlink.errors import LinkError, RequestError
from pqlink.figures import loss_figures, time_figures

PORT: Final = 48092
MAX_COUNT: Final = 100_000
MAX_RATE_HZ: Final = 10_000.0
MIN_BYTES: Final = 36
#: shorter than the first repetition of a SYN
TCP_LIMIT_S: Final = 0.95
ECHO_MAX_S: Final = 120.0
#: token, index, stamp of the sender, stamp of the echo
_FORM: Final = struct.Struct("!8sIqq")
_KEPT_CONNECTIONS: Final = 2000
_BUFFER_BYTES: Final = 4 << 20
#: local ports of attempts, in turn and below those that the kernel gives out: the other end may still hold a
#: connection whose reset was lost, and answers a SYN to it with an ACK (RFC 5961 section 4)
_LOCAL_PORTS: Final = range(20_000, 32_000)
_SO_TIMESTAMPNS: Final = 35
#: struct tcp_info up to total_retrans, of which rtt (µs) and total_retrans itself are read
_TCP_INFO: Final = struct.Struct("8B24I")
_RTT_AT: Final = 8 + 15
_RETRANS_AT: Final = 8 + 23


@dataclass(frozen=True)
class ProbePlan:
    """One probe: `count` of them at `rate_hz`; the last may take `patience_s` to come back."""

    kind: str
    here: str
    peer: str
    count: int
    rate_hz: float
    size_bytes: int
    patience_s: float

    @classmethod
    def parse(cls, given: Json, here: str, peer: str) -> ProbePlan:
        """From a request. Raises RequestError."""
        try:
            plan = cls(
                str(given["kind"]),
                here,
                peer,
                whole_of(given, "count"),
                number_of(given, "rate_hz"),
                whole_of({"size_bytes": 64, **given}, "size_bytes"),
                number_of({"patience_s": 1.0, **given}, "patience_s"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"probe: {error!r}", hint="kind, count, rate_hz are needed") from error
        fits = (
            plan.kind in ("udp", "tcp")
            and 1 <= plan.count <= MAX_COUNT
            and 0 < plan.rate_hz <= MAX_RATE_HZ
            and MIN_BYTES <= plan.size_bytes <= 1472
            and 0 < plan.patience_s <= 30
        )
        if not fits:
            raise RequestError(f"probe: outside its limits: {plan}")
        return plan


def run_probe(plan: ProbePlan) -> Json:
    """Carry a probe out. Raises LinkError, OSError."""
    return _udp(plan) if plan.kind == "udp" else _tcp(plan)


# ---------------------------------------------------------------------- the other end


class Echo:
    """Answers probes until `until_s` (monotonic); never open in a measured window."""

    def __init__(self, address: str, until_s: float) -> None:
        if until_s - time.monotonic() > ECHO_MAX_S:
            raise RequestError(f"echo: at most {ECHO_MAX_S:g} s")
        self._until_s = until_s
        self._seen: set[tuple[bytes, int]] = set()
        self._udp = _udp_socket(address, PORT)
        self._udp.settimeout(0.2)
        try:
            self._tcp = socket.create_server((address, PORT), backlog=4096)
        except OSError:
            self._udp.close()
            raise
        self._tcp.settimeout(0.2)
        self._closing = False
        self._threads = [
            threading.Thread(target=job, name=job.__name__, daemon=True)
            for job in (self._echo_udp, self._accept_tcp)
        ]
        for thread in self._threads:
            thread.start()

    def over(self, now_s: float) -> bool:
        """Is its time up?"""
        return now_s >= self._until_s

    def close(self) -> int:
        """Stop answering; returns how many different UDP probes came."""
        self._closing = True
        for thread in self._threads:
            thread.join(timeout=1.0)
        self._udp.close()
        self._tcp.close()
        return len(self._seen)

    def _echo_udp(self) -> None:
        while not self._closing:
            try:
                data, came_ns, source = _receive(self._udp)
            except TimeoutError:
                continue
            if len(data) < _FORM.size:
                continue
            token, index, sent_ns, _ = _FORM.unpack_from(data)
            if (token, index) in self._seen:
                continue  # a double on the way here must not become two on the way back
            self._seen.add((token, index))
            self._udp.sendto(_FORM.pack(token, index, sent_ns, came_ns) + data[_FORM.size :], source)

    def _accept_tcp(self) -> None:
        kept: deque[socket.socket] = deque()
        while not self._closing:
            try:
                connection, _ = self._tcp.accept()
            except TimeoutError:
                continue
            except OSError:  # reset before we took it
                continue
            # kept for a while: by then the other end has reset it, and closing it sends nothing over the link
            kept.append(connection)
            if len(kept) > _KEPT_CONNECTIONS:
                _close_hard(kept.popleft())
        for connection in kept:
            _close_hard(connection)


# ---------------------------------------------------------------------- UDP


def _udp(plan: ProbePlan) -> Json:
    token = secrets.token_bytes(8)
    up: dict[int, int] = {}
    down: dict[int, int] = {}
    doubles = reordered = highest = 0
    padding = bytes(plan.size_bytes - _FORM.size)
    with _udp_socket(plan.here, 0) as sock:
        target = (plan.peer, PORT)
        last_s = time.monotonic() + plan.count / plan.rate_hz + plan.patience_s
        for index in _paced(plan):
            while True:
                wait_s = (index[1] if index is not None else last_s) - time.monotonic()
                if wait_s <= 0 or (index is None and len(down) == plan.count):
                    break
                sock.settimeout(wait_s)
                try:
                    data, came_ns, _ = _receive(sock)
                except TimeoutError:
                    break
                if len(data) != plan.size_bytes or data[:8] != token:
                    continue
                _, number, sent_ns, there_ns = _FORM.unpack_from(data)
                if number in down:
                    doubles += 1
                    continue
                reordered += number < highest
                highest = max(highest, number)
                up[number], down[number] = there_ns - sent_ns, came_ns - there_ns
            if index is not None:
                sock.settimeout(None)
                sock.sendto(_FORM.pack(token, index[0], time.time_ns(), 0) + padding, target)
    # Only round trips are seen here; how many arrived over there is asked from the echo (`seen`).
    return {
        "kind": "udp",
        "sent": plan.count,
        "returned": len(down),
        "doubles": doubles,
        "reordered": reordered,
        "size_bytes": plan.size_bytes,
        "rate_hz": plan.rate_hz,
        "up": time_figures(list(up.values()), "delay"),
        "down": time_figures(list(down.values()), "delay"),
    }


def _paced(plan: ProbePlan) -> Iterator[tuple[int, float] | None]:
    """(number, when to send) of every probe on an absolute schedule, then None for the wait at the end."""
    begin_s = time.monotonic()
    for number in range(plan.count):
        yield number, begin_s + number / plan.rate_hz
    yield None


def _udp_socket(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.bind((address, port))
    return sock


def _receive(sock: socket.socket) -> tuple[bytes, int, tuple[str, int]]:
    """Datagram, kernel's receive time (realtime ns), source."""
    data, ancillary, _, source = sock.recvmsg(2048, 64)
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("qq", value[:16])
            return data, seconds * 1_000_000_000 + nanoseconds, source
    raise LinkError("the kernel gave no receive time", code="no_timestamp")


# ---------------------------------------------------------------------- TCP


def _tcp(plan: ProbePlan) -> Json:
    limit_s = min(plan.patience_s, TCP_LIMIT_S)
    times_ns: list[int] = []
    refused: list[int] = []
    open_since: dict[socket.socket, int] = {}
    with selectors.DefaultSelector() as selector:

        def end(sock: socket.socket, answered: bool) -> None:
            selector.unregister(sock)
            del open_since[sock]
            if answered:
                _account(sock, times_ns, refused)
            _close_hard(sock)

        for step in _paced(plan):
            until_s = step[1] if step is not None else time.monotonic() + limit_s
            while step is not None or open_since:
                wait_s = until_s - time.monotonic()
                # also when the schedule is missed: what has been answered meanwhile was not lost
                for key, _ in selector.select(max(0.0, wait_s)):
                    assert isinstance(key.fileobj, socket.socket)
                    end(key.fileobj, answered=True)
                for sock in _waited_for(open_since, limit_s):
                    end(sock, answered=False)
                if wait_s <= 0:
                    break
            if step is not None:
                sock = _bound(plan.here)
                open_since[sock] = time.monotonic_ns()
                sock.connect_ex((plan.peer, PORT))
                selector.register(sock, selectors.EVENT_WRITE)
        for sock in _waited_for(open_since, 0.0):
            end(sock, answered=False)
    if refused:
        why = os.strerror(refused[0])
        raise LinkError(f"{len(refused)} of {plan.count} connection attempts: {why}", code="no_echo")
    return {
        "kind": "tcp",
        "rate_hz": plan.rate_hz,
        "limit_ms": 1000 * limit_s,
        **loss_figures(plan.count, len(times_ns)),
        **time_figures(times_ns, "rtt"),
    }


_ports: Final = itertools.cycle(_LOCAL_PORTS)


def _bound(address: str) -> socket.socket:
    """A non-blocking socket at the next local port that nobody holds. Raises OSError when all are held."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    for tried, port in enumerate(_ports, 1):
        try:
            sock.bind((address, port))
            break
        except OSError as error:
            if error.errno != errno.EADDRINUSE or tried == len(_LOCAL_PORTS):
                sock.close()
                raise
    return sock


def _account(sock: socket.socket, times_ns: list[int], refused: list[int]) -> None:
    """Book an attempt that has ended: its round trip, its refusal, or nothing when its SYN was repeated."""
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # a reset can only follow an answer: the other end closed what it had accepted
    if error not in (0, errno.ECONNRESET):
        refused.append(error)
        return
    info = _TCP_INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
    if info[_RETRANS_AT] == 0:
        times_ns.append(1000 * info[_RTT_AT])


def _waited_for(open_since: dict[socket.socket, int], limit_s: float) -> list[socket.socket]:
    """What waits for longer than the limit, in order of their start."""
    before_ns = time.monotonic_ns() - round(limit_s * 1e9)
    return list(itertools.takewhile(lambda sock: open_since[sock] <= before_ns, open_since))


def _close_hard(sock: socket.socket) -> None:
    """With a reset, so that thousands of probes leave no TIME_WAIT behind."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    finally:
        sock.close()
