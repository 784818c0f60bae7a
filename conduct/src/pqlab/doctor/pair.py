"""Both ends of an inventory: do they answer, do they fit each other, how far apart are their clocks, what do
they measure power with. Asked of the agents; nothing is started there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pqbase.documents import Json, part_of, rows_of, whole_of
from pqevidence.errors import LabError
from pqevidence.record.raw import kernels
from pqlab.campaign.agents import AgentClient, Connect
from pqlab.campaign.hosts import different_ends
from pqlab.campaign.settle import HELLO_S
from pqlab.doctor.model import BOTH_ENDS, Reading, Requirement
from pqlab.doctor.system import System
from pqlab.inventory import ROLES, Inventory
from pqtunnel.rpc import RpcError

CLOCK_SAMPLES = 16
OFFSET_WANT_MS = 5.0


@dataclass(frozen=True)
class Offset:
    """An agent's realtime clock minus this machine's: the exchange with the shortest round trip, and its half
    as bound (NTP's minimum filter, RFC 5905 §10)."""

    offset_ms: float
    bound_ms: float


@dataclass
class Pair:
    """What both ends said. `reasons`: why an end said nothing; `hosts`: how each is called in the table,
    and `both` together."""

    ring: str
    hello: dict[str, Json] = field(default_factory=dict)
    offsets: dict[str, Offset] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    both: str = BOTH_ENDS


def ask(inventory: Inventory, connect: Connect, realtime_ns: Callable[[], int] = time.time_ns) -> Pair:
    """Greet both agents and measure their clocks; an end that does not answer is a reason, not an
    exception."""
    named = "" if inventory.share is None else f"{inventory.share.pair}, "
    pair = Pair(inventory.ring, both=f"{named}{BOTH_ENDS}")
    for role in ROLES:
        agent = inventory.agents[role]
        pair.hosts[role] = f"{named}{role}, {agent.name} at {agent.host}:{agent.port}"
        try:
            client = connect(inventory.agents[role])
            try:
                pair.hello[role] = client.call("hello", timeout_s=HELLO_S)
                pair.offsets[role] = measure(client, realtime_ns)
            finally:
                client.close()
        except (LabError, RpcError) as error:
            pair.reasons[role] = str(error.args[0])
    return pair


def measure(client: AgentClient, realtime_ns: Callable[[], int]) -> Offset:
    """Offset of the agent's clock. Raises RpcError."""
    best: Offset | None = None
    for _ in range(CLOCK_SAMPLES):
        sent_ns = realtime_ns()
        there_ns = whole_of(client.call("counters"), "t_ns")
        back_ns = realtime_ns()
        bound_ms = (back_ns - sent_ns) / 2e6
        if best is None or bound_ms < best.bound_ms:
            best = Offset((there_ns - (sent_ns + back_ns) / 2) / 1e6, bound_ms)
    assert best is not None
    return best


def _both(pair: Pair) -> Reading | None:
    """Why both ends cannot be compared, or None."""
    if len(pair.hello) == len(ROLES):
        return None
    return Reading(None, f"needs both ends, and {', '.join(sorted(pair.reasons))} did not answer")


def _answers(pair: Pair, role: str) -> Reading:
    if role not in pair.hello:
        return Reading(False, pair.reasons[role])
    facts = pair.hello[role]
    if facts["role"] != role:
        return Reading(
            False, f"there the {facts['role']} answers", "correct pqlab_agent_host and _port in the inventory"
        )
    bad = [str(item["name"]) for item in rows_of(part_of(facts, "selftest"), "items") if item["ok"] is False]
    if bad:
        return Reading(False, f"its self-test failed: {', '.join(bad)}", "provision it again: make images")
    host = part_of(facts, "host")
    return Reading(True, f"{host['hostname']}, {host['machine']}, kernel {host['kernel']}, {facts['state']}")


def _ring(pair: Pair) -> Reading:
    lacking = _both(pair)
    if lacking is not None:
        return lacking
    rings = {role: facts["ring"] for role, facts in pair.hello.items()}
    told = ", ".join(f"{role} {ring}" for role, ring in sorted(rings.items()))
    if set(rings.values()) != {pair.ring}:
        return Reading(
            False, f"{told}; the inventory says {pair.ring}", "set PQ_RING of the ends, or pqlab_ring"
        )
    if pair.ring == "hardware" and not part_of(pair.hello["drone"], "host").get("board_revision"):
        return Reading(
            False,
            "the drone has no board revision in a device tree",
            "ring hardware needs a Raspberry Pi as the drone; where all runs on one machine: pqlab_ring=lab",
        )
    if pair.ring == "lab" and len(kernels(pair.hello)) > 1:
        return Reading(
            False,
            "ring lab is one machine's, and these are two",
            "a Raspberry Pi as the drone and pqlab_ring=hardware, or both ends on one machine",
        )
    return Reading(True, told)


def _match(pair: Pair) -> Reading:
    lacking = _both(pair)
    if lacking is not None:
        return lacking
    drone, gcs = pair.hello["drone"], pair.hello["gcs"]
    unequal = different_ends(pair.hello)
    if drone["protocol_version"] != gcs["protocol_version"]:
        unequal.insert(0, f"protocol ({drone['protocol_version']} and {gcs['protocol_version']})")
    return Reading(
        not unequal,
        ", ".join(unequal) if unequal else f"{len(part_of(drone, 'providers'))} providers are equal",
    )


def _offset(pair: Pair, role: str) -> Reading:
    found = pair.offsets.get(role)
    if found is None:
        return Reading(None, pair.reasons[role])
    told = f"{found.offset_ms:+.3f} ms ± {found.bound_ms:.3f} ms of this machine's"
    return Reading(abs(found.offset_ms) - found.bound_ms <= OFFSET_WANT_MS, told)


def _power(pair: Pair) -> Reading:
    if "drone" not in pair.hello:
        return Reading(None, pair.reasons["drone"])
    rows = [row for row in rows_of(pair.hello["drone"], "sensors", []) if row.get("name") == "power"]
    if not rows:
        return Reading(False, "no power sensor is asked for: watts are null")
    row = rows[0]
    if not row.get("available"):
        return Reading(False, str(row.get("reason")), None if row.get("hint") is None else str(row["hint"]))
    parts = [str(row.get("sensor") or "power"), f"class {row.get('sensor_class')}"]
    if row.get("rate_hz"):
        parts.append(f"{row['rate_hz']:g} Hz at {row.get('adc')}")
    if row.get("sensor_class") not in ("chip", "pmic"):
        parts.append("its watts are synthetic")
    return Reading(True, ", ".join(parts))


def requirements(pair: Pair) -> tuple[Requirement, ...]:
    """The pair's own requirements; they read what was asked before, never the network."""

    def of(read: Callable[..., Reading], *more: str) -> Callable[[System], Reading]:
        return lambda _system: read(pair, *more)

    rows: list[Requirement] = []
    for role in ROLES:
        rows.append(
            Requirement(
                f"{role} agent",
                "need",
                "answers, and its self-test passed",
                of(_answers, role),
                "make lab-status; or systemctl status pqtunnel-* there",
                host=pair.hosts[role],
            )
        )
    rows += [
        Requirement(
            "ring",
            "need",
            "both ends claim the inventory's ring",
            of(_ring),
            "provision both ends again",
            host=pair.both,
        ),
        Requirement(
            "providers",
            "need",
            "equal builds at both ends",
            of(_match),
            "provision both ends from one tree",
            host=pair.both,
        ),
    ]
    for role in ROLES:
        rows.append(
            Requirement(
                f"{role} clock",
                "want",
                f"within {OFFSET_WANT_MS:g} ms of the controller's",
                of(_offset, role),
                "role common sets up time synchronisation there",
                host=pair.hosts[role],
            )
        )
    rows.append(
        Requirement(
            "drone power",
            "note",
            "an INA219 that passed its preflight",
            of(_power),
            "docs/HARDWARE.md: wiring; PQ_POWER asks for it",
            host=pair.hosts["drone"],
        )
    )
    return tuple(rows)
