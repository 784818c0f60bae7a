"""The three services: vehicle, air, ground."""

from __future__ import annotations

import hashlib
from importlib import resources

from pqsitl.arducopter import IMAGE_BINARIES, ArduCopter, ArduCopterSource, find_binary
from pqsitl.errors import ProcessError, SitlError
from pqsitl.mavproxy import GROUND_CLIENT_PORT, Mavproxy, air_plan, ground_plan
from pqsitl.net import UdpLink
from pqsitl.profile import DATA_FILE
from pqsitl.service import SourceFactory, TrafficService
from pqsitl.settings import Settings
from pqsitl.sink import BulkSink
from pqsitl.sources import BulkSource, EmbeddedSource, TlogSource
from pqsitl.station import STATION_PORT, StationSource
from pqsitl.uplink import UplinkSource


def profile_sha256() -> str:
    """Digest of the measured profile this package carries."""
    return hashlib.sha256(resources.files("pqsitl").joinpath("data", DATA_FILE).read_bytes()).hexdigest()


class VehicleService(TrafficService):
    """Everything that can fly: ArduPilot when there is a binary, the embedded vehicle, a log; and bulk."""

    def __init__(self, settings: Settings) -> None:
        assert settings.vehicle_target is not None
        link = UdpLink(settings.vehicle_target)
        factories: dict[str, SourceFactory] = {
            "embedded": lambda spec: EmbeddedSource(link, spec, settings.vehicle_streams),
            "tlog": lambda spec: TlogSource(link, spec),
        }
        if settings.direct_target is not None:
            direct = UdpLink(settings.direct_target)
            factories["bulk"] = lambda spec: BulkSource(direct, spec)
        self._arducopter: ArduCopter | None = None
        self._arducopter_absence: str | None = None
        try:
            binary = find_binary(settings.sitl_binary)
        except SitlError as error:
            if settings.sitl_binary not in (None, *IMAGE_BINARIES) or error.code == "not_executable":
                raise  # asked for by name: silently flying something else would be a lie
            self._arducopter_absence = error.what
        else:
            copter = self._arducopter = ArduCopter(binary, settings.sitl_defaults, link)
            factories = {"arducopter": lambda spec: ArduCopterSource(copter, link, spec), **factories}
            copter.start()
        sink = BulkSink(settings.listen_host, settings.sink_port)
        super().__init__("vehicle", factories, sink, ("sink",))

    def choose_auto(self) -> str:
        return "embedded" if self._arducopter is None else "arducopter"

    @property
    def ready(self) -> bool:
        return self._arducopter is None or self._arducopter.ready

    def facts(self) -> dict[str, object]:
        copter = self._arducopter
        known = {"available": False, "reason": self._arducopter_absence} if copter is None else copter.facts()
        return {"auto": self.choose_auto(), "arducopter": known, "profile_sha256": profile_sha256()}

    def close(self) -> None:
        super().close()
        if self._arducopter is not None:
            self._arducopter.close()


class ProxiedService(TrafficService):
    """One whose frames go through MAVProxy, which lives and dies with it."""

    mavproxy: Mavproxy

    @property
    def ready(self) -> bool:
        return self.mavproxy.ready

    @property
    def trouble(self) -> SitlError | None:
        return mavproxy_trouble(self.mavproxy)

    def close(self) -> None:
        super().close()
        self.mavproxy.stop()


class AirService(ProxiedService):
    """MAVProxy beside the vehicle; it sends nothing of its own."""

    def __init__(self, settings: Settings) -> None:
        self.mavproxy = Mavproxy(air_plan(settings.listen_host))
        super().__init__("air", {})

    def facts(self) -> dict[str, object]:
        return {"mavproxy": self.mavproxy.facts()}


class GroundService(ProxiedService):
    """MAVProxy of the ground station, its client (uplink), and the sink of the vehicle's bulk.

    `bulk` here means the receiving half of the same spec; `bulk-uplink` sends the other way.
    """

    def __init__(self, settings: Settings) -> None:
        self.mavproxy = Mavproxy(ground_plan(settings.listen_host))
        client = UdpLink(("127.0.0.1", GROUND_CLIENT_PORT))
        door = (settings.listen_host, STATION_PORT)
        factories: dict[str, SourceFactory] = {
            "uplink": lambda spec: UplinkSource(client, spec),
            "station": lambda spec: StationSource(client, spec, door),
        }
        if settings.direct_target is not None:
            direct = UdpLink(settings.direct_target)
            factories["bulk-uplink"] = lambda spec: BulkSource(direct, spec, "bulk-uplink")
        try:
            sink = BulkSink(settings.listen_host, settings.sink_port)
        except SitlError:
            self.mavproxy.stop()
            raise
        super().__init__("ground", factories, sink, ("sink", "bulk"))

    def choose_auto(self) -> str:
        return "uplink"

    def facts(self) -> dict[str, object]:
        return {"auto": self.choose_auto(), "mavproxy": self.mavproxy.facts()}


def mavproxy_trouble(mavproxy: Mavproxy) -> SitlError | None:
    """Why MAVProxy does not forward, None when it listens."""
    if mavproxy.process.exit_status is not None:
        return ProcessError(
            mavproxy.process.death_message(), "restart the container; its log has the whole output"
        )
    if mavproxy.stuck:
        return ProcessError(
            f"mavproxy-{mavproxy.plan.role} lives but has read nothing for {mavproxy.stuck_s:.0f} s",
            "restart the container; its log has the whole output",
        )
    if not mavproxy.ready:
        return SitlError("MAVProxy does not listen yet", "wait some seconds", "not_ready")
    return None
