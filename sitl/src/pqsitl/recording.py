"""What one source received, kept as a telemetry log in memory until somebody fetches it.

Only whole MAVLink frames are kept, byte for byte, each with the clock when its datagram was read. What is no
frame, and what no longer fits, is counted and left out: a log must not grow with a session that never ends.
"""

from __future__ import annotations

import base64

from pqsitl.tlog import frame_length

MAX_BYTES = 64 << 20
"""An hour of 320 frames a second is 61 MB."""
CHUNK_BYTES = 32_768
"""A piece of the log as it is fetched; it ends with a whole frame."""
PAGE_CHUNKS = 64
_HEAD_BYTES = 3


class Recording:
    """Frames in the order they came; `take` on the source's thread, the rest once that has ended."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._chunks: list[bytearray] = [bytearray()]
        self.frame_count = 0
        self.byte_count = 0
        self.unframed_count = 0
        """Datagrams that are not whole MAVLink frames from end to end; nothing of them is kept."""
        self.left_out_count = 0
        """Frames that came when the log was full."""

    def take(self, datagram: bytes, time_ns: int) -> None:
        """Keep the frames of one datagram; `time_ns`: realtime clock when it was read."""
        frames = _frames(datagram)
        if frames is None:
            self.unframed_count += 1
            return
        stamp = (time_ns // 1000).to_bytes(8, "big")
        for frame in frames:
            size = len(stamp) + len(frame)
            # once full it stays so: a smaller frame that still fits would make a gap that nobody sees
            if self.left_out_count or self.byte_count + size > self._max_bytes:
                self.left_out_count += 1
                continue
            if len(self._chunks[-1]) + size > CHUNK_BYTES:
                self._chunks.append(bytearray())
            self._chunks[-1] += stamp + frame
            self.frame_count += 1
            self.byte_count += size

    def account(self) -> dict[str, int]:
        """Counts for the source's report."""
        return {
            "frame_count": self.frame_count,
            "bytes": self.byte_count,
            "unframed_count": self.unframed_count,
            "left_out_count": self.left_out_count,
        }

    def page(self, since: int) -> dict[str, object]:
        """{chunks, next, end, total}: pieces of the log from number `since` on, base64; together they are a
        .tlog file."""
        total = len(self._chunks) if self.frame_count else 0
        chunks = self._chunks[since : min(since + PAGE_CHUNKS, total)]
        reached = since + len(chunks)
        text = [base64.b64encode(chunk).decode("ascii") for chunk in chunks]
        return {"chunks": text, "next": reached, "end": reached >= total, "total": total}


def _frames(datagram: bytes) -> list[bytes] | None:
    """The MAVLink frames that a datagram is made of; None when it is not made of whole ones."""
    found: list[bytes] = []
    offset = 0
    while offset < len(datagram):
        head = datagram[offset : offset + _HEAD_BYTES]
        length = frame_length(head) if len(head) == _HEAD_BYTES else None
        if length is None or offset + length > len(datagram):
            return None
        found.append(datagram[offset : offset + length])
        offset += length
    return found or None
