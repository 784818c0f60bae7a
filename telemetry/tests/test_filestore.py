"""The telemetry file: bounded, whole ticks only, the newest half always there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pqtelemetry.errors import StoreError
from pqtelemetry.filestore import FileStore


def block(index: int) -> bytes:
    return f"m index={index}i {index}\nn index={index}i {index}\n".encode()


def test_rotation_keeps_whole_ticks_and_the_newest_half(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.lp"
    store = FileStore(path, max_bytes=4000)
    for index in range(1000):
        assert store.append(block(index))
        total = path.stat().st_size + (store.older.stat().st_size if store.older.exists() else 0)
        assert total <= 4000
    store.close()
    kept = store.older.read_bytes() + path.read_bytes()
    first = int(kept.split(b"index=", 1)[1].split(b"i", 1)[0])
    assert kept == b"".join(block(index) for index in range(first, 1000))
    assert len(kept) >= 2000


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
