"""Telemetry logs as MAVProxy and pymavlink write them: 8-byte big-endian µs since 1970, then a raw frame."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pqsitl.errors import TlogError

_MAGIC_V1, _MAGIC_V2 = 0xFE, 0xFD
_SIGNED_FLAG = 0x01
_SIGNATURE_BYTES = 13
_AUTOPILOT_INVALID, _TYPE_GCS, _HEARTBEAT = 8, 6, 0


@dataclass(frozen=True)
class TlogFrame:
    """One logged frame; `time_us` as logged, the two low bits are MAVProxy's link number."""

    time_us: int
    frame: bytes

    @property
    def system_id(self) -> int:
        return self.frame[5] if self.frame[0] == _MAGIC_V2 else self.frame[3]

    @property
    def message_id(self) -> int:
        if self.frame[0] == _MAGIC_V2:
            return int.from_bytes(self.frame[7:10], "little")
        return self.frame[5]

    @property
    def payload(self) -> bytes:
        head = 10 if self.frame[0] == _MAGIC_V2 else 6
        return self.frame[head : head + self.frame[1]]


def frame_length(head: bytes) -> int | None:
    """Whole length of the frame that begins with `head` (≥ 3 bytes); None when it is no MAVLink frame."""
    if head[0] == _MAGIC_V2:
        return 12 + head[1] + (_SIGNATURE_BYTES if head[2] & _SIGNED_FLAG else 0)
    return 8 + head[1] if head[0] == _MAGIC_V1 else None


def read_frames(data: bytes) -> Iterator[TlogFrame]:
    """Frames in order; TlogError names the offset of what is no frame or is cut off."""
    offset = 0
    while offset < len(data):
        head = data[offset + 8 : offset + 11]
        length = frame_length(head) if len(head) == 3 else None
        if length is None:
            raise TlogError(
                f"no MAVLink frame at offset {offset} of {len(data)}",
                "give a .tlog as MAVProxy writes it (not a .bin or .raw log)",
            )
        end = offset + 8 + length
        if end > len(data):
            raise TlogError(
                f"the last frame at offset {offset} is cut off", "copy the log again or cut it there"
            )
        yield TlogFrame(int.from_bytes(data[offset : offset + 8], "big"), data[offset + 8 : end])
        offset = end


def write_frames(path: Path, frames: Iterable[TlogFrame]) -> None:
    """Write a log that `read_frames` and pymavlink read."""
    path.write_bytes(b"".join(item.time_us.to_bytes(8, "big") + item.frame for item in frames))


@dataclass(frozen=True)
class Replay:
    """What of a log is replayed: the autopilot's own frames, with offsets in ns from the first."""

    sha256: str
    system_id: int
    frames: tuple[tuple[int, bytes], ...]
    skipped_count: int
    """Frames of other systems: a ground station's half of the conversation."""
    reordered_count: int
    """Stamps below their predecessor; they are replayed at the predecessor's time."""

    @property
    def duration_s(self) -> float:
        return self.frames[-1][0] / 1e9


def _autopilot_id(frames: list[TlogFrame]) -> int | None:
    for item in frames:
        if item.message_id == _HEARTBEAT:
            payload = item.payload.ljust(9, b"\0")
            if payload[4] != _TYPE_GCS and payload[5] != _AUTOPILOT_INVALID:
                return item.system_id
    return None


def load_replay(path: Path) -> Replay:
    """Read a log; TlogError when it is missing, malformed or holds no autopilot."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TlogError(
            f"cannot read {path}: {error.strerror}", "give the path as the sitl container sees it"
        ) from error
    frames = list(read_frames(data))
    system_id = _autopilot_id(frames)
    if system_id is None:
        raise TlogError(
            f"{path} holds no autopilot's HEARTBEAT", "record a log while the vehicle is connected"
        )
    kept: list[tuple[int, bytes]] = []
    reordered = 0
    first_us: int | None = None
    latest_ns = 0
    for item in frames:
        if item.system_id != system_id:
            continue
        first_us = item.time_us if first_us is None else first_us
        offset_ns = (item.time_us - first_us) * 1000
        if offset_ns < latest_ns:
            reordered += 1
            offset_ns = latest_ns
        latest_ns = offset_ns
        kept.append((offset_ns, item.frame))
    digest = hashlib.sha256(data).hexdigest()
    return Replay(digest, system_id, tuple(kept), len(frames) - len(kept), reordered)
