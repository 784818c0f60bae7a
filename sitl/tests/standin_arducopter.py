"""Stand-in for ArduPilot's SITL binary: same command line, same ports, same timing, no flying.

Not part of the product. It shares no code with it, so that it can disagree with it. What it obeys:
`--model + --speedup N -I0 --home LAT,LON,ALT,HDG --defaults A[,B] --serial0 udpclient:IP:PORT`; boots at
once on udpclient, one frame a datagram, HEARTBEAT 1 Hz and all other rates 0; refuses to arm before the
estimator is ready (42 s) with a STATUSTEXT; takes off only armed and in GUIDED, climbs at 2.5 m/s; honours
SET_MESSAGE_INTERVAL; writes eeprom.bin and logs/ into its working folder. `--speedup` scales its own clock;
telemetry rates stay in wall time. Mode RTL has it on the
ground 20 s later. STANDIN_FAULT: die | never-arm | land-once | rtl-once (a failsafe takes
it home: mode RTL while still armed, on the ground 20 s later).
"""

from __future__ import annotations

import getopt
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

EKF_READY_S, CLIMB_MS, DIE_AFTER_S = 42.0, 2.5, 70.0


class Copter:
    def __init__(self, speedup: float, target: tuple[str, int], fault: str) -> None:
        self.start, self.speedup, self.fault = time.monotonic(), speedup, fault
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.target = target
        self.mav = mav.MAVLink(None, srcSystem=1, srcComponent=1)
        self.mode, self.armed_at, self.alt_m, self.climbing_to = 0, -1.0, 0.0, 0.0
        self.intervals: dict[int, float] = {}
        self.due: dict[int, float] = {}
        self.heartbeat_due = 0.0
        self.asker = (0, 0)
        self.last = 0.0
        self.down_at: float | None = None

    def now(self) -> float:
        return (time.monotonic() - self.start) * self.speedup

    def send(self, message: Any) -> None:
        frame = message.pack(self.mav)
        self.mav.seq = (self.mav.seq + 1) & 255
        self.socket.sendto(bytes(frame), self.target)

    def ack(self, command: int, result: int) -> None:
        self.send(mav.MAVLink_command_ack_message(command, result, 0, 0, *self.asker))

    def text(self, words: str) -> None:
        self.send(mav.MAVLink_statustext_message(2, words.encode()))

    def handle(self, message: Any) -> None:
        if message.get_type() != "COMMAND_LONG" or message.target_system != 1:
            return
        command = message.command
        self.asker = (message.get_srcSystem(), message.get_srcComponent())
        if command == mav.MAV_CMD_DO_SET_MODE:
            self.mode = int(message.param2)
            if self.mode == 6 and self.armed_at >= 0:
                self.down_at = self.now() + 20.0
            self.ack(command, 0)
        elif command == mav.MAV_CMD_COMPONENT_ARM_DISARM:
            if self.now() < EKF_READY_S or self.fault == "never-arm":
                self.text("PreArm: EKF attitude is bad")
                self.ack(command, 4)
            else:
                self.armed_at = self.now()
                self.ack(command, 0)
        elif command == mav.MAV_CMD_NAV_TAKEOFF:
            if self.armed_at < 0 or self.mode != 4:
                self.ack(command, 4)
            else:
                self.climbing_to = message.param7
                self.ack(command, 0)
        elif command == mav.MAV_CMD_SET_MESSAGE_INTERVAL:
            self.intervals[int(message.param1)] = message.param2 / 1e6
            self.due[int(message.param1)] = time.monotonic()
            self.ack(command, 0)
        elif command == mav.MAV_CMD_REQUEST_MESSAGE and message.param1 == 148:
            self.ack(command, 0)
            none = bytes(8)
            self.send(
                mav.MAVLink_autopilot_version_message(
                    0, 4 << 24 | 7 << 16 | 1 << 8, 0, 0, 0, none, none, none, 0, 0, 0
                )
            )
        else:
            self.ack(command, 3)

    def telemetry(self, message_id: int) -> Any:
        ms = int(self.now() * 1000) & 0xFFFFFFFF
        table = {
            30: lambda: mav.MAVLink_attitude_message(ms, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1),
            32: lambda: mav.MAVLink_local_position_ned_message(ms, 0.1, 0.1, -self.alt_m, 0.1, 0.1, 0.1),
            36: lambda: mav.MAVLink_servo_output_raw_message(ms, 0, 1500, 1500, 1500, 1500, 0, 0, 0, 0),
            27: lambda: mav.MAVLink_raw_imu_message(ms, 1, 1, -1000, 1, 1, 1, 200, 50, -500, 0, 4500),
            33: lambda: mav.MAVLink_global_position_int_message(
                ms, 1, 1, 1, int(self.alt_m * 1000), 0, 0, 0, 35_000
            ),
            74: lambda: mav.MAVLink_vfr_hud_message(0.1, 0.1, 350, 39, 590.0, 0.1),
        }
        return table[message_id]() if message_id in table else None

    def step(self) -> None:
        now = self.now()
        passed, self.last = now - self.last, now
        if self.climbing_to:
            self.alt_m = min(self.climbing_to, self.alt_m + CLIMB_MS * passed)
        if time.monotonic() >= self.heartbeat_due:
            self.heartbeat_due = time.monotonic() + max(0.05, 1.0 / self.speedup)
            base = 1 | (128 if self.armed_at >= 0 else 0)
            self.send(mav.MAVLink_heartbeat_message(2, 3, base, self.mode, 4 if self.armed_at >= 0 else 3, 3))
        for message_id, period in list(self.intervals.items()):
            while period > 0 and self.due[message_id] <= time.monotonic():
                self.due[message_id] += period
                message = self.telemetry(message_id)
                if message is not None:
                    self.send(message)
        if self.fault == "land-once" and now > DIE_AFTER_S:
            self.fault, self.armed_at, self.alt_m, self.climbing_to = "", -1.0, 0.0, 0.0
            self.text("Battery failsafe")
        if self.fault == "rtl-once" and now > DIE_AFTER_S:
            self.fault, self.mode, self.down_at = "", 6, now + 20.0
            self.text("GCS failsafe")
        if self.down_at is not None and now > self.down_at:
            self.down_at, self.armed_at, self.alt_m, self.climbing_to = None, -1.0, 0.0, 0.0
        if self.fault == "die" and now > DIE_AFTER_S:
            print("stand-in: falling out of the sky", flush=True)
            sys.exit(7)


