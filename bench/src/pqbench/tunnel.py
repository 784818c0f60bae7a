"""The tunnel's two ends as two processes, one at each side."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqbase.documents import Json
from pqbench.children import Child, child, output_of
from pqbench.spaces import ADDRESS, SIDES, Side, Spaces

SINK_PORT: Final = 45_002
PLAINTEXT_PORT: Final[dict[Side, int]] = {"drone": 47_003, "gcs": 47_001}
SEALED_PORT: Final[dict[Side, int]] = {"drone": 46_012, "gcs": 46_011}
KEYS: Final = Path("/tmp/keys")


def make_keys() -> None:
    """Identities of both ends, once a run."""
    if not KEYS.exists():
        output_of([sys.executable, "-m", "pqtunnel", "keys", "--out", str(KEYS)])


@dataclass(frozen=True)
class Tunnel:
    """Both ends; `ask` goes to one of them."""

    drone: Child
    gcs: Child

    @property
    def pids(self) -> list[int]:
        """The processes that carry the tunnel."""
        return [self.drone.process.pid, self.gcs.process.pid]

    def prepare(self, suite_id: str, drone_auth: str = "psk") -> None:
        """A fresh cell at both ends."""
        for end in (self.gcs, self.drone):
            end.ask(do="prepare", suite_id=suite_id, drone_auth=drone_auth)

    def connect(self, suite_id: str) -> None:
        """A cell with a session and open gates."""
        self.prepare(suite_id)
        self.drone.ask(do="handshakes", count=1, least=1, limit_s=60)
        for end in (self.gcs, self.drone):
            end.ask(do="open_window")

    def counters(self, side: Side) -> Json:
        """Totals of one end."""
        return (self.drone if side == "drone" else self.gcs).ask(do="counters")


@contextmanager
def tunnel(where: Spaces) -> Iterator[Tunnel]:
    """Both ends, for the length of a block."""
    make_keys()
    with ExitStack() as stack:
        ends: dict[Side, Child] = {}
        for side in reversed(SIDES):
            settings = {
                "PQ_BIND": ADDRESS[side],
                "PQ_PEER": ADDRESS["gcs" if side == "drone" else "drone"],
                "PQ_PLAINTEXT_SOURCE": ADDRESS[side],
                "PQ_PLAINTEXT_TARGET": f"{ADDRESS[side]}:{SINK_PORT}",
                "PQ_STATE": f"/tmp/state-{side}",
            }
            command = where.at(side, sys.executable, "-m", "pqbench.end", side, str(KEYS / side))
            ends[side] = stack.enter_context(child(f"tunnel {side}", command, {**os.environ, **settings}))
            ends[side].wait_ready()
        yield Tunnel(ends["drone"], ends["gcs"])
