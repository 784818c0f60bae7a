"""Sister cells as witnesses: the same KEM and the same signature on the same hosts take what they take,
whatever AEAD a suite has and in whatever repetition it is measured."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView, end_of
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.record.untimed import untimed_reasons

#: primitives of the handshake; a handshake signed by the drone, too, has both of the last at each end
PRIMITIVES = ("keygen", "encaps", "decaps", "sign", "verify")
#: fewer say nothing about a cell as a whole
LEAST_PRIMITIVES, LEAST_HANDSHAKES = 3, 5
#: a cell's fastest executions against the fastest of its sisters: of 667 honest cells with sisters,
#: 92 of them on a busy machine, none was below 0.87 in each of its primitives
FASTER = 0.75
#: of the time by which the walls are shorter, this much must be found again in the drone's pauses
FOUND_AGAIN = 0.5


@dataclass(frozen=True)
class Sister:
    """What is compared of a cell: the fastest execution of each (host, primitive), the median wall of the
    drone and the median pause between two walls; ns."""

    label: str
    suite_id: str
    family: tuple[str, ...]
    fastest_ns: dict[tuple[str, str], int]
    wall_ns: float
    pause_ns: float


def alike(cell: CellView, tally: Tally) -> None:
    """No cell's primitives are all faster than those of every cell of a sister suite (or than every other
    cell of its own) while the time that they saved lies in the drone's pauses, which do not depend on speed.
    A processor that is faster for a while shortens both."""
    known = cell.bundle.sisters
    if (found := _sister(cell)) is not None:
        tally.see()
        known.setdefault(id(cell.run), []).append(found)
    if cell.cell_id == cell.bundle.last_carried_out:
        for sisters in known.values():
            for problem in _contradicted([one for one in sisters if isinstance(one, Sister)]):
                tally.fail(problem)


def _sister(cell: CellView) -> Sister | None:
    """None for a cell that claims nothing, has too few handshakes, or has the times of an emulator."""
    suite = cell.suite
    if cell.verdict != "pass" or suite is None or suite.is_plain or not has_witnesses(cell.run):
        return None
    if untimed_reasons(cell.run.hosts):
        return None
    fastest_ns: dict[tuple[str, str], int] = {}
    walls = []
    for hosts in cell.handshakes.values():
        for host, spans in hosts.items():
            for span in spans.steps:
                if span.step in PRIMITIVES:
                    key = (host, span.step)
                    fastest_ns[key] = min(span.duration_ns, fastest_ns.get(key, span.duration_ns))
        if (wall := end_of(hosts, "drone").wall) is not None:
            walls.append((wall.start_ns, wall.end_ns))
    walls.sort()
    if len(walls) < LEAST_HANDSHAKES or len(fastest_ns) < LEAST_PRIMITIVES:
        return None
    return Sister(
        cell.label,
        str(cell.plan["suite_id"]),
        (suite.kem.token, suite.sig.token, str(cell.plan["condition"])),
        fastest_ns,
        median(end - start for start, end in walls),
        median(after[0] - before[1] for before, after in pairwise(walls)),
    )


def _contradicted(sisters: list[Sister]) -> list[str]:
    families: dict[tuple[str, ...], list[Sister]] = defaultdict(list)
    for sister in sisters:
        families[sister.family].append(sister)
    found = []
    for family in families.values():
        for mine in family:
            groups: dict[str, list[Sister]] = defaultdict(list)
            for other in family:
                if other is not mine:
                    groups[other.suite_id].append(other)
            for suite_id, group in sorted(groups.items()):
                if (problem := _too_fast(mine, suite_id, group)) is not None:
                    found.append(problem)
                    break
    return found


def _too_fast(mine: Sister, suite_id: str, group: list[Sister]) -> str | None:
    shared = set(mine.fastest_ns).intersection(*(other.fastest_ns for other in group))
    if len(shared) < LEAST_PRIMITIVES:
        return None
    ratio = max(
        mine.fastest_ns[key] / max(1, min(other.fastest_ns[key] for other in group)) for key in shared
    )
    saved_ns = min(other.wall_ns for other in group) - mine.wall_ns
    longer_ns = mine.pause_ns - max(other.pause_ns for other in group)
    if ratio >= FASTER or saved_ns <= 0 or longer_ns < FOUND_AGAIN * saved_ns:
        return None
    return (
        f"{mine.label}: all primitives of its handshakes took at most {100 * ratio:.0f} % of the least that "
        f"they took in {len(group)} cells of {suite_id}, of the same KEM and signature (spans.ndjson), and "
        f"the drone paused {longer_ns / 1e6:.3f} ms longer between handshakes that were "
        f"{saved_ns / 1e6:.3f} ms shorter"
    )
