"""What a traffic window offers, datagram by datagram: MAVLink after the measured profile, and bulk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from pqbase.documents import Json, number_of, whole_of
from pqlab.sim.end import Role
from pqsitl.profile import UPLINK_TIMESYNC_HZ, load_profile
from pqsitl.schedule import BurstSchedule

NS = 1_000_000_000
HEARTBEAT_BYTES = 21
TIMESYNC_BYTES = 28


@dataclass(frozen=True)
class Offer:
    """One plaintext datagram; `asks`: a TIMESYNC probe that the vehicle answers."""

    at_ns: int
    sender: Role
    size_bytes: int
    asks: bool = False


def offers(spec: Json, open_ns: int, end_ns: int) -> list[Offer]:
    """All of a window, in no particular order; answers to probes come on top."""
    return _bulk(spec, open_ns, end_ns) if spec["source"] == "bulk" else _session(spec, open_ns, end_ns)


def _session(spec: Json, open_ns: int, end_ns: int) -> list[Offer]:
    profile = load_profile(str(spec["profile"]))
    schedule = BurstSchedule(profile, number_of(spec, "rate_hz"), open_ns)
    sizes = profile.sizes
    found: list[Offer] = []
    while (at_ns := schedule.next_ns) < end_ns:
        found += [Offer(at_ns, "drone", sizes[name]) for name in schedule.take(at_ns)]
    for rate_hz, size, asks in ((1.0, HEARTBEAT_BYTES, False), (UPLINK_TIMESYNC_HZ, TIMESYNC_BYTES, True)):
        step_ns = round(NS / rate_hz)
        found += [Offer(at_ns, "gcs", size, asks) for at_ns in range(open_ns + step_ns // 4, end_ns, step_ns)]
    return found


def _bulk(spec: Json, open_ns: int, end_ns: int) -> list[Offer]:
    count = round((end_ns - open_ns) * number_of(spec, "rate_hz") / NS)
    size = whole_of(spec, "size_bytes")
    return [Offer(open_ns + (end_ns - open_ns) * n // count, "drone", size) for n in range(count)]


class Report(TypedDict):
    """What a source or a sink counted; sizes: datagrams by their length in bytes."""

    count: int
    bytes: int
    first_ns: int | None
    last_ns: int | None
    sizes: dict[str, int]
    corrupt: int
    duplicate: int
    missing: int


class Tally:
    """What a source or a sink reports of its datagrams; times are realtime nanoseconds."""

    def __init__(self) -> None:
        self.report: Report = {
            "count": 0,
            "bytes": 0,
            "first_ns": None,
            "last_ns": None,
            "sizes": {},
            "corrupt": 0,
            "duplicate": 0,
            "missing": 0,
        }

    def note(self, size: int, t_ns: int) -> None:
        report = self.report
        report["count"] += 1
        report["bytes"] += size
        report["first_ns"] = t_ns if report["first_ns"] is None else report["first_ns"]
        report["last_ns"] = t_ns
        report["sizes"][str(size)] = report["sizes"].get(str(size), 0) + 1
