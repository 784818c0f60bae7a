"""The handshake of `pqlink`: its station and its drone's dialling, in two long-lived processes.

One program is both (tunnel/link/examples/pair). The same suites, veth, clock and pause as the tunnel's,
and the same floor beside them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pqbase.documents import Json, number_of, rows_of, whole_of
from pqbench.children import Child, child, output_of
from pqbench.errors import ChildFailed, PeerMissing
from pqbench.figures import of_handshakes, rounded
from pqbench.peers import binary
from pqbench.spaces import ADDRESS, Spaces

FOLDER: Final = Path("/tmp/link-keys")
AT: Final = f"{ADDRESS['gcs']}:45104"
DRONES: Final = 600
"""A station lets one drone complete two handshakes a second, after a burst of 30."""
WORKERS: Final = 4
"""Threads that dial: with two processors two handshakes wait while two are worked for."""


class NoFigure(ChildFailed):
    """What the two ends say does not fit together."""


@contextmanager
def _station(where: Spaces, suite_id: str) -> Iterator[tuple[str, Child]]:
    program = binary("pair")
    if not FOLDER.exists():
        FOLDER.mkdir()
        output_of([program, "keys", str(FOLDER), str(DRONES)])
    command = where.at("gcs", program, "station", str(FOLDER), AT, suite_id)
    with child("pqlink station", command) as station:
        station.wait_ready()
        yield program, station


def joined(dialled: Json, served: Json) -> list[dict[str, float]]:
    """One entry a handshake: the drone's wall, the primitives of both ends, and the key generation among
    them, in ms. Raises NoFigure where the station made another number of them."""
    mine, theirs = rows_of(dialled, "handshakes"), rows_of(served, "handshakes")
    warm_up = whole_of(dialled, "warm_up")
    if len(theirs) != warm_up + len(mine):
        raise NoFigure(f"the drone counts {warm_up} + {len(mine)} handshakes, the station {len(theirs)}")
    return [
        {
            "wall_ms": number_of(own, "wall_ns") / 1e6,
            "crypto_ms": (number_of(own, "crypto_ns") + number_of(other, "crypto_ns")) / 1e6,
            "keygen_ms": number_of(other, "keygen_ns") / 1e6,
        }
        for own, other in zip(mine, theirs[warm_up:], strict=True)
    ]


def one_suite(where: Spaces, suite_id: str, count: int, limit_s: float) -> Json:
    """`count` handshakes, or at least 5 where fewer fit `limit_s`; or why there are none."""
    try:
        with _station(where, suite_id) as (program, station):
            sizes = (str(count), str(min(5, count)), str(limit_s))
            dial = where.at("drone", program, "dial", str(FOLDER), AT, suite_id, *sizes)
            taken = joined(json.loads(output_of(dial)), station.ask())
    except (PeerMissing, ChildFailed) as error:
        return {"suite_id": suite_id, "missing": str(error)}
    return {"suite_id": suite_id, **of_handshakes(taken)}


def rate(where: Spaces, suite_id: str, limit_s: float) -> Json:
    """As many handshakes as both ends make on this machine's processors; or why that is not known."""
    try:
        with _station(where, suite_id) as (program, station):
            before = station.ask()
            crowd = where.at("drone", program, "crowd", str(FOLDER), AT, suite_id, str(WORKERS), str(limit_s))
            told: Json = json.loads(output_of(crowd))
            return rate_figures(told, before, station.ask())
    except (PeerMissing, ChildFailed) as error:
        return {"missing": str(error)}


def rate_figures(told: Json, before: Json, after: Json) -> Json:
    """Handshakes a second, and processor time of one at either end, in ms. Raises NoFigure where one was
    refused."""
    completed, refused = whole_of(told, "completed"), whole_of(told, "refused")
    if refused or not completed:
        reason = told["first_refusal"] or "none was completed"
        raise NoFigure(f"{refused} of {completed + refused} handshakes were refused, the first: {reason}")
    worked = len(rows_of(after, "handshakes"))
    drone_ns = number_of(told, "cpu_after_ns") - number_of(told, "cpu_before_ns")
    station_ns = number_of(after, "cpu_ns") - number_of(before, "cpu_ns")
    return {
        "n": completed,
        "workers": WORKERS,
        "processors": len(os.sched_getaffinity(0)),
        "seconds": rounded(number_of(told, "seconds")),
        "rate_hz": rounded(completed / number_of(told, "seconds"), 1),
        "station_cpu_ms": rounded(station_ns / 1e6 / worked),
        "drone_cpu_ms": rounded(drone_ns / 1e6 / completed),
    }
