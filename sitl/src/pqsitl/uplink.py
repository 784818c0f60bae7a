"""The ground's own traffic: GCS heartbeat 1 Hz and TIMESYNC 2 Hz as a client of MAVProxy, with RTT samples.

The round trip runs client → MAVProxy-gcs → tunnel → MAVProxy-air → vehicle and back; TIMESYNC carries the
client's own monotonic clock, so no two clocks are ever compared. Its stamps lie above 2^56 so that a frame
keeps its length whatever the host's uptime (MAVLink 2 cuts trailing zero bytes).
"""

from __future__ import annotations

import select
import time

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.net import UdpLink
from pqsitl.profile import UPLINK_TIMESYNC_HZ
from pqsitl.recording import Recording
from pqsitl.sources import MAX_WAIT_S, Source
from pqsitl.spec import TrafficSpec
from pqsitl.workload import VEHICLE, WorkloadClient

CLIENT_SYSTEM_ID, CLIENT_COMPONENT_ID = 255, 190
HEARTBEAT_PERIOD_NS = 1_000_000_000
STAMP_OFFSET_NS = 1 << 60
TIMESYNC_PERIOD_NS = round(1e9 / UPLINK_TIMESYNC_HZ)


class UplinkProbe:
    """Sans-IO half: which frames are due, which replies belong to which request."""

    def __init__(self, start_ns: int) -> None:
        self._mav = mav.MAVLink(None, srcSystem=CLIENT_SYSTEM_ID, srcComponent=CLIENT_COMPONENT_ID)
        self._mav.robust_parsing = True
        self._heartbeat_ns = start_ns
        self._timesync_ns = start_ns + TIMESYNC_PERIOD_NS // 4  # apart from the heartbeat
        self._open: set[int] = set()
        self.rtt_ns: list[int] = []
        self.timesync_sent = 0
        self.frame_count = 0

    @property
    def next_ns(self) -> int:
        return min(self._heartbeat_ns, self._timesync_ns)

    def poll(self, now_ns: int) -> list[bytes]:
        """Frames due by `now_ns`; periods that were slept through are skipped, not caught up."""
        frames: list[bytes] = []
        if now_ns >= self._heartbeat_ns:
            frames.append(self.heartbeat())
            self._heartbeat_ns += HEARTBEAT_PERIOD_NS * (
                1 + (now_ns - self._heartbeat_ns) // HEARTBEAT_PERIOD_NS
            )
        if now_ns >= self._timesync_ns:
            self._open.add(now_ns + STAMP_OFFSET_NS)
            self.timesync_sent += 1
            frames.append(self.frame(mav.MAVLink_timesync_message(0, now_ns + STAMP_OFFSET_NS)))
            self._timesync_ns += TIMESYNC_PERIOD_NS * (1 + (now_ns - self._timesync_ns) // TIMESYNC_PERIOD_NS)
        return frames

    def heartbeat(self) -> bytes:
        """A ground station's heartbeat, now."""
        return self.frame(
            mav.MAVLink_heartbeat_message(
                mav.MAV_TYPE_GCS, mav.MAV_AUTOPILOT_INVALID, 0, 0, mav.MAV_STATE_ACTIVE, 3
            )
        )

    def receive(self, datagram: bytes, now_ns: int) -> list[bytes]:
        """Take a reply's RTT or answer the vehicle's own request; everything else only counts."""
        self.frame_count += 1
        # Telemetry at full rate passes here: only TIMESYNC (message id 111) is worth decoding.
        if len(datagram) < 12 or datagram[0] != 0xFD or datagram[7:10] != b"\x6f\0\0":
            return []
        answers: list[bytes] = []
        for message in self._mav.parse_buffer(datagram) or []:
            if not isinstance(message, mav.MAVLink_timesync_message):
                continue
            if message.tc1 == 0:
                answers.append(self.frame(mav.MAVLink_timesync_message(now_ns, message.ts1)))
            elif message.ts1 in self._open:
                self._open.discard(message.ts1)
                self.rtt_ns.append(now_ns + STAMP_OFFSET_NS - message.ts1)
        return answers

    def frame(self, message: mav.MAVLink_message) -> bytes:
        """The message as a frame of this station, under its running sequence number."""
        frame = message.pack(self._mav)
        self._mav.seq = (self._mav.seq + 1) & 0xFF
        return frame


class UplinkSource(Source):
    """The probe in real time."""

    name = "uplink"
    drain_s = 0.3
    """After `stop` the last replies may still be on their way."""

    def __init__(self, link: UdpLink, spec: TrafficSpec) -> None:
        super().__init__(link, spec)
        self._probe: UplinkProbe | None = None
        self.recording = Recording() if spec.record else None
        self._workload = None if spec.workload is None else WorkloadClient(spec.workload, spec.seed)

    def detail(self) -> dict[str, object]:
        return {"heartbeat_hz": 1.0, "timesync_hz": UPLINK_TIMESYNC_HZ, "client_of": f"{self.link.peer}"}

    def report(self) -> dict[str, object]:
        report = super().report()
        probe = self._probe
        rtt_ns = [] if probe is None else list(probe.rtt_ns)
        if self.recording is not None:
            report["recording"] = self.recording.account()
        if self._workload is not None:
            report["workload"] = self._workload.report()
        return report | {
            "rtt_ms": [value / 1e6 for value in rtt_ns],
            "timesync_sent": 0 if probe is None else probe.timesync_sent,
            "timesync_answered": len(rtt_ns),
            "downlink_frame_count": 0 if probe is None else probe.frame_count,
        }

    def run(self) -> None:
        probe = self._probe = UplinkProbe(time.monotonic_ns())
        recording, workload = self.recording, self._workload
        drain_end_ns: int | None = None
        while True:
            now_ns = time.monotonic_ns()
            if drain_end_ns is None and self.finished(now_ns):
                drain_end_ns = now_ns + round(self.drain_s * 1e9)
            if drain_end_ns is not None and (
                now_ns >= drain_end_ns or len(probe.rtt_ns) == probe.timesync_sent
            ):
                return
            if drain_end_ns is None:
                for frame in probe.poll(now_ns):
                    self.send(frame)
                for message in workload.poll(now_ns) if workload is not None else ():
                    self.send(probe.frame(message))
            next_ns = probe.next_ns
            if workload is not None and (due_ns := workload.next_ns) is not None:
                next_ns = min(next_ns, due_ns)
            wait_s = min(max(0.0, (next_ns - time.monotonic_ns()) / 1e9), MAX_WAIT_S)
            ready, _, _ = select.select([self.link.socket], [], [], wait_s)
            while ready and (datagram := self.link.receive()) is not None:
                if recording is not None:
                    recording.take(datagram, time.time_ns())
                came_ns = time.monotonic_ns()
                for answer in probe.receive(datagram, came_ns):
                    self.send(answer)
                if workload is not None:
                    if datagram[5:6] == bytes(VEHICLE[:1]):
                        workload.begin(came_ns)
                    for message in workload.receive(datagram, came_ns):
                        self.send(probe.frame(message))
