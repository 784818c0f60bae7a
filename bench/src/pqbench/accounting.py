"""What the accounting of waiting costs a handshake: the same two ends with and without it, in turn.

The fastest suite is asked, because the cost is the same in all of them. In each round both ways run one after
the other, the first one drawn by turns, and give one ratio of median walls and one of processor time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from pqbase.stats import median_interval
from pqbench.errors import ChildFailed
from pqbench.figures import median, rounded
from pqbench.handshakes import handshakes_of
from pqbench.tunnel import Tunnel

SUITE: Final = "cs-mlkem512-aesgcm-mldsa44"
PER_ROUND: Final = 20
LIMIT_S: Final = 30.0


def run(tunnel: Tunnel, rounds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Ratios with accounting over without, one a round; or why there are none."""
    walls: list[float] = []
    cpus: list[float] = []
    try:
        for place in range(rounds):
            order = (True, False) if place % 2 else (False, True)
            taken = {metered: _block(tunnel, metered) for metered in order}
            walls.append(taken[True][0] / taken[False][0])
            cpus.append(taken[True][1] / taken[False][1])
    except ChildFailed as error:
        return {"missing": str(error)}
    finally:
        for end in (tunnel.drone, tunnel.gcs):
            end.ask(do="meter", metered=True)
    found = {"suite_id": SUITE, "rounds": rounds, "per_round": PER_ROUND, **_summary(walls, cpus)}
    tell(f"accounting: wall × {found['wall_ratio']}, processor × {found['cpu_ratio']}")
    return found


def _block(tunnel: Tunnel, metered: bool) -> tuple[float, float]:
    """(median wall, processor time of both ends a handshake), ms."""
    for end in (tunnel.gcs, tunnel.drone):
        end.ask(do="meter", metered=metered)
    tunnel.prepare(SUITE)
    before = _cpu_ms(tunnel)
    tunnel.drone.ask(do="handshakes", count=PER_ROUND, least=PER_ROUND, limit_s=LIMIT_S)
    after = _cpu_ms(tunnel)
    rows = {"drone": tunnel.drone.ask(do="spans")["rows"], "gcs": tunnel.gcs.ask(do="spans")["rows"]}
    wall_ms = median([row["wall_ms"] for row in handshakes_of(rows)])
    if wall_ms is None:
        raise ChildFailed(f"no handshake of {SUITE} completed")
    return wall_ms, (after - before) / PER_ROUND


def _cpu_ms(tunnel: Tunnel) -> float:
    return math.fsum(end.ask(do="cpu")["cpu_ns"] for end in (tunnel.drone, tunnel.gcs)) / 1e6


def _summary(walls: Sequence[float], cpus: Sequence[float]) -> dict[str, Any]:
    """Medians over the rounds, each with a 95 % interval from order statistics."""
    told: dict[str, Any] = {}
    for name, values in (("wall", walls), ("cpu", cpus)):
        low, high = median_interval(values)
        told[f"{name}_ratio"] = rounded(statistics.median(values), 4)
        told[f"{name}_low_ratio"], told[f"{name}_high_ratio"] = rounded(low, 4), rounded(high, 4)
    return told
