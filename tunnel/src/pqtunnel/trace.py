"""Span trace of one handshake on one host's clock.

Steps follow one another without gap: `mark` reads the clock once, closes the open span there and opens the
next. Every span is a pair of readings of the same clock; none is the difference of two others. Step names
are the ones of docs/PROTOCOL.md, so that tests, traces and text speak of the same thing.

Where a meter is given, each end's wall carries what the scheduler did with its thread meanwhile: processor
time, time runnable without a processor, involuntary switches. The rest of the wall it slept, waiting for the
peer. Primitives never sleep: their spans carry processor time alone, and what lacks in it was waiting. Other
spans carry none, because a reading of the thread's clock costs 0.6 µs and a handshake has 32 of them.

A whole reading costs 2 to 7 µs and what it drives out of the caches. Neither end takes one while the other
waits: the drone reads before it connects, the gcs before it waits for a connection.

In scope: recording. Not in scope: writing rows to disk (the agent does).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

from pqtunnel.scheduling import NO_THREAD, Meter, NoMeter, Reading

Kind = Literal["crypto", "network_wait", "codec", "kdf", "io", "wall"]

DRONE_STEPS: Final[dict[str, Kind]] = {
    "connect": "io",
    "wait_challenge": "network_wait",
    "hello": "codec",
    "send_hello": "io",
    "wait_server_hello": "network_wait",
    "transcript": "codec",
    "verify": "crypto",
    "encaps": "crypto",
    "kdf": "kdf",
    "transcript_2": "codec",
    "sign": "crypto",
    "client_kem": "codec",
    "send_client_kem": "io",
    "wait_finished": "network_wait",
    "verify_finished": "kdf",
}
GCS_STEPS: Final[dict[str, Kind]] = {
    "accept": "io",
    "challenge": "codec",
    "send_challenge": "io",
    "wait_hello": "network_wait",
    "check_hello": "kdf",
    "keygen": "crypto",
    "transcript": "codec",
    "sign": "crypto",
    "server_hello": "codec",
    "send_server_hello": "io",
    "wait_client_kem": "network_wait",
    "check_finished": "kdf",
    "verify": "crypto",
    "decaps": "crypto",
    "kdf": "kdf",
    "finished": "codec",
    "send_finished": "io",
}


class Heard(Protocol):
    """What a native conversation recorded, on the tracer's clock."""

    @property
    def marks(self) -> Sequence[tuple[str, int]]:
        """(step, start_ns), in order."""

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        """(place in `marks`, length of what the step made)."""

    @property
    def cpu(self) -> Sequence[tuple[int, int, int]]:
        """(place in `marks`, the thread's clock at its start, at its end)."""

    @property
    def end_ns(self) -> int:
        """When the last step ended."""


