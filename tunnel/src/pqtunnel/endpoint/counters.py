"""Counters of one cell: totals since `prepare`, and the share of each traffic window.

The data threads only ever add to plain dictionaries. A window's share is the difference of two snapshots,
so the hot path does not know that windows exist. What a window owns: everything from its opening to the
opening of the next one (or to now); what came before the first window belongs to the first. Late datagrams
therefore land in the window that sent them, and the windows always add up to the totals.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from pqtunnel.session import COUNTERS as SESSION

DATA_PLANE: Final = (
    "plaintext_in", "plaintext_in_bytes", "plaintext_out", "plaintext_out_bytes", "plaintext_announce",
    "gated", "wrong_source", "oversize", "oversize_link", "queue_full", "not_ready", "send_failed",
    "path_changed", "path_new_source", "control_dropped",
    *SESSION,
    "seal_count", "seal_ns_total", "open_count", "open_ns_total",
)  # fmt: skip
REKEY: Final = ("rekey_started", "rekey_completed", "rekey_failed", "rekey_coalesced")
HANDSHAKE: Final = (
    "hs_started", "hs_completed", "hs_bad_version", "hs_bad_length", "hs_bad_mac", "hs_unknown_suite",
    "hs_policy", "hs_bad_signature", "hs_bad_finished", "hs_timeout", "hs_rate_limited", "hs_half_open_limit",
    "hs_evicted", "hs_retry", "hs_early", "hs_stale_cookie", "hs_displaced", "hs_session_unknown", "hs_alert",
    "hs_failed", "hs_connection_lost", "hs_keygens", "hs_signatures", "hs_decaps", "hs_encaps", "hs_verifies",
)  # fmt: skip
_DIGESTS: Final = ("digest_tx", "digest_rx")
_DIGEST_MASK: Final = (1 << 64) - 1


class CellCounters:
    """Counters of one cell.

    `data` is written by the data threads alone: each key by one thread, or under the session lock.
    Digests are kept there as unbounded integers and reduced modulo 2^64 when read.
    """

    def __init__(self) -> None:
        self.data: dict[str, int] = dict.fromkeys(DATA_PLANE + _DIGESTS, 0)
        self._handshake: dict[str, int] = dict.fromkeys(HANDSHAKE, 0)
        self._rekey: dict[str, int] = dict.fromkeys(REKEY, 0)
        self._lock = threading.Lock()
        self._marks: list[tuple[str, dict[str, int]]] = []

    def add_handshake(self, counted: Mapping[str, int]) -> None:
        """Merge what one handshake counted; each handshake counts into its own mapping, then merges once."""
        with self._lock:
            for name, value in counted.items():
                self._handshake[name] = self._handshake.get(name, 0) + value

    def add_rekey(self, name: str) -> None:
        """Count one of REKEY."""
        with self._lock:
            self._rekey[name] += 1

    def now(self) -> dict[str, int]:
        """Totals of the data plane as they are."""
        return dict(self.data)

    def _by_window(self) -> dict[str, int]:
        """All that windows have a share of."""
        return {**self.now(), **self._rekey}

    def open_window(self, name: str) -> None:
        """From now on the data plane counts for window `name`."""
        with self._lock:
            now = self._by_window()
            start = now if self._marks else dict.fromkeys(now, 0)
            self._marks.append((name, start))

    @property
    def window_names(self) -> list[str]:
        """Names in the order of opening."""
        return [name for name, _ in self._marks]

    def snapshot(self) -> dict[str, object]:
        """All counters as JSON values; `windows` maps each window to its share of the data-plane ones."""
        with self._lock:
            now = self._by_window()
            handshake = dict(self._handshake)
            marks = list(self._marks)
        windows: dict[str, dict[str, object]] = {}
        for place, (name, start) in enumerate(marks):
            end = marks[place + 1][1] if place + 1 < len(marks) else now
            windows[name] = _presented({key: end[key] - start.get(key, 0) for key in end})
        return {**_presented(now), **handshake, "windows": windows}


def _presented(values: Mapping[str, int]) -> dict[str, object]:
    shown: dict[str, object] = {key: value for key, value in values.items() if key not in _DIGESTS}
    for key in _DIGESTS:
        shown[key] = f"{values.get(key, 0) & _DIGEST_MASK:016x}"
    return shown


def add_to(counters: dict[str, int], name: str, amount: int = 1) -> None:
    """Add to a counter that may not exist yet."""
    counters[name] = counters.get(name, 0) + amount
