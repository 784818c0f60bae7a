"""What the accounting of waiting costs a handshake: the same two ends with and without it.

It costs the same microseconds in all suites. So two are asked: the fastest one, of which they are the
largest part, and one of HQC-128, beside which three quarters of the 72 suites take longer.

For the wall both ways take short blocks of one cell by turns: from one cell to the next the same two ends
differ by more than what is looked for. They are not mixed handshake by handshake: a reading before one
gives the other end time to finish the one before it, which makes it some 2 % shorter than a neighbour
without a reading, and in a campaign all have one. Each cell gives one ratio of median walls. For the
processor time both ways take whole cells.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Final

from pqbase.documents import Json, rows_of, whole_of
from pqbase.stats import median_interval
from pqbench.end import Way
from pqbench.errors import ChildFailed
from pqbench.figures import rounded
from pqbench.tunnel import Tunnel

FASTEST: Final = "cs-mlkem512-aesgcm-mldsa44"
SLOWER: Final = "cs-hqc128-aesgcm-mldsa44"
SLOWER_ROUNDS_SHARE: Final = 8
"""A round of the slower suite takes so many times as long, and as many fewer are made."""
BLOCKS: Final[tuple[Way, ...]] = ("always", "never", "never", "always") * 2
PER_BLOCK: Final = 25
CPU_PER_ROUND: Final = 20
CPU_ROUNDS_SHARE: Final = 5
"""One round of processor time to so many of walls: it needs fewer."""
LIMIT_S: Final = 30.0


def run(tunnel: Tunnel, rounds: int, tell: Callable[[str], None]) -> list[Json]:
    """Ratios with accounting over without of each suite, one ratio a cell; or why there are none."""
    asked = ((FASTEST, rounds), (SLOWER, max(1, rounds // SLOWER_ROUNDS_SHARE)))
    return [{"suite_id": suite, **_of(tunnel, suite, count, tell)} for suite, count in asked]


def _of(tunnel: Tunnel, suite: str, rounds: int, tell: Callable[[str], None]) -> Json:
    walls: list[float] = []
    cpus: list[float] = []
    try:
        for place in range(rounds):
            walls.append(_wall_ratio(tunnel, suite, swapped=place % 2 == 1))
            if place % CPU_ROUNDS_SHARE == 0:
                order: tuple[Way, ...] = ("always", "never") if len(cpus) % 2 else ("never", "always")
                taken = {way: _cpu_a_handshake_ms(tunnel, suite, way) for way in order}
                cpus.append(taken["always"] / taken["never"])
    except ChildFailed as error:
        return {"missing": str(error)}
    finally:
        _set(tunnel, "always")
    found = {
        "rounds": rounds,
        "per_round": len(BLOCKS) * PER_BLOCK,
        **_summary(walls, cpus),
    }
    tell(f"accounting of {suite}: wall × {found['wall_ratio']}, processor × {found['cpu_ratio']}")
    return found


def _set(tunnel: Tunnel, way: Way) -> None:
    for end in (tunnel.gcs, tunnel.drone):
        end.ask(do="meter", way=way)


def _wall_ratio(tunnel: Tunnel, suite: str, *, swapped: bool) -> float:
    """Median wall of the handshakes of one cell that were accounted for, over that of the others."""
    tunnel.prepare(suite)
    for way in BLOCKS[2:] + BLOCKS[:2] if swapped else BLOCKS:
        _set(tunnel, way)
        tunnel.drone.ask(do="handshakes", count=PER_BLOCK, least=PER_BLOCK, limit_s=LIMIT_S)
    walls_ns: dict[bool, list[int]] = {True: [], False: []}
    for row in rows_of(tunnel.drone.ask(do="spans"), "rows"):
        if row["step"] == "handshake":
            walls_ns[row["cpu_ns"] is not None].append(whole_of(row, "end_ns") - whole_of(row, "start_ns"))
    if not all(walls_ns.values()):
        raise ChildFailed(f"no handshake of {suite} completed in one of both ways")
    return statistics.median(walls_ns[True]) / statistics.median(walls_ns[False])


def _cpu_a_handshake_ms(tunnel: Tunnel, suite: str, way: Way) -> float:
    _set(tunnel, way)
    tunnel.prepare(suite)
    before = _cpu_ms(tunnel)
    block = tunnel.drone.ask(do="handshakes", count=CPU_PER_ROUND, least=CPU_PER_ROUND, limit_s=LIMIT_S)
    if not block["completed"]:
        raise ChildFailed(f"no handshake of {suite} completed")
    return (_cpu_ms(tunnel) - before) / whole_of(block, "completed")


def _cpu_ms(tunnel: Tunnel) -> float:
    return math.fsum(whole_of(end.ask(do="cpu"), "cpu_ns") for end in (tunnel.drone, tunnel.gcs)) / 1e6


def _summary(walls: Sequence[float], cpus: Sequence[float]) -> Json:
    """Medians over the rounds, each with a 95 % interval from order statistics."""
    told: Json = {}
    for name, values in (("wall", walls), ("cpu", cpus)):
        low, high = median_interval(values)
        told[f"{name}_ratio"] = rounded(statistics.median(values), 4)
        told[f"{name}_low_ratio"], told[f"{name}_high_ratio"] = rounded(low, 4), rounded(high, 4)
    return told
