"""What reached the vehicle on its uplink in one window: frames by sender and kind.

It counts and judges nothing: who of the senders is the lab itself, and what a visitor's order means for a
cell, is for whoever reads the account (`pqevidence.record.visitors`).
"""

from __future__ import annotations

from pymavlink.dialects.v20 import ardupilotmega as mav

#: a stranger may send anything: beyond this many senders, and kinds of one sender, the rest is one row
MOST_SENDERS = 32
MOST_KINDS = 64
OTHERS = "others"


class UplinkAccount:
    """Frames that came up, by (system, component) and kind. A command is a kind of its own, by its name."""

    def __init__(self) -> None:
        self._mav = mav.MAVLink(None)
        self._mav.robust_parsing = True
        self._senders: dict[tuple[int, int], dict[str, int]] = {}

    def heard(self, datagram: bytes) -> None:
        """Take note of every whole frame of a datagram."""
        for message in self._mav.parse_buffer(datagram) or []:
            sender = (message.get_srcSystem(), message.get_srcComponent())
            if sender not in self._senders and len(self._senders) >= MOST_SENDERS:
                sender = (-1, -1)
            kinds = self._senders.setdefault(sender, {})
            kind = kind_of(message)
            if kind not in kinds and len(kinds) >= MOST_KINDS:
                kind = OTHERS
            kinds[kind] = kinds.get(kind, 0) + 1

    def report(self) -> list[dict[str, object]]:
        """[{"system", "component", "frames": {kind: count}}] by sender; system and component are null for
        those beyond MOST_SENDERS."""
        return [
            {
                "system": system if system >= 0 else None,
                "component": component if component >= 0 else None,
                "frames": dict(sorted(kinds.items())),
            }
            for (system, component), kinds in sorted(self._senders.items())
        ]


def kind_of(message: mav.MAVLink_message) -> str:
    """Name of the message; of a command also its own, `COMMAND_LONG MAV_CMD_NAV_LAND`."""
    name = message.get_type()
    if not isinstance(message, mav.MAVLink_command_long_message | mav.MAVLink_command_int_message):
        return name
    known = mav.enums["MAV_CMD"].get(message.command)
    return f"{name} {known.name if known is not None else message.command}"
