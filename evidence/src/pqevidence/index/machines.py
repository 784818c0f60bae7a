"""Which machine measured: a name and a key made of what both ends say of their hardware.

No host name, address, user or boot id enters, so two machines that are equal in every fact cannot be told
apart, and the index says so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from pqbase.documents import Json, part_of
from pqbase.text import canonical_json
from pqevidence.index.rules import plain

#: what makes another machine; a new kernel on one makes it another line of runs
HARDWARE: Final = (
    "machine", "cpu_model", "cpu_count", "cpu_features", "board_model", "board_revision", "emulated", "wine",
)  # fmt: skip
_ENDS: Final = (("drone", "drone"), ("gcs", "ground"))
_VIRTUAL = "none: virtual time"


@dataclass(frozen=True)
class Machine:
    """key: eight hex digits of the facts of both ends; name: them in words."""

    key: str
    name: str

    @property
    def page(self) -> str:
        return f"machine-{self.key}.html"


def machine_of(hosts: Json) -> Machine:
    """hosts: role → facts as in hosts/<role>.json."""
    facts = {role: part_of(part_of(hosts, role, {}), "host", {}) for role, _ in _ENDS}
    kept = {role: {name: told.get(name) for name in HARDWARE} for role, told in facts.items()}
    key = hashlib.sha256(canonical_json(kept)).hexdigest()[:8]
    names = {word: _name(facts[role]) for role, word in _ENDS}
    if len(set(names.values())) == 1:
        return Machine(key, next(iter(names.values())))
    return Machine(key, ", ".join(f"{word}: {name}" for word, name in names.items()))


def _name(facts: Json) -> str:
    if facts.get("cpu_model") == _VIRTUAL:
        return "simulated, in virtual time"
    board = facts.get("board_model") or facts.get("cpu_model")
    count = facts.get("cpu_count")
    cores = f" × {count} cores" if isinstance(count, int) and count != 1 else ""
    played = [f"emulated by {facts['emulated']}"] if facts.get("emulated") else []
    played += [f"wine {facts['wine']}"] if facts.get("wine") else []
    told = "; ".join([str(facts.get("machine")), *played])
    return f"{plain(board, 80)}{cores} ({plain(told, 80)})"
