"""The embedded vehicle, sans-IO: datagrams and a clock in, datagrams out.

Real MAVLink 2 (unsigned, system 1, component 1): sequence numbers, time stamps and checksums are made for
each frame. It answers as a Copter would (`pqsitl.answers`); what it flies is `pqsitl.flight`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.account import BesideAccount
from pqsitl.answers import answer
from pqsitl.flight import AUTO, Flight
from pqsitl.ftp import FtpServer
from pqsitl.mission import FENCE, MISSION, RALLY, MissionStore
from pqsitl.params import ParameterTable
from pqsitl.pilot import MissionPilot
from pqsitl.profile import Profile
from pqsitl.schedule import BurstSchedule
from pqsitl.streams import ALL_BUILDERS, extra_periods_us
from pqsitl.streams_name import DEFAULT, MEASURED, checked

SYSTEM_ID, COMPONENT_ID = 1, 1
BOOT_OFFSET_NS = 70_000_000_000
"""The flight starts 70 s after boot: the estimator settled, armed, in GUIDED at 10 m, as recorded."""
EARLY_BOOT_OFFSET_NS = 5_000_000_000
"""default_4hz was recorded within the first 65 s of boot: SYSTEM_TIME is one byte shorter there."""
PHYSICS_STEP_NS = 10_000_000
PACE_NS = 5_000_000
"""Gap between parameters of a list and between packets of an FTP burst."""
MAX_WAITING = 200
_TOTALS = {MISSION: "MIS_TOTAL", FENCE: "FENCE_TOTAL", RALLY: "RALLY_TOTAL"}


class EmbeddedVehicle:
    """One flight. `poll` at `next_ns`; hand every received datagram to `receive`."""

    def __init__(
        self,
        profile: Profile,
        rate_hz: float,
        seed: int,
        start_ns: int,
        *,
        airborne: bool = True,
        streams: str = MEASURED,
    ) -> None:
        """`streams`: `measured` sends the profile's mix alone, `default` also what it lacks of ArduCopter's
        telemetry at 4 Hz."""
        self.profile = profile
        self.greets = checked(streams) == DEFAULT
        self.flight = Flight(seed, airborne=airborne)
        self.params = ParameterTable()
        self.mission = MissionStore(self._plan_changed)
        self.pilot = MissionPilot(self.flight, self.mission, self.params)
        self.ftp = FtpServer(
            {
                "@PARAM/param.pck": lambda query: self.params.packed(with_defaults="withdefaults=1" in query),
                "@MISSION/mission.dat": lambda query: self.mission.packed(MISSION),
                "@MISSION/fence.dat": lambda query: self.mission.packed(FENCE),
                "@MISSION/rally.dat": lambda query: self.mission.packed(RALLY),
            }
        )
        extra_us = extra_periods_us(profile) if self.greets else None
        self.schedule = BurstSchedule(profile, rate_hz, start_ns, extra_us)
        early = profile.name == "default_4hz"
        self._boot_ns = start_ns - (EARLY_BOOT_OFFSET_NS if early else BOOT_OFFSET_NS)
        self._physics_ns = start_ns
        self._mav = mav.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=COMPONENT_ID)
        self._mav.robust_parsing = True
        self._paced: deque[int | mav.MAVLink_message] = deque()
        self._paced_due_ns = 0
        self._param_turn = 0
        self.waiting: deque[mav.MAVLink_message] = deque(maxlen=MAX_WAITING)
        """Messages that leave with the next poll: what happened, not what was asked."""
        self.beside = BesideAccount()
        self.greeted: set[int] = set()
        self.received_count = 0
        self.bad_count = 0
        self.ignored: dict[str, int] = {}
        self.timesync_rtt_ns: int | None = None

    @property
    def next_ns(self) -> int:
        """When `poll` has something to do."""
        due = self.schedule.next_ns
        return min(due, self._paced_due_ns) if self._paced else due

    def boot_ns(self, now_ns: int) -> int:
        """Nanoseconds since the vehicle's boot."""
        return now_ns - self._boot_ns

    def boot_us(self, now_ns: int) -> int:
        """Microseconds since the vehicle's boot."""
        return (now_ns - self._boot_ns) // 1000

    def poll(self, now_ns: int) -> list[bytes]:
        """All frames due by `now_ns`, one datagram each, in order."""
        self.fly(now_ns)
        frames = [self._frame(self.build(name, now_ns)) for name in self.schedule.take(now_ns)]
        return frames + self.poll_beside(now_ns)

    def fly(self, now_ns: int) -> None:
        """Move on to `now_ns`."""
        self._advance_physics(now_ns)
        if self.flight.state.mode == AUTO:
            self.pilot.step(now_ns)
            self.waiting.extend(self.pilot.said)
            self.pilot.said.clear()

    def poll_beside(self, now_ns: int) -> list[bytes]:
        """Of those, what is no part of the measured mix: parts of lists, repeated requests, texts."""
        messages: list[mav.MAVLink_message] = []
        if self._paced and now_ns >= self._paced_due_ns:
            next_one = self._paced.popleft()
            messages.append(self.params.message(next_one) if isinstance(next_one, int) else next_one)
            self._paced_due_ns = now_ns + PACE_NS
        if self.mission.uploading:
            messages += self.mission.poll(now_ns)
        messages += self.waiting
        self.waiting.clear()
        return [self._beside(message) for message in messages]

    def receive(self, datagram: bytes, now_ns: int) -> list[bytes]:
        """Answers to one datagram of a ground station; what cannot be parsed is counted."""
        answers: list[bytes] = []
        for message in self._mav.parse_buffer(datagram) or []:
            if message.get_type() == "BAD_DATA":
                self.bad_count += 1
                continue
            self.received_count += 1
            if getattr(message, "target_system", 0) not in (0, SYSTEM_ID):
                continue
            if getattr(message, "target_component", 0) not in (0, COMPONENT_ID):
                continue  # for a camera or a gimbal, which this vehicle has not
            # TIMESYNC belongs to the mix (`profile.UPLINK_TIMESYNC_HZ`)
            frame = self._frame if message.get_type() == "TIMESYNC" else self._beside
            answers += [frame(one) for one in answer(self, message, now_ns)]
        return answers

    def build(self, name: str, now_ns: int) -> mav.MAVLink_message:
        """The current message `name`."""
        if name == "PARAM_VALUE":
            self._param_turn = (self._param_turn + 1) % len(self.params)
            return self.params.message(self._param_turn, announced_index=65535)
        return ALL_BUILDERS[name](self.flight.state, self.boot_us(now_ns))

    @property
    def listing_params(self) -> bool:
        """A list of parameters is being sent."""
        return any(isinstance(one, int) for one in self._paced)

    def request_params(self, indices: list[int], now_ns: int) -> None:
        """Send parameters one by one; a list that is still being sent begins again."""
        others = [one for one in self._paced if not isinstance(one, int)]
        self._pace([*others, *indices], now_ns)

    def request_burst(self, messages: list[mav.MAVLink_message], now_ns: int) -> None:
        """Send the packets of an FTP burst one by one; they take the place of an earlier burst's."""
        self._pace([*messages, *(one for one in self._paced if isinstance(one, int))], now_ns)

    def set_mode(self, mode: int | None) -> str | None:
        """Change the flight mode; why not, or None when it is done."""
        if mode == AUTO and (refusal := self.pilot.refusal()) is not None:
            return refusal
        was_auto = self.flight.state.mode == AUTO
        if mode is None or not self.flight.set_mode(mode):
            return f"no mode {mode} here"
        if mode == AUTO:
            self.pilot.start()
        elif was_auto:
            self.pilot.leave()
        return None

    def parameter_changed(self, name: str) -> None:
        """Those few parameters that this flight model listens to."""
        if name == "WPNAV_SPEED":
            self.flight.max_speed_ms = self.params[name] / 100
        elif name == "RTL_ALT":
            self.flight.rtl_alt_m = self.params[name] / 100

    def _plan_changed(self, mission_type: int) -> None:
        self.params.store(_TOTALS[mission_type], self.mission.count(mission_type))
        if mission_type != MISSION:
            return
        self.pilot.changed()
        if self.flight.state.mode == AUTO:
            self.flight.hold()
            if self.pilot.refusal() is None:
                self.pilot.start()

    def _pace(self, queue: Sequence[int | mav.MAVLink_message], now_ns: int) -> None:
        self._paced = deque(queue)
        self._paced_due_ns = max(now_ns, self._paced_due_ns)

    def _beside(self, message: mav.MAVLink_message) -> bytes:
        """Frame a message that is no part of the mix, and account for it."""
        frame = self._frame(message)
        self.beside.add(message.get_type(), len(frame))
        return frame

    def _frame(self, message: mav.MAVLink_message) -> bytes:
        frame = message.pack(self._mav)
        self._mav.seq = (self._mav.seq + 1) & 0xFF
        return frame

    def _advance_physics(self, now_ns: int) -> None:
        if now_ns - self._physics_ns > 1_000_000_000:
            self._physics_ns = now_ns - 1_000_000_000
        while now_ns - self._physics_ns >= PHYSICS_STEP_NS:
            self.flight.advance(PHYSICS_STEP_NS / 1e9)
            self._physics_ns += PHYSICS_STEP_NS