def main() -> None:
    # getopt, as the binary has it: an argument may begin with a minus (southern homes).
    names = ["model=", "speedup=", "home=", "defaults=", "serial0="]
    given, rest = getopt.getopt(sys.argv[1:], "I:", names)
    options = {name.lstrip("-"): value for name, value in given}
    assert not rest
    assert set(options) == {"model", "speedup", "home", "defaults", "serial0", "I"}
    assert options["model"] == "+"
    assert len([float(part) for part in options["home"].split(",")]) == 4
    values: dict[str, float] = {}
    for name in options["defaults"].split(","):
        for line in Path(name).read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                key, value = line.split()[:2]
                values[key] = float(value)
    fault = os.environ.get("STANDIN_FAULT", "")
    if values.get("FRAME_CLASS") != 1:
        sys.exit("Config Error: FRAME_CLASS is not set")
    scheme, host, port = options["serial0"].split(":")
    assert scheme == "udpclient"
    Path("eeprom.bin").write_bytes(bytes(1024))
    Path("logs").mkdir(exist_ok=True)
    print("stand-in: started", options["I"], flush=True)
    copter = Copter(float(options["speedup"]), (host, int(port)), fault)
    while True:
        copter.socket.settimeout(0.002)
        try:
            data = copter.socket.recv(2048) if copter.heartbeat_due else b""
        except TimeoutError:
            data = b""
        for message in (copter.mav.parse_buffer(data) or []) if data else []:
            copter.handle(message)
        copter.step()


if __name__ == "__main__":
    main()
