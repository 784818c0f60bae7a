"""Who the embedded vehicle says it is: a Copter of a real version, and by its banner no ArduPilot.

Ground stations choose parameter names and screens by the version, so it has to be one they know; the
first words that a person reads say what flies.
"""

from __future__ import annotations

from pymavlink.dialects.v20 import ardupilotmega as mav

VERSION = (4, 6, 3)
"""The ArduCopter whose parameter names and protocol it has."""
CUSTOM_VERSION = b"embedded"
"""Where ArduPilot puts its commit: eight letters."""
BANNER = (
    f"Embedded vehicle after ArduCopter V{'.'.join(map(str, VERSION))}",
    "PQ-MAV Lab: a simulation, not ArduPilot",
    "Frame: QUAD/PLUS",
)
CAPABILITIES = (
    mav.MAV_PROTOCOL_CAPABILITY_MAVLINK2
    | mav.MAV_PROTOCOL_CAPABILITY_PARAM_FLOAT
    | mav.MAV_PROTOCOL_CAPABILITY_MISSION_FLOAT
    | mav.MAV_PROTOCOL_CAPABILITY_MISSION_INT
    | mav.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
    | mav.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
    | mav.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT
    | mav.MAV_PROTOCOL_CAPABILITY_MISSION_FENCE
    | mav.MAV_PROTOCOL_CAPABILITY_MISSION_RALLY
    | mav.MAV_PROTOCOL_CAPABILITY_FTP
)


def autopilot_version() -> mav.MAVLink_autopilot_version_message:
    """AUTOPILOT_VERSION."""
    major, minor, patch = VERSION
    software = major << 24 | minor << 16 | patch << 8 | mav.FIRMWARE_VERSION_TYPE_OFFICIAL
    none = bytes(8)
    return mav.MAVLink_autopilot_version_message(
        CAPABILITIES, software, 0, 0, 0, CUSTOM_VERSION, none, none, 0, 0, 0
    )


def text(words: str, severity: int = mav.MAV_SEVERITY_INFO) -> mav.MAVLink_statustext_message:
    """STATUSTEXT of at most 50 bytes; longer words are cut."""
    return mav.MAVLink_statustext_message(severity, words.encode("ascii", "replace")[:50])


def banner() -> list[mav.MAVLink_message]:
    """The lines that ArduPilot too sends to a ground station that begins."""
    return [text(line) for line in BANNER]
