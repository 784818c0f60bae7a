"""The floor of a handshake, "same primitives, bare TCP", and what waking up costs on this machine.

One program (bench/peers/floor) makes both, between the same two namespaces as everything else: the key
generation, signatures and encapsulation of a suite by the tunnel's own liboqs, over TCP without the protocol.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal

from pqbase.documents import Json, number_of
from pqbench.children import child, output_of
from pqbench.errors import ChildFailed, PeerMissing
from pqbench.figures import median, of_handshakes, rounded
from pqbench.peers import binary
from pqbench.spaces import ADDRESS, Spaces
from pqtunnel.suites import get

FLOOR_PORT: Final = "45102"
WAKE_PORT: Final = "45103"
WAKE_ROUNDS: Final = 4
"""Of 400 waits each: a second and a half."""
RANDOM_KEYGEN: Final = "classicmceliece"
"""The family whose key generation takes a random number of tries: two medians of few differ by it alone."""

Kind = Literal["mutual", "server"]
"""Who signs: both ends, or the one that makes the key pair."""


class Floors:
    """The floors of one run: each pair of KEM and signature is measured once, when it is first asked for."""

    def __init__(self, where: Spaces, count: int, limit_s: float) -> None:
        self._where, self._count, self._limit_s = where, count, limit_s
        self._found: dict[tuple[str, str], Json] = {}

    def of(self, suite_id: str) -> Json:
        """That of a suite; one with the same primitives has the same."""
        suite = get(suite_id)
        pair = (suite.kem.oqs_name, suite.sig.oqs_name)
        if pair not in self._found:
            self._found[pair] = measure(self._where, suite_id, "server", self._count, self._limit_s)
        return self._found[pair]

    def all(self) -> list[Json]:
        """Every one that was measured."""
        return list(self._found.values())


def measure(where: Spaces, suite_id: str, kind: Kind, count: int, limit_s: float) -> Json:
    """`count` exchanges of a suite's primitives, or at least 5 where they do not fit `limit_s`; or why there
    are none."""
    suite = get(suite_id)
    algorithms = {"kem": suite.kem.oqs_name, "sig": suite.sig.oqs_name, "signs": kind}
    try:
        program, folder = binary("bare_tcp"), Path("/tmp/floor")
        folder.mkdir(exist_ok=True)
        if not (folder / f"{suite.sig.oqs_name}.client.secret").exists():
            output_of([program, "keys", str(folder), suite.sig.oqs_name])
        options = (str(folder), ADDRESS["gcs"], FLOOR_PORT, *algorithms.values())
        with child("bare TCP server", where.at("gcs", program, "server", *options)) as server:
            server.wait_ready()
            sizes = (str(count), str(min(5, count)), str(limit_s))
            told = json.loads(output_of(where.at("drone", program, "client", *options, *sizes)))
    except (PeerMissing, ChildFailed) as error:
        return {**algorithms, "missing": str(error)}
    return {**algorithms, "library": told["library"], **of_handshakes(told["handshakes"])}


def beside(suite_id: str, mine: Json, floor: Json) -> Json:
    """The floor of a handshake and how many times it is as long; or why that is not known.

    Where key generation takes a random number of tries, both have the floor's and keep the rest of their own.
    """
    if "missing" in floor:
        return {"floor_missing": floor["missing"]}
    if "missing" in mine:
        return {"floor_median_ms": floor["wall_median_ms"]}
    walls = [number_of(row, "wall_median_ms") for row in (mine, floor)]
    if get(suite_id).kem.token.startswith(RANDOM_KEYGEN):
        keygen_ms = number_of(floor, "keygen_median_ms")
        walls = [keygen_ms + number_of(row, "rest_median_ms") for row in (mine, floor)]
    return {"floor_median_ms": floor["wall_median_ms"], "floor_ratio": rounded(walls[0] / walls[1])}


def wake_up(where: Spaces) -> Json:
    """What one end loses that waits for the other asleep in the kernel, as the tunnel does, not awake."""
    try:
        program = binary("bare_tcp")
        options = (ADDRESS["gcs"], WAKE_PORT)
        with child("wake-up server", where.at("gcs", program, "wake-server", *options)) as server:
            server.wait_ready()
            client = where.at("drone", program, "wake-client", *options, str(WAKE_ROUNDS))
            return wake_figures(json.loads(output_of(client))["rounds"])
    except (PeerMissing, ChildFailed) as error:
        return {"missing": str(error)}


def wake_figures(rounds: list[Json]) -> Json:
    """Of round trips that hold two waits each: the median one asleep less the median one awake, halved."""
    asleep, awake = (
        [number_of(row, "waited_us") for row in rounds if row["asleep"] is way] for way in (True, False)
    )
    slow, fast = median(asleep), median(awake)
    if slow is None or fast is None:
        return {"missing": "no wait was measured"}
    if slow <= fast:
        return {
            "missing": f"asking all the time took longer than sleeping ({fast / 2:.0f} µs): too busy here"
        }
    return {
        "n": len(rounds),
        "wake_up_us": rounded((slow - fast) / 2, 1),
        "asleep_us": rounded(slow / 2, 1),
        "awake_us": rounded(fast / 2, 1),
    }
