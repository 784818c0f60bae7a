"""Traffic sources in real time: one thread each, an absolute schedule, everything sent is counted."""

from __future__ import annotations

import select
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from pathlib import Path

from pqsitl.account import SentAccount
from pqsitl.bulk import BulkStream
from pqsitl.errors import SpecError
from pqsitl.net import UdpLink
from pqsitl.profile import load_profile
from pqsitl.recording import Recording
from pqsitl.spec import TrafficSpec
from pqsitl.streams_name import MEASURED
from pqsitl.tlog import load_replay
from pqsitl.vehicle import EmbeddedVehicle
from pqsitl.visitors import UplinkAccount

MAX_WAIT_S = 0.1
"""A source looks this often whether it shall stop."""


class Source(ABC):
    """A thread between `start` and `stop`; a failure ends it and stands in its report."""

    name = "source"
    recording: Recording | None = None
    """What it received, where it was asked to keep that."""

    def __init__(self, link: UdpLink, spec: TrafficSpec) -> None:
        self.link = link
        self.spec = spec
        self.account = SentAccount()
        self.error: str | None = None
        self.unsent_count = 0
        self._stopping = threading.Event()
        self._deadline_ns: int | None = None
        self._thread = threading.Thread(target=self._guarded, name=f"source-{self.name}", daemon=True)

    def start(self) -> dict[str, object]:
        """Begin sending; the detail for the answer."""
        self.link.drain()
        if self.spec.duration_s is not None:
            self._deadline_ns = time.monotonic_ns() + round(self.spec.duration_s * 1e9)
        self._thread.start()
        return self.detail()

    def stop(self) -> dict[str, object]:
        """End sending; {sent, error, …} once the thread has ended."""
        self._stopping.set()
        self._thread.join(timeout=5.0)
        if self._thread.is_alive():
            self.error = self.error or "the source did not stop within 5 s"
        return self.report()

    def report(self) -> dict[str, object]:
        """What was sent so far; safe to call while running."""
        return {
            "sent": self.account.as_dict(),
            "error": self.error,
            "unsent_count": self.unsent_count,
            "refused_count": self.link.refused_count,
        }

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @abstractmethod
    def detail(self) -> dict[str, object]:
        """What exactly is sent."""

    @abstractmethod
    def run(self) -> None:
        """Send until `finished`."""

    def finished(self, now_ns: int) -> bool:
        return self._stopping.is_set() or (self._deadline_ns is not None and now_ns >= self._deadline_ns)

    def send(self, datagram: bytes) -> None:
        if self.link.send(datagram):
            self.account.add(len(datagram), time.time_ns())
        else:
            self.unsent_count += 1

    def _guarded(self) -> None:
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - a thread has nobody above it: the report carries the error
            self.error = f"{type(error).__name__}: {error}"
            traceback.print_exc(file=sys.stderr)


class EmbeddedSource(Source):
    """The embedded vehicle in real time, or `speedup` times faster."""

    name = "embedded"

    def __init__(
        self,
        link: UdpLink,
        spec: TrafficSpec,
        streams: str = MEASURED,
        *,
        speedup: int = 1,
        airborne: bool = True,
    ) -> None:
        super().__init__(link, spec)
        self._streams, self._speedup, self._airborne = streams, speedup, airborne
        profile = load_profile(spec.profile)
        profile.cycle_s(spec.rate_hz)  # refuses a rate the profile cannot have, before the thread starts
        self._profile = profile
        self._vehicle: EmbeddedVehicle | None = None
        self.uplink = UplinkAccount()
        self.answer_count = 0

    def detail(self) -> dict[str, object]:
        detail: dict[str, object] = {
            "profile": self._profile.name,
            "rate_hz": self.spec.rate_hz,
            "seed": self.spec.seed,
            "profile_source": self._profile.source,
            "ardupilot": False,
        }
        # Only where it is not the measured mix: a window of a campaign says what it said before.
        return detail if self._streams == MEASURED else {**detail, "streams": self._streams}

    def report(self) -> dict[str, object]:
        report = super().report()
        vehicle = self._vehicle
        if vehicle is not None:
            report |= {
                "late_count": vehicle.schedule.late_count,
                "max_late_ns": vehicle.schedule.max_late_ns,
                "skipped_count": vehicle.schedule.skipped_count,
                "answer_count": self.answer_count,
                "answered_messages": vehicle.received_count,
                "unparsed_count": vehicle.bad_count,
                "overridden": vehicle.schedule.overridden,
                "ignored": dict(vehicle.ignored),
                "uplink": self.uplink.report(),
                "beside": vehicle.beside.as_dict(),
            }
        return report

    def run(self) -> None:
        speedup = self._speedup
        vehicle = EmbeddedVehicle(
            self._profile,
            self.spec.rate_hz,
            self.spec.seed,
            time.monotonic_ns() * speedup,
            airborne=self._airborne,
            streams=self._streams,
        )
        self._vehicle = vehicle
        readable = [self.link.socket]
        while not self.finished(now_ns := time.monotonic_ns()):
            for frame in vehicle.poll(now_ns * speedup):
                self.send(frame)
            wait_s = (vehicle.next_ns / speedup - time.monotonic_ns()) / 1e9
            ready, _, _ = select.select(readable, [], [], max(0.0, min(wait_s, MAX_WAIT_S)))
            if ready and (datagram := self.link.receive()):
                self.uplink.heard(datagram)
                for answer in vehicle.receive(datagram, time.monotonic_ns() * speedup):
                    self.answer_count += 1
                    self.send(answer)


