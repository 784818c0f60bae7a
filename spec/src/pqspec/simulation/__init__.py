"""The protocol in virtual time: two ends, a seeded network, and rules that are checked at every step.

    world = World(seed=7)
    world.network.links["gcs"] = Link(delay_ns=40 * MS, loss=0.1)     # towards the gcs
    world.traffic(hz=320, seconds=10)                                 # both ways, numbered plaintexts
    world.clock.after(5 * S, world.drone.rekey)
    world.run(seconds=12)
    world.lost("drone"), world.drone.data["rx_ok"], world.drone.counters["hs_completed"]

- `World(seed, suite_id, accepted)`: same arguments and calls, same run, to the last byte. `send`,
  `traffic`, `run(seconds)`, `lost(sender)`, `sent` and `delivered` (plaintext and time), `drone`, `gcs`,
  `network`, `streams`, `clock.after(ns, action)`.
- `Node` (`world.drone`, `world.gcs`): `session`, `book`, `roaming.peer`, `data` (data-plane counters of this
  life), `counters` (handshake counters), `spans` (a Tracer of each handshake; `.rows()`), `log`, `suite`,
  `pause(ns)`, `restart(down_ns)`. Drone: `dial()`, `rekey(suite)`, `automatic`. GCS: `request(suite)`.
- `Network`: `links[role]` by receiver, `translate(inside, public)` for NAT, `inject` and `taps` for
  strangers.
- `Link`: delay, jitter, loss, duplicate, reorder, is_cut.

What decides is the real code: handshake machines, `Session`, `PathState`, `EpochBook`, `Backoff`,
`Requester`. Primitives are stand-ins of the right sizes; no time passes in computing. Nothing here makes a
physical claim: times are those of the modelled network alone.
"""

from pqspec.simulation.clock import MS, S, VirtualClock
from pqspec.simulation.ends import Drone, Gcs
from pqspec.simulation.network import Link, Network, Stream
from pqspec.simulation.node import Node
from pqspec.simulation.primitives import InvariantBroken, SimulatedPrimitives
from pqspec.simulation.world import DRONE, GCS, SUITE, World

__all__ = [
    "DRONE", "GCS", "MS", "SUITE", "Drone", "Gcs", "InvariantBroken", "Link", "Network", "Node", "S",
    "SimulatedPrimitives", "Stream", "VirtualClock", "World",
]  # fmt: skip
