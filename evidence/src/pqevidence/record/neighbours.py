"""What programs that are not the lab's used of the controller's machine, from a cell's `processors` events.

The controller reads before and after a window what every core was busy with and what of it the lab used
(pqlab.campaign.neighbours). The difference belongs to neighbours; their names are nobody's business. Hosts
elsewhere are not counted: there the waiting alone is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pqbase.documents import Json, number_of, numbers_of, part_of
from pqevidence.record.raw import ROLES
from pqtunnel.quiet import FOREIGN_LIMIT_PCT, STEAL_LIMIT_PCT

EVENT: Final = "processors"
NOT_COUNTED: Final = "recorded before this was counted"
#: one for each end, and one for everything else of the lab
CORES_NEEDED: Final = 3


@dataclass(frozen=True)
class Use:
    """Of one window. foreign_pct: per cent of one core, all cores together; steal_pct: of all cores; the rest
    by end, on its cores."""

    foreign_pct: float
    steal_pct: float
    window_s: float
    foreign_at_pct: Mapping[str, float] = field(default_factory=dict)
    cores_at: Mapping[str, int] = field(default_factory=dict)
    throttled_ms: Mapping[str, float] = field(default_factory=dict)

    def crowded(self, host: str) -> str | None:
        """Why neighbours leave this end too few processors; None where they do not, or nobody counted."""
        foreign, cores = self.foreign_at_pct.get(host), self.cores_at.get(host, 0)
        if foreign is None or foreign <= FOREIGN_LIMIT_PCT:
            return None
        if cores - foreign / 100 >= min(CORES_NEEDED, cores):
            return None
        return f"other programs used {foreign:.0f} % of a core (limit {FOREIGN_LIMIT_PCT:g} %)"

    def stolen(self) -> str | None:
        """Why the hypervisor left the machine too little; None where it did not."""
        if self.steal_pct <= STEAL_LIMIT_PCT:
            return None
        return f"the hypervisor took {self.steal_pct:.0f} % of all cores (limit {STEAL_LIMIT_PCT:g} %)"

    def limited(self, host: str) -> str | None:
        """Why the end's container had no processor by its own limit; None where it had."""
        kept_ms = self.throttled_ms.get(host, 0.0)
        if kept_ms <= 0.0:
            return None
        return f"the container's own limit kept its threads from running for {kept_ms:.0f} ms"


def foreign_use(events: Sequence[Json], *windows: str) -> tuple[Use | None, str | None]:
    """(what neighbours used, None), or (None, why nobody knows), from the first reading before one of these
    windows to the last after one of them."""
    mine = [e for e in events if e.get("event") == EVENT and e.get("window") in windows]
    before = next((e for e in mine if e.get("edge") == "before"), None)
    after = next((e for e in reversed(mine) if e.get("edge") == "after"), None)
    if before is None or after is None:
        return None, NOT_COUNTED
    if reason := before.get("reason") or after.get("reason"):
        return None, str(reason)
    try:
        # not by the wall clock, which somebody may set meanwhile
        wall_ms = 1e3 * (number_of(after, "mono_s") - number_of(before, "mono_s"))
        if wall_ms <= 0:
            return None, "the clock did not move on between the two readings"
        return _use(before, after, wall_ms), None
    except (KeyError, TypeError, ValueError) as error:
        return None, f"the readings are damaged: {type(error).__name__} {error}"


def _use(before: Json, after: Json, wall_ms: float) -> Use:
    def grown(name: str) -> float:
        return number_of(after, name) - number_of(before, name)

    used = [b - a for a, b in zip(*(numbers_of(edge, "used_ms") for edge in (before, after)), strict=True)]
    foreign_ms = sum(used) - grown("lab_total_ms") - grown("controller_ms")
    by_core = None
    if before["lab_ms"] is not None and after["lab_ms"] is not None:
        lab = [b - a for a, b in zip(*(numbers_of(edge, "lab_ms") for edge in (before, after)), strict=True)]
        by_core = [mine - theirs for mine, theirs in zip(used, lab, strict=True)]
    at, cores_at = {}, {}
    pinned = part_of(after, "cores_of", {})
    for role in ROLES:
        cores = [int(core) for core in numbers_of(pinned, role)] if pinned.get(role) else range(len(used))
        cores_at[role] = len(cores)
        mine_ms = foreign_ms
        if by_core is not None:
            # the controller waits while windows run, on whichever core
            mine_ms = sum(by_core[core] for core in cores if core < len(by_core)) - grown("controller_ms")
        at[role] = 100 * max(0.0, mine_ms) / wall_ms
    earlier, later = part_of(before, "throttled_ms", {}), part_of(after, "throttled_ms", {})
    throttled = {
        role: number_of(later, role) - number_of(earlier, role, 0.0)
        for role, told in later.items()
        if told is not None
    }
    return Use(
        100 * max(0.0, foreign_ms) / wall_ms,
        100 * grown("steal_ms") / (wall_ms * len(used)),
        wall_ms / 1e3,
        at,
        cores_at,
        throttled,
    )
