"""What a source has sent, counted where it leaves."""

from __future__ import annotations

from collections import Counter


class SentAccount:
    """Count, bytes, first and last time (realtime ns) and sizes of the datagrams handed to the kernel."""

    def __init__(self) -> None:
        self.count = 0
        self.byte_count = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.sizes: Counter[int] = Counter()

    def add(self, size_bytes: int, now_ns: int) -> None:
        """One datagram left at `now_ns`."""
        self.count += 1
        self.byte_count += size_bytes
        if self.first_ns is None:
            self.first_ns = now_ns
        self.last_ns = now_ns
        self.sizes[size_bytes] += 1

    def as_dict(self) -> dict[str, object]:
        """{count, bytes, first_ns, last_ns, sizes}; times are null while nothing was sent."""
        return {
            "count": self.count,
            "bytes": self.byte_count,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "sizes": {str(size): count for size, count in sorted(self.sizes.items())},
        }


class BesideAccount:
    """Frames of a vehicle that are no part of its measured mix: what it was asked for, and what happened."""

    def __init__(self) -> None:
        self._sizes: Counter[int] = Counter()
        self._kinds: Counter[str] = Counter()

    def add(self, kind: str, size_bytes: int) -> None:
        """One frame."""
        self._sizes[size_bytes] += 1
        self._kinds[kind] += 1

    def as_dict(self) -> dict[str, object]:
        """{count, sizes: {bytes: count}, kinds: {message: count}}."""
        return {
            "count": self._sizes.total(),
            "sizes": {str(size): count for size, count in sorted(self._sizes.items())},
            "kinds": dict(sorted(self._kinds.items())),
        }
