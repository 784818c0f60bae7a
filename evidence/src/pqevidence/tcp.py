"""What TCP starts with, as far as a handshake over a radio depends on it."""

from __future__ import annotations

from typing import Final

#: segments of the first window (RFC 6928)
INITIAL_WINDOW: Final = 10.0
#: timer of a SYN (RFC 6298)
FIRST_TIMEOUT_NS: Final = 1_000_000_000
#: least timer, Linux's own
LEAST_TIMEOUT_NS: Final = 200_000_000
