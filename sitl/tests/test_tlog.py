"""Telemetry logs: written and read by us and by pymavlink, replayed by their stamps."""

from __future__ import annotations

from pathlib import Path

import pytest
from pymavlink import mavutil
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.errors import TlogError
from pqsitl.profile import load_profile
from pqsitl.tlog import TlogFrame, load_replay, read_frames, write_frames
from pqsitl.vehicle import EmbeddedVehicle

START_US = 1_700_000_000_000_000


def recorded(seconds: float = 2.0) -> list[TlogFrame]:
    vehicle = EmbeddedVehicle(load_profile(), 320.0, 1, 0)
    frames: list[TlogFrame] = []
    while (now_ns := vehicle.next_ns) < seconds * 1e9:
        frames += [TlogFrame(START_US + now_ns // 1000, frame) for frame in vehicle.poll(now_ns)]
    return frames


def ground_frame(time_us: int) -> TlogFrame:
    station = mav.MAVLink(None, srcSystem=255, srcComponent=190)
    return TlogFrame(time_us, bytes(mav.MAVLink_heartbeat_message(6, 8, 0, 0, 4, 3).pack(station)))


def test_round_trip_is_byte_for_byte(tmp_path: Path) -> None:
    frames = recorded()
    path = tmp_path / "flight.tlog"
    write_frames(path, frames)
    assert list(read_frames(path.read_bytes())) == frames


def test_pymavlink_reads_what_we_write(tmp_path: Path) -> None:
    frames = recorded(1.0)
    path = tmp_path / "flight.tlog"
    write_frames(path, frames)
    log = mavutil.mavlink_connection(str(path))
    seen = []
    while (message := log.recv_msg()) is not None:
        seen.append((round(message._timestamp * 1e6), bytes(message.get_msgbuf())))
    assert [frame for _, frame in seen] == [item.frame for item in frames]
    assert seen[-1][0] == pytest.approx(frames[-1].time_us, abs=1)


def test_we_read_what_pymavlink_writes(tmp_path: Path) -> None:
    path = tmp_path / "raw.tlog"
    v1 = mav.MAVLink(None, srcSystem=1, srcComponent=1)
    heartbeat = mav.MAVLink_heartbeat_message(2, 3, 0, 4, 4, 3)
    path.write_bytes(START_US.to_bytes(8, "big") + bytes(heartbeat.pack(v1, force_mavlink1=True)))
    (frame,) = read_frames(path.read_bytes())
    assert (frame.frame[0], frame.system_id, frame.message_id) == (0xFE, 1, 0)
    assert load_replay(path).system_id == 1


def test_replay_takes_the_autopilots_half_and_keeps_its_gaps(tmp_path: Path) -> None:
    frames = recorded()
    mixed = [ground_frame(START_US), *frames[:100], ground_frame(frames[100].time_us), *frames[100:]]
    path = tmp_path / "flight.tlog"
    write_frames(path, mixed)
    replay = load_replay(path)
    assert (replay.system_id, replay.skipped_count, replay.reordered_count) == (1, 2, 0)
    assert [frame for _, frame in replay.frames] == [item.frame for item in frames]
    assert [offset for offset, _ in replay.frames] == [
        (item.time_us - frames[0].time_us) * 1000 for item in frames
    ]


def test_stamps_that_step_back_are_counted_and_never_replayed_backwards(tmp_path: Path) -> None:
    frames = recorded(1.0)
    frames[50] = TlogFrame(frames[50].time_us - 500_000, frames[50].frame)
    path = tmp_path / "flight.tlog"
    write_frames(path, frames)
    replay = load_replay(path)
    offsets = [offset for offset, _ in replay.frames]
    assert replay.reordered_count == 1
    assert offsets == sorted(offsets)


def test_bad_logs_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.tlog"
    with pytest.raises(TlogError, match="cannot read"):
        load_replay(path)
    path.write_bytes(b"BIN log, not a tlog at all")
    with pytest.raises(TlogError, match="offset 0"):
        load_replay(path)
    write_frames(path, recorded(0.5))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(TlogError, match="cut off"):
        load_replay(path)
    write_frames(path, [ground_frame(START_US)])
    with pytest.raises(TlogError, match="no autopilot"):
        load_replay(path)
    path.write_bytes(b"")
    with pytest.raises(TlogError, match="no autopilot"):
        load_replay(path)
