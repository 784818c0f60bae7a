"""The board under this system: which one, whether its firmware throttles, its I²C buses, its clock's
discipline.

What a sensor answers is asked of the host that carries it (`pair`), since two masters of one chip disturb
each other.
"""

from __future__ import annotations

from pqlab.doctor.model import Reading, Requirement
from pqlab.doctor.system import System

_REVISIONS = ("proc/device-tree/system/linux,revision", "sys/firmware/devicetree/base/system/linux,revision")
_MODELS = ("proc/device-tree/model", "sys/firmware/devicetree/base/model")
#: soc/soc:firmware, on a Pi 5 soc@107c000000:firmware, below one parent or another
_THROTTLED = (
    "sys/devices/platform/soc*:firmware/get_throttled",
    "sys/devices/platform/*/soc*:firmware/get_throttled",
)
#: bits of the firmware's field: now, and since boot
_FLAGS = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "soft temperature limit"}
_SINCE_BOOT = 16
OFFSET_WANT_MS = 1.0


def read_board(system: System) -> Reading:
    """Model and revision as the firmware wrote them; nobody types them."""
    for path in _REVISIONS:
        if system.exists(path):
            revision = (system.root / path).read_bytes().hex()
            return Reading(True, f"{_model(system) or 'a board'}, revision {revision}")
    return Reading(False, "no board revision: this machine cannot be an end in ring hardware")


def _model(system: System) -> str | None:
    return next((system.text(path).strip("\0\n ") for path in _MODELS if system.exists(path)), None)


def read_throttling(system: System) -> Reading:
    """The firmware's own word on supply and heat; a Raspberry Pi where it says nothing is not known."""
    paths = [path for pattern in _THROTTLED for path in system.files(pattern)]
    if not paths:
        model = _model(system) or ""
        if "Raspberry Pi" in model:
            return Reading(
                None,
                f"not known: this is a {model}, and its kernel shows no throttle flags",
                "vcgencmd get_throttled says them (0x0: never); a kernel of Raspberry Pi OS shows the file",
            )
        return Reading(True, "no Raspberry Pi firmware here")
    flags = int(system.text(paths[0]).strip(), 16)
    now = [name for bit, name in _FLAGS.items() if flags >> bit & 1]
    past = [name for bit, name in _FLAGS.items() if flags >> (bit + _SINCE_BOOT) & 1]
    if now:
        return Reading(False, f"now: {', '.join(now)}")
    if past:
        return Reading(
            False,
            f"since boot: {', '.join(past)}",
            "mend supply or cooling, then reboot: the flag stays until then",
        )
    return Reading(True, "never since boot")


def read_i2c(system: System) -> Reading:
    """Buses that a power sensor could be on."""
    buses = system.files("dev/i2c-*")
    if not buses:
        return Reading(False, "no I²C bus: power fields are null here")
    return Reading(True, ", ".join(f"/{path}" for path in buses))


def read_clock_sync(system: System) -> Reading:
    """What disciplines the clock, and how far it says it is off."""
    tracking = system.command(["chronyc", "-c", "-n", "tracking"])
    if tracking.code == 0:
        columns = tracking.stdout.split(",")
        if columns[0] in ("", "00000000") or columns[-1] == "Not synchronised":
            return Reading(
                False, "chrony has no source yet", "chronyc sources; wait, or name a server that answers"
            )
        offset_ms = float(columns[4]) * 1000
        return Reading(abs(offset_ms) <= OFFSET_WANT_MS, f"chrony, {offset_ms:+.3f} ms off")
    told = system.command(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    if told.code == 0:
        return Reading(told.stdout == "yes", f"synchronised by NTP: {told.stdout or 'no'}")
    return Reading(False, "nothing here tells whether the clock is set")


REQUIREMENTS = (
    Requirement(
        "clock sync",
        "note",
        f"within {OFFSET_WANT_MS:g} ms; one machine with both ends needs none",
        read_clock_sync,
        "apt-get install chrony (role common does)",
    ),
    Requirement(
        "board", "note", "a revision in the device tree, for ring hardware", read_board, "use a Raspberry Pi"
    ),
    Requirement(
        "throttling",
        "want",
        "never: neither supply nor heat holds the processor back",
        read_throttling,
        "a supply of 5 A and a fan; then reboot",
    ),
    Requirement(
        "i2c",
        "note",
        "a bus for the INA219",
        read_i2c,
        "on a Pi: role companion_pi, or dtparam=i2c_arm=on in config.txt; elsewhere nothing to do",
    ),
)
