"""What is known of a session outside it: its counters, its silence, its receiver indices. Sessions
themselves are native (`pq_core.Session`); their specification is `pqspec.session`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

SILENCE_NS: Final = 3_000_000_000
"""So long without an authentic packet, and the drone dials again."""

COUNTERS: Final = (
    "tx_data", "tx_data_bytes", "tx_keepalive", "tx_epoch_ack", "tx_rekey_request", "tx_path_challenge",
    "tx_path_response", "rx_ok", "rx_ok_bytes", "rx_late", "rx_keepalive", "rx_epoch_ack", "rx_rekey_request",
    "rx_path_challenge", "rx_path_response",
    "bad_header", "unknown_index", "auth_failed", "duplicate", "replay", "old_epoch",
)  # fmt: skip


class IndexTable(Protocol):
    """What knows which receiver indices are free."""

    def index_is_free(self, index: int) -> bool: ...


def new_index(rng: Callable[[int], bytes], session: IndexTable) -> int:
    """A random 24-bit receiver index that is free in `session`."""
    while True:
        index = int.from_bytes(rng(3), "big")
        if session.index_is_free(index):
            return index