class BulkSource(Source):
    """Fixed-size verifiable payloads at an offered rate, paced by an absolute schedule.

    Above 1 kHz the datagrams of one millisecond leave together. After a stall it sends at most 64 at once and
    catches up at twice the rate: a default socket buffer holds some 90 datagrams of 1,200 bytes, and a burst
    of ours that overflows it would look like loss of the tunnel. A host that cannot keep up falls behind the
    schedule and `behind_count` says by how much: the offered rate is never claimed, only what was sent.
    """

    name = "bulk"
    wake_floor_ns = 1_000_000
    stall_burst = 64

    def __init__(self, link: UdpLink, spec: TrafficSpec, name: str = "bulk") -> None:
        super().__init__(link, spec)
        self.name = name
        self._stream = BulkStream(spec.seed, spec.size_bytes)
        self.behind_count = 0
        self.max_late_ns = 0

    def detail(self) -> dict[str, object]:
        return {"rate_hz": self.spec.rate_hz, "size_bytes": self.spec.size_bytes, "seed": self._stream.seed}

    def report(self) -> dict[str, object]:
        return super().report() | {"behind_count": self.behind_count, "max_late_ns": self.max_late_ns}

    def run(self) -> None:
        period_ns = 1e9 / self.spec.rate_hz
        wake_ns = max(period_ns, float(self.wake_floor_ns))
        most = max(self.stall_burst, round(2 * wake_ns / period_ns))
        start_ns = last_ns = time.monotonic_ns()
        counter = 0
        while not self.finished(now_ns := time.monotonic_ns()):
            due = int((now_ns - start_ns) / period_ns) + 1
            self.max_late_ns = max(self.max_late_ns, int(now_ns - start_ns - counter * period_ns))
            allowed = min(most, 1 + int(2 * (now_ns - last_ns) / period_ns))
            last_ns = now_ns
            for _ in range(min(due - counter, allowed)):
                self.send(self._stream.payload(counter))
                counter += 1
            self.behind_count = max(0, due - counter)
            now_ns = time.monotonic_ns()
            if counter < due:
                wait_ns = float(self.wake_floor_ns)
            else:
                wait_ns = start_ns + (int((now_ns - start_ns) / wake_ns) + 1) * wake_ns - now_ns
            time.sleep(min(wait_ns / 1e9, MAX_WAIT_S))


class TlogSource(Source):
    """Replays the autopilot's frames of a telemetry log at their logged times, bytes unchanged."""

    name = "tlog"

    def __init__(self, link: UdpLink, spec: TrafficSpec) -> None:
        super().__init__(link, spec)
        if spec.path is None:
            raise SpecError("source tlog needs a path", 'add "path":"/tlogs/flight.tlog" to the spec')
        self._replay = load_replay(Path(spec.path))
        self.max_late_ns = 0

    def detail(self) -> dict[str, object]:
        replay = self._replay
        return {
            "path": self.spec.path,
            "sha256": replay.sha256,
            "system_id": replay.system_id,
            "frame_count": len(replay.frames),
            "skipped_count": replay.skipped_count,
            "reordered_count": replay.reordered_count,
            "log_duration_s": replay.duration_s,
        }

    def report(self) -> dict[str, object]:
        return super().report() | {"max_late_ns": self.max_late_ns}

    def run(self) -> None:
        start_ns = time.monotonic_ns()
        for offset_ns, frame in self._replay.frames:
            while (wait_ns := start_ns + offset_ns - time.monotonic_ns()) > 0:
                if self.finished(time.monotonic_ns()):
                    return
                time.sleep(min(wait_ns / 1e9, MAX_WAIT_S))
            if self.finished(time.monotonic_ns()):
                return
            self.max_late_ns = max(self.max_late_ns, -wait_ns)
            self.send(frame)
