"""Hosts whose times say nothing of any machine: an emulated processor, Windows programs under wine.

What such a host does counts, how long it takes does not. Its times stay in the raw files and in the tables
that describe one run; nothing that compares times is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pqbase.documents import Json, part_of

#: what QEMU's emulator calls its processor; a virtual machine with a processor of its own has that one's name
EMULATED_CPU = "QEMU TCG CPU"
_NAMES = {"drone": "the drone", "gcs": "the ground station"}


def untimed_reasons(hosts: Mapping[str, Json]) -> tuple[str, ...]:
    """Why times of this run are no claim, one part of a sentence a host; () where they may be.

    hosts: role → facts as in hosts/<role>.json. The controller is not measured and does not count.
    """
    found = []
    for role, name in _NAMES.items():
        host = part_of(part_of(hosts, role, {}), "host", {})
        if emulator := _emulator(host):
            found.append(f"{name}'s processor is emulated ({emulator})")
        if wine := host.get("wine"):
            found.append(f"{name} runs Windows programs under wine {wine}")
    return tuple(found)


def _emulator(host: Json) -> str | None:
    """The emulator by name, as the host told it or as its processor is called."""
    if told := host.get("emulated"):
        return str(told)
    return "qemu" if str(host.get("cpu_model")).startswith(EMULATED_CPU) else None


def untimed_sentence(reasons: tuple[str, ...]) -> str | None:
    """One sentence for the head of a page or the end of a run; None where there is nothing to say."""
    return f"No time of this run is a claim: {'; '.join(reasons)}." if reasons else None