class Tracer:
    """Spans of one handshake. `clock` returns monotonic nanoseconds. The machine sets `handshake_id` once the
    Challenge is known (16 hex digits, equal at both ends), `purpose` ("new" or "rekey"), and at the gcs
    `keygen`: whether the ephemeral key pair was made in this handshake ("cold") or taken ready ("pooled")."""

    __slots__ = (
        "_before", "_begin", "_begin_cpu_ns", "_cpu", "_end", "_last_ns", "_meter", "_meter_primitives",
        "_open", "_sizes", "_spans", "clock", "handshake_id", "host", "index", "keygen", "mode", "purpose",
        "suite_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        clock: Callable[[], int] = time.perf_counter_ns,
        host: str = "",
        index: int = 0,
        mode: str = "cold",
        suite_id: str = "",
        meter: Meter | None = None,
        meter_primitives: bool = True,
        before: Reading | None = None,
    ) -> None:
        """`before`: what was read just before the thread slept until this handshake came; None: read at the
        first mark. What the thread waited for a processor when it was woken is then part of the handshake."""
        self.clock = clock
        self._spans: list[tuple[str, Kind, int, int]] = []
        self._open: tuple[str, Kind, int] | None = None
        self._sizes: dict[int, int] = {}
        self._meter: Meter = NoMeter(NO_THREAD) if meter is None else meter
        self._meter_primitives = meter_primitives
        self._cpu: dict[int, tuple[int, int]] = {}
        """Thread clock at the start and the end of the primitives' spans."""
        self._before = before
        self._begin: Reading | None = None
        self._begin_cpu_ns: int | None = None
        """At the first mark, also where the rest was read before it."""
        self._end: Reading | None = None
        self._last_ns: int | None = None
        """When the last span ended, where another clock reading than `finish`'s says so."""
        self.host = host
        self.index = index
        self.mode = mode
        self.suite_id = suite_id
        self.purpose = "new"
        self.keygen = "cold"
        self.handshake_id = ""

    def mark(self, step: str, kind: Kind) -> None:
        """Close the open span and open `step`, both at one reading of the clock.

        The thread's clock is read on the side of the edge that is no primitive, so that none pays for it.
        """
        if kind == "crypto":
            cpu_ns = self._meter.cpu_ns() if self._meter_primitives else None
            now_ns = self._shut(self.clock())
            if cpu_ns is not None:
                self._note_end(cpu_ns)
                self._cpu[len(self._spans)] = (cpu_ns, cpu_ns)
        else:
            if self._open is None and not self._spans:
                self._read_first()
            after_primitive = self._meter_primitives and self._open is not None and self._open[1] == "crypto"
            now_ns = self._shut(self.clock())
            if after_primitive and (cpu_ns := self._meter.cpu_ns()) is not None:
                self._note_end(cpu_ns)
        self._open = (step, kind, now_ns)

    def _read_first(self) -> None:
        if self._before is not None:
            self._begin_cpu_ns = self._meter.cpu_ns()
        if self._begin_cpu_ns is None:
            self._before = None
            self._begin = self._meter.begin()
            self._begin_cpu_ns = None if self._begin is None else self._begin.cpu_ns
        else:
            self._begin = self._before

    def _shut(self, now_ns: int) -> int:
        if self._open is not None:
            self._spans.append((*self._open, now_ns))
        return now_ns

    def _note_end(self, cpu_ns: int) -> None:
        place = len(self._spans) - 1
        if place in self._cpu:
            self._cpu[place] = (self._cpu[place][0], cpu_ns)

    def size(self, size_bytes: int) -> None:
        """Note the length of what the open span made (public key, ciphertext or signature)."""
        self._sizes[len(self._spans)] = size_bytes

    @property
    def meters_primitives(self) -> bool:
        """Are spans of primitives to carry processor time?"""
        return self._meter_primitives and self._meter.reason is None

    def take_in(self, heard: Heard) -> None:
        """The steps of a native conversation, after what was marked here."""
        kinds = DRONE_STEPS if self.host == "drone" else GCS_STEPS
        first = len(self._spans) + (self._open is not None)
        for step, start_ns in heard.marks:
            self._shut(start_ns)
            self._open = (step, kinds[step], start_ns)
        self._sizes.update({first + place: size_bytes for place, size_bytes in heard.sizes})
        self._cpu.update({first + place: (begin_ns, end_ns) for place, begin_ns, end_ns in heard.cpu})
        self._last_ns = heard.end_ns

    def finish(self) -> None:
        """Close the last span; calling again changes nothing."""
        if self._open is not None:
            self._shut(self.clock() if self._last_ns is None else self._last_ns)
            self._open = None
            self._end = self._meter.end()

    @property
    def wall_ns(self) -> int:
        """From the first step's start to the last one's end; 0 of nothing."""
        return self._spans[-1][3] - self._spans[0][2] if self._spans else 0

    def _scheduling(self) -> dict[str, object]:
        """What the wall carries; nulls and the reason where nothing can be read."""
        if self._begin is None or self._begin_cpu_ns is None or self._end is None:
            reason = self._meter.reason or NO_THREAD
            return {"cpu_ns": None, "runqueue_ns": None, "involuntary": None, "scheduling_reason": reason}
        cpu_ns = self._end.cpu_ns - self._begin_cpu_ns
        runqueue_ns = self._end.runqueue_ns - self._begin.runqueue_ns
        if self._before is not None:  # of a wait that began before the wall, at most what the wall leaves
            runqueue_ns = min(runqueue_ns, max(0, self.wall_ns - cpu_ns))
        return {
            "cpu_ns": cpu_ns,
            "runqueue_ns": runqueue_ns,
            "involuntary": self._end.involuntary - self._begin.involuntary,
        }

    def _cpu_of(self, place: int) -> dict[str, object]:
        if place not in self._cpu:
            return {}
        begin_ns, end_ns = self._cpu[place]
        return {"cpu_ns": end_ns - begin_ns}

    def spans(self) -> list[tuple[str, Kind, int, int]]:
        """Closed spans as (step, kind, start_ns, end_ns), in order."""
        return list(self._spans)

    def rows(self) -> list[dict[str, object]]:
        """Closed spans as rows of spans.ndjson, and last the row `handshake`: this host's whole wall.

        A span whose product has a size carries `size_bytes`. Empty when nothing was recorded.
        """
        if not self._spans:
            return []
        wall: tuple[str, Kind, int, int] = ("handshake", "wall", self._spans[0][2], self._spans[-1][3])
        return [
            {
                "host": self.host,
                "handshake_id": self.handshake_id,
                "index": self.index,
                "mode": self.mode,
                "purpose": self.purpose,
                **({"keygen": self.keygen} if self.host == "gcs" else {}),
                "suite_id": self.suite_id,
                "step": step,
                "start_ns": start_ns,
                "end_ns": end_ns,
                "clock": "monotonic",
                "kind": kind,
                **({"size_bytes": self._sizes[place]} if place in self._sizes else {}),
                **(self._scheduling() if kind == "wall" else self._cpu_of(place)),
            }
            for place, (step, kind, start_ns, end_ns) in enumerate([*self._spans, wall])
        ]
