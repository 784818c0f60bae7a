"""Telemetry logs that do not belong to their cell."""

from __future__ import annotations

from pathlib import Path

from bad_bundles.forge import Registry, cells, finish, registering

BAD: Registry = {}
#: a HEARTBEAT of a quadrotor behind its time
FRAME = bytes.fromhex("00060a24181e4000fd0900000001010000000000000002035101030000a1b2")


@registering(BAD, "flight_log")
def log_nobody_asked_for(root: Path) -> None:
    """A cell shows a telemetry log, and its scenario lets nobody keep one."""
    (cells(root)[0] / "mavlink.gcs.tlog").write_bytes(FRAME)
    finish(root)
