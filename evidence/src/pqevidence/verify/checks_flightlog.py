"""Telemetry logs of the cells: whole frames of this cell, as many as its source counted."""

from __future__ import annotations

from pqevidence.exchange import flightlog
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.raw import SHIFTED, Json
from pqevidence.scenario.conditions import keeps_flight_log

_NS_PER_US = 1000


def flight_log(cell: CellView, tally: Tally) -> None:
    """A log exactly where the scenario asks for one and the session took place; its frames are whole, lie
    between the ground's prepare and stop, and are as many as the source says it kept. Times that step back
    (the host's clock was set) and frames that no longer fitted are warnings."""
    path = cell.folder / flightlog.FILE
    if not keeps_flight_log(cell.run.scenario):
        tally.require(not path.is_file(), f"{cell.label}: a telemetry log that nobody asked for")
        return
    if not path.is_file():
        told = _told(cell)
        kept = int((told or {}).get("frame_count", 0))
        due = cell.verdict == "pass" or kept > 0
        tally.require(not due, f"{cell.label}: {flightlog.FILE} is missing, {kept} frames were kept")
        return
    tally.see()
    size = path.stat().st_size
    if size > flightlog.MAX_BYTES:
        tally.fail(f"{cell.label}: a log of {size} bytes, {flightlog.MAX_BYTES} are the most")
        return
    try:
        log = flightlog.looked_at(path.read_bytes())
    except flightlog.TlogError as error:
        tally.fail(f"{cell.label}: {error}")
        return
    told = _told(cell)
    if told is None:
        tally.fail(f"{cell.label}: {log.frames_count} frames, and traffic.json tells of no recording")
        return
    due_count, due_bytes = int(told["frame_count"]), int(told["bytes"])
    tally.require(
        (log.frames_count, size) == (due_count, due_bytes),
        f"{cell.label}: {log.frames_count} frames in {size} bytes, the source kept {due_count} in "
        f"{due_bytes}",
    )
    odd = (("unframed_count", "datagrams were no frames"), ("left_out_count", "frames did not fit"))
    for name, what in odd:
        if int(told[name]):
            tally.warn(f"{cell.label}: {told[name]} {what}")
    if log.backwards_count:
        tally.warn(f"{cell.label}: the ground's clock stepped back {log.backwards_count} times")
    elif log.first_us is not None and log.last_us is not None:
        _within(cell, tally, log.first_us, log.last_us)


def _told(cell: CellView) -> Json | None:
    """What the ground's source says of its recording; None where it says nothing."""
    report = ((cell.raw.traffic or {}).get("traffic") or {}).get("gcs") or {}
    found = (report.get("source_report") or {}).get("recording")
    return dict(found) if found is not None else None


def _within(cell: CellView, tally: Tally, first_us: int, last_us: int) -> None:
    """Both lie in the cell by the ground's own clock, unless its stamps were shifted on purpose."""
    events = cell.raw.events
    if any(event.get("event") == SHIFTED for event in events):
        return
    prepared = [e for e in events if (e.get("host"), e.get("event")) == ("gcs", "prepare")]
    begin_us = int(prepared[-1]["t_ns"]) // _NS_PER_US
    end_us = cell.stopped_ns("gcs") // _NS_PER_US + 1
    tally.require(
        begin_us <= first_us and last_us <= end_us,
        f"{cell.label}: frames from {first_us} to {last_us} µs, the cell lasted from {begin_us} to {end_us}",
    )
