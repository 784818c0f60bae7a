"""The telemetry file: bounded, whole ticks only, the newest seven eighths always there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pqtelemetry import segments
from pqtelemetry.errors import StoreError
from pqtelemetry.filestore import FileStore
from pqtelemetry.segments import SEGMENTS, oldest_first


def block(index: int) -> bytes:
    return f"m index={index}i {index}\nn index={index}i {index}\n".encode()


def test_rotation_keeps_whole_ticks_and_the_newest_seven_eighths(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.lp"
    store = FileStore(path, max_bytes=4000)
    for index in range(1000):
        assert store.append(block(index))
        assert sum(part.stat().st_size for part in tmp_path.iterdir()) <= 4000
    store.close()
    assert sorted(tmp_path.iterdir()) == sorted(oldest_first(path))
    kept = b"".join(part.read_bytes() for part in oldest_first(path))
    first = int(kept.split(b"index=", 1)[1].split(b"i", 1)[0])
    assert kept == b"".join(block(index) for index in range(first, 1000))
    # a tick that no longer fits begins the next segment
    assert len(kept) >= 4000 * 7 / 8 - SEGMENTS * len(block(999))


def test_the_bound_leaves_room_on_a_small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"total": 190_000_000, "used": 0, "free": 190_000_000}
    monkeypatch.setattr(segments.shutil, "disk_usage", lambda _: SimpleNamespace(**sizes))
    assert segments.default_bound_bytes(tmp_path / "telemetry.lp") == 47_500_000
    sizes["total"] = 10**12
    assert segments.default_bound_bytes(tmp_path / "telemetry.lp") == segments.MOST_BYTES
    monkeypatch.undo()
    assert segments.default_bound_bytes(tmp_path / "nowhere" / "telemetry.lp") == segments.MOST_BYTES


def test_the_longest_shipped_session_fits(tmp_path: Path) -> None:
    """25 kB a second at 10 Hz is the most that the lab's ends write (docs/TELEMETRY.md)."""
    scenarios = Path(__file__).parents[2] / "scenarios"
    longest_s = max(
        float(found[1])
        for file in scenarios.glob("*.yml")
        for found in re.finditer(r"session_s: *([0-9.]+)", file.read_text())
    )
    kept_s = segments.MOST_BYTES * (SEGMENTS - 1) / SEGMENTS / 25_000
    assert kept_s > longest_s >= 3600


def test_a_torn_last_line_of_a_killed_sampler_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.lp"
    path.write_bytes(block(1) + b"m index=2")
    store = FileStore(path)
    assert store.append(block(3))
    store.close()
    assert path.read_bytes() == block(1) + block(3)


def test_a_file_without_any_whole_line_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.lp"
    path.write_bytes(b"m index=2" * 20_000)
    store = FileStore(path)
    store.append(block(3))
    store.close()
    assert path.read_bytes() == block(3)


def test_a_full_disk_leaves_no_half_line_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "telemetry.lp"
    store = FileStore(path)
    store.append(block(1))
    real_write = os.write
    calls: list[int] = []

    def full(fd: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) % 2:
            return real_write(fd, data[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert not store.append(block(2))
    assert store.last_error == "No space left on device"
    monkeypatch.undo()
    assert store.append(block(3))
    assert store.last_error is None
    store.close()
    assert path.read_bytes() == block(1) + block(3)


def test_a_folder_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        FileStore(tmp_path / "nowhere" / "telemetry.lp")
    assert "--out" in caught.value.hint
