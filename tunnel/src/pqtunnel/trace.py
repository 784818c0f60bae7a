"""Span trace of one handshake on one host's clock.

Steps follow one another without gap: `mark` reads the clock once, closes the open span there and opens the
next. Every span is a pair of readings of the same clock; none is the difference of two others. Step names
are the ones of docs/PROTOCOL.md, so that tests, traces and text speak of the same thing.

In scope: recording. Not in scope: writing rows to disk (the agent does).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal

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


class Tracer:
    """Spans of one handshake. `clock` returns monotonic nanoseconds. The machine sets `handshake_id` once the
    Challenge is known (16 hex digits, equal at both ends), `purpose` ("new" or "rekey"), and at the gcs
    `keygen`: whether the ephemeral key pair was made in this handshake ("cold") or taken ready ("pooled")."""

    __slots__ = (
        "_clock", "_open", "_sizes", "_spans", "handshake_id", "host", "index", "keygen", "mode", "purpose",
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
    ) -> None:
        self._clock = clock
        self._spans: list[tuple[str, Kind, int, int]] = []
        self._open: tuple[str, Kind, int] | None = None
        self._sizes: dict[int, int] = {}
        self.host = host
        self.index = index
        self.mode = mode
        self.suite_id = suite_id
        self.purpose = "new"
        self.keygen = "cold"
        self.handshake_id = ""

    def mark(self, step: str, kind: Kind) -> None:
        """Close the open span and open `step`, both at one reading of the clock."""
        now_ns = self._clock()
        if self._open is not None:
            self._spans.append((*self._open, now_ns))
        self._open = (step, kind, now_ns)

    def size(self, size_bytes: int) -> None:
        """Note the length of what the open span made (public key, ciphertext or signature)."""
        self._sizes[len(self._spans)] = size_bytes

    def finish(self) -> None:
        """Close the last span; calling again changes nothing."""
        if self._open is not None:
            self._spans.append((*self._open, self._clock()))
            self._open = None

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
            }
            for place, (step, kind, start_ns, end_ns) in enumerate([*self._spans, wall])
        ]
