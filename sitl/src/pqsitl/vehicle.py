"""The embedded vehicle, sans-IO: datagrams and a clock in, datagrams out.

Real MAVLink 2 (unsigned, system 1, component 1): sequence numbers, time stamps and checksums are made for
each frame. It answers as a Copter would; what it flies is `pqsitl.flight`.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl import commands
from pqsitl.flight import EARTH_RADIUS_M, HOME_LAT_DEG, HOME_LON_DEG, Flight
from pqsitl.frames import BUILDERS
from pqsitl.mission import MissionStore
from pqsitl.params import ParameterTable
from pqsitl.profile import Profile
from pqsitl.schedule import BurstSchedule

SYSTEM_ID, COMPONENT_ID = 1, 1
BOOT_OFFSET_NS = 70_000_000_000
"""The flight starts 70 s after boot: the estimator settled, armed, in GUIDED at 10 m, as recorded."""
EARLY_BOOT_OFFSET_NS = 5_000_000_000
"""default_4hz was recorded within the first 65 s of boot: SYSTEM_TIME is one byte shorter there."""
PHYSICS_STEP_NS = 10_000_000
PARAM_GAP_NS = 5_000_000
FTP_NAK, FTP_FILE_NOT_FOUND = 129, 10


class EmbeddedVehicle:
    """One flight. `poll` at `next_ns`; hand every received datagram to `receive`."""

    def __init__(
        self, profile: Profile, rate_hz: float, seed: int, start_ns: int, *, airborne: bool = True
    ) -> None:
        self.flight = Flight(seed, airborne=airborne)
        self.params = ParameterTable()
        self.mission = MissionStore()
        self.schedule = BurstSchedule(profile, rate_hz, start_ns)
        early = profile.name == "default_4hz"
        self._boot_ns = start_ns - (EARLY_BOOT_OFFSET_NS if early else BOOT_OFFSET_NS)
        self._physics_ns = start_ns
        self._mav = mav.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=COMPONENT_ID)
        self._mav.robust_parsing = True
        self._param_queue: deque[int] = deque()
        self._param_due_ns = 0
        self._param_turn = 0
        self.received_count = 0
        self.bad_count = 0
        self.ignored: dict[str, int] = {}
        self.timesync_rtt_ns: int | None = None

    @property
    def next_ns(self) -> int:
        """When `poll` has something to do."""
        due = self.schedule.next_ns
        return min(due, self._param_due_ns) if self._param_queue else due

    def boot_us(self, now_ns: int) -> int:
        """Microseconds since the vehicle's boot."""
        return (now_ns - self._boot_ns) // 1000

    def poll(self, now_ns: int) -> list[bytes]:
        """All frames due by `now_ns`, one datagram each, in order."""
        self._advance_physics(now_ns)
        frames = [self._frame(self.build(name, now_ns)) for name in self.schedule.take(now_ns)]
        if self._param_queue and now_ns >= self._param_due_ns:
            frames.append(self._frame(self.params.message(self._param_queue.popleft())))
            self._param_due_ns = now_ns + PARAM_GAP_NS
        if self.mission.uploading:
            frames += [self._frame(message) for message in self.mission.poll(now_ns)]
        return frames

    def receive(self, datagram: bytes, now_ns: int) -> list[bytes]:
        """Answers to one datagram of a ground station; what cannot be parsed is counted."""
        answers: list[bytes] = []
        for message in self._mav.parse_buffer(datagram) or []:
            if message.get_type() == "BAD_DATA":
                self.bad_count += 1
                continue
            self.received_count += 1
            target = getattr(message, "target_system", 0)
            if target not in (0, SYSTEM_ID):
                continue
            answers += [self._frame(answer) for answer in self._answer(message, now_ns)]
        return answers

    def build(self, name: str, now_ns: int) -> Any:
        """The current message `name` of the profile."""
        if name == "PARAM_VALUE":
            self._param_turn = (self._param_turn + 1) % len(self.params)
            return self.params.message(self._param_turn, announced_index=65535)
        return BUILDERS[name](self.flight.state, self.boot_us(now_ns))

    def request_params(self, indices: list[int], now_ns: int) -> None:
        """Queue parameters for paced sending."""
        self._param_queue.extend(indices)
        self._param_due_ns = now_ns

    def _frame(self, message: Any) -> bytes:
        frame: bytes = bytes(message.pack(self._mav))
        self._mav.seq = (self._mav.seq + 1) & 0xFF
        return frame

    def _advance_physics(self, now_ns: int) -> None:
        if now_ns - self._physics_ns > 1_000_000_000:
            self._physics_ns = now_ns - 1_000_000_000
        while now_ns - self._physics_ns >= PHYSICS_STEP_NS:
            self.flight.advance(PHYSICS_STEP_NS / 1e9)
            self._physics_ns += PHYSICS_STEP_NS

    def _answer(self, message: Any, now_ns: int) -> list[Any]:
        kind = message.get_type()
        if kind == "HEARTBEAT":
            return []
        if kind == "TIMESYNC":
            return self._timesync(message, now_ns)
        if kind == "PARAM_REQUEST_LIST":
            self.request_params(list(range(len(self.params))), now_ns)
            return []
        if kind == "PARAM_REQUEST_READ":
            index = self.params.find(message.param_id, message.param_index)
            return [] if index is None else [self.params.message(index)]
        if kind == "PARAM_SET":
            index = self.params.set(message.param_id, message.param_value)
            return [] if index is None else [self.params.message(index)]
        if kind in ("COMMAND_LONG", "COMMAND_INT"):
            return commands.handle(self, message, now_ns)
        if kind == "SET_MODE":
            self.flight.set_mode(message.custom_mode)
            return []
        if kind == "SET_POSITION_TARGET_LOCAL_NED":
            self.flight.fly_to(message.x, message.y, -message.z)
            return []
        if kind == "SET_POSITION_TARGET_GLOBAL_INT":
            north = math.radians(message.lat_int * 1e-7 - HOME_LAT_DEG) * EARTH_RADIUS_M
            scale = EARTH_RADIUS_M * math.cos(math.radians(HOME_LAT_DEG))
            self.flight.fly_to(
                north, math.radians(message.lon_int * 1e-7 - HOME_LON_DEG) * scale, message.alt
            )
            return []
        if kind == "FILE_TRANSFER_PROTOCOL":
            return [self._ftp_refusal(message)]
        answers = self.mission.handle(message, now_ns)
        if answers is None:
            # REQUEST_DATA_STREAM lands here too: the scenario sets the rates, not a ground station's habit.
            self.ignored[kind] = self.ignored.get(kind, 0) + 1
            return []
        return answers

    def _timesync(self, message: Any, now_ns: int) -> list[Any]:
        boot_ns = now_ns - self._boot_ns
        if message.tc1 == 0:
            return [mav.MAVLink_timesync_message(boot_ns, message.ts1)]
        self.timesync_rtt_ns = boot_ns - message.ts1
        return []

    @staticmethod
    def _ftp_refusal(message: Any) -> Any:
        """NAK "file not found": a ground station that tries FTP falls back to PARAM_REQUEST_LIST at once."""
        asked = bytes(message.payload)
        sequence = (int.from_bytes(asked[:2], "little") + 1) & 0xFFFF
        head = sequence.to_bytes(2, "little") + bytes([asked[2], FTP_NAK, 1, asked[3], 0, 0]) + asked[8:12]
        payload = (head + bytes([FTP_FILE_NOT_FOUND])).ljust(251, b"\0")
        return mav.MAVLink_file_transfer_protocol_message(
            0, message.get_srcSystem(), message.get_srcComponent(), payload
        )
