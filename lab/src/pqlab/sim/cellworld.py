"""One simulated cell: both ends, the network between them, handshakes and traffic windows in virtual time.

The handshake machines, the session and the traffic profile are the product's own; chance comes from the
cell's seed, time from the virtual clock.
"""

from __future__ import annotations

import heapq
import json
import random
from typing import Any

from pqlab.sim.clock import VirtualClock
from pqlab.sim.end import End, Role
from pqlab.sim.identity import Identities
from pqlab.sim.primitives import SimPrimitives
from pqsitl.profile import TIMESYNC_REPLY_BYTES, UPLINK_TIMESYNC_HZ, load_profile
from pqsitl.schedule import BurstSchedule
from pqtunnel import packet, suites
from pqtunnel.handshake.drone import DroneHandshake
from pqtunnel.handshake.gcs import GcsHandshake
from pqtunnel.session import new_index
from pqtunnel.trace import Tracer
from pqtunnel.wire import HEADER_BYTES

Json = dict[str, Any]
MS = 1_000_000
NS = 1_000_000_000
#: invented one-way delay of the simulated network, its jitter (exponential), and time inside a send call
DELAY_NS, JITTER_NS, SEND_NS = 150_000, 20_000, 8_000
#: pause between two cold handshakes, as the agents make it
SETTLE_NS = 2 * MS
HEARTBEAT_BYTES = 21
TIMESYNC_BYTES = 28


class CellWorld:
    """What `prepare` makes and both agents work on."""

    def __init__(self, clock: VirtualClock, identities: Identities, params: Json) -> None:
        self.cell_id = str(params["cell_id"])
        self.suite = suites.get(str(params["suite_id"]))
        self._clock = clock
        self._identities = identities
        self._min_level = int(params["min_level"])
        self._rng = random.Random(f"sim cell/{params['seed']}/{self.cell_id}")
        # a machine is a little faster or slower in every cell: what run-level statistics are about
        pace = self._rng.lognormvariate(0.0, 0.02)
        self._primitives = SimPrimitives(self._rng, clock.advance, pace)
        self.taken: set[Role] = set()
        ledger = bool(params["ledger"])
        self.drone = End("drone", clock, self._primitives, ledger)
        self.gcs = End("gcs", clock, self._primitives, ledger)

    def end(self, role: Role) -> End:
        return self.drone if role == "drone" else self.gcs

    # ------------------------------------------------------------------ handshakes

    def handshake_block(self, count: int, min_count: int, max_s: float) -> Json:
        """Cold handshakes one after another; the last session carries the traffic."""
        begun_ns = self._clock.mono_ns()
        done: list[str] = []
        while len(done) < count:
            if len(done) >= min_count and self._clock.mono_ns() - begun_ns >= max_s * NS:
                break
            done.append(self._handshake(len(done)))
            self._clock.advance(SETTLE_NS)
        return {"completed": len(done), "failed": 0, "handshake_ids": done, "failures": []}

    def _handshake(self, index: int) -> str:
        clock, rng = self._clock, self._rng
        counts: dict[Role, dict[str, int]] = {"drone": {}, "gcs": {}}
        tracers = {
            role: Tracer(clock=clock.look_ns, host=role, index=index, mode="cold", suite_id=self.suite.id)
            for role in ("drone", "gcs")
        }
        common: Json = {
            "min_level": self._min_level, "primitives": self._primitives, "rng": rng.randbytes,
        }  # fmt: skip
        drone = DroneHandshake(
            suite=self.suite, psk=self._identities.psk, trusted=[self._identities.gcs.public],
            epoch=index, tracer=tracers["drone"], counters=counts["drone"],
            rx_index=new_index(rng.randbytes, self.drone.session), **common,
        )  # fmt: skip
        gcs = GcsHandshake(
            identity=self._identities.gcs, psks=self._identities.psks, accepted={self.suite.id},
            tracer=tracers["gcs"], counters=counts["gcs"],
            rx_index=new_index(rng.randbytes, self.gcs.session), **common,
        )  # fmt: skip
        tracers["drone"].mark("connect", "io")
        drone.start()
        clock.advance(2 * self._delay_ns())
        tracers["gcs"].mark("accept", "io")
        tracers["drone"].mark(drone.wait_step, "network_wait")
        message = gcs.start()
        listener: DroneHandshake | GcsHandshake = drone
        speaker: DroneHandshake | GcsHandshake = gcs
        while message:
            tracer = tracers["gcs" if speaker is gcs else "drone"]
            tracer.mark(speaker.send_step, "io")
            clock.advance(SEND_NS)
            if not speaker.done:
                tracer.mark(speaker.wait_step, "network_wait")
            else:
                tracer.finish()
            clock.advance(self._delay_ns())
            message = _deliver(listener, b"".join(message))
            if listener is gcs and gcs.established is not None:
                self.gcs.session.install(gcs.established, clock.mono_ns())
            speaker, listener = listener, speaker
        for tracer in tracers.values():
            tracer.finish()
        assert drone.established is not None  # the loop ends when the drone has nothing left to say
        self.drone.session.install(drone.established, clock.mono_ns())
        self._keepalives()
        for role in ("drone", "gcs"):
            end = self.end(role)
            end.counters.add_handshake(counts[role])
            end.spans += [json.dumps(row, separators=(",", ":")) for row in tracers[role].rows()]
        return drone.handshake_id

    def _keepalives(self) -> None:
        """The drone speaks first on a new epoch; the ground acknowledges it, and both may send."""
        for here, there, kind in (
            (self.drone, self.gcs, packet.KEEPALIVE),
            (self.gcs, self.drone, packet.EPOCH_ACK),
        ):
            datagram = here.session.seal_control(kind)
            self._clock.advance(self._delay_ns())
            there.receive(datagram, self._clock.mono_ns())

    def _delay_ns(self) -> int:
        return DELAY_NS + round(self._rng.expovariate(1.0 / JITTER_NS))

    # ------------------------------------------------------------------ traffic

    def run_window(self, window: str, spec: Json, duration_s: float) -> tuple[Json, Json]:
        """Carry `duration_s` of traffic; returns what source and sink report at drone and gcs."""
        open_ns = self._clock.mono_ns()
        end_ns = open_ns + round(duration_s * NS)
        offset_ns = self._clock.realtime_ns() - open_ns
        reports: dict[Role, Json] = {}
        for role in ("drone", "gcs"):
            reports[role] = {"sent": _tally(), "received": _tally()}
        due: list[tuple[int, int, Role, int, bool]] = []
        plan = _bulk if spec["source"] == "bulk" else _session
        for number, (at_ns, role, size, asks) in enumerate(plan(spec, open_ns, end_ns)):
            due.append((at_ns, number, role, size, asks))
        heapq.heapify(due)
        serial = len(due)
        while due:
            at_ns, _, role, size, asks = heapq.heappop(due)
            there: Role = "gcs" if role == "drone" else "drone"
            self._clock.advance_to(at_ns)
            datagram, left_ns = self.end(role).send(self._rng.randbytes(size), at_ns + offset_ns)
            _note(reports[role]["sent"], size, at_ns + offset_ns)
            arrived_ns = left_ns + self._delay_ns()
            if self.end(there).receive(datagram, arrived_ns) is not None:
                _note(reports[there]["received"], size, arrived_ns)
            if asks and (answer_ns := arrived_ns - offset_ns + MS) < end_ns:
                heapq.heappush(due, (answer_ns, serial, there, TIMESYNC_REPLY_BYTES, False))
                serial += 1
        self._clock.advance_to(end_ns)
        return reports["drone"], reports["gcs"]


def _deliver(machine: DroneHandshake | GcsHandshake, data: bytes) -> list[bytes]:
    """Feed whole frames; what the machine answers to the last of them."""
    answer: list[bytes] = []
    while data:
        length = machine.on_header(data[:HEADER_BYTES])
        answer = machine.on_body(data[HEADER_BYTES : HEADER_BYTES + length])
        data = data[HEADER_BYTES + length :]
    return answer


def _session(spec: Json, open_ns: int, end_ns: int) -> list[tuple[int, Role, int, bool]]:
    """(when, sender, bytes, asks for an answer) of a MAVLink session, both directions."""
    profile = load_profile(str(spec["profile"]))
    schedule = BurstSchedule(profile, float(spec["rate_hz"]), open_ns)
    sizes = profile.sizes
    found: list[tuple[int, Role, int, bool]] = []
    while (at_ns := schedule.next_ns) < end_ns:
        found += [(at_ns, "drone", sizes[name], False) for name in schedule.take(at_ns)]
    for rate_hz, size, asks in ((1.0, HEARTBEAT_BYTES, False), (UPLINK_TIMESYNC_HZ, TIMESYNC_BYTES, True)):
        step_ns = round(NS / rate_hz)
        found += [(at_ns, "gcs", size, asks) for at_ns in range(open_ns + step_ns // 4, end_ns, step_ns)]
    return found


def _bulk(spec: Json, open_ns: int, end_ns: int) -> list[tuple[int, Role, int, bool]]:
    count = round((end_ns - open_ns) * float(spec["rate_hz"]) / NS)
    size = int(spec["size_bytes"])
    return [(open_ns + (end_ns - open_ns) * n // count, "drone", size, False) for n in range(count)]


def _tally() -> Json:
    return {
        "count": 0, "bytes": 0, "first_ns": None, "last_ns": None, "sizes": {},
        "corrupt": 0, "duplicate": 0, "missing": 0,
    }  # fmt: skip


def _note(tally: Json, size: int, t_ns: int) -> None:
    tally["count"] += 1
    tally["bytes"] += size
    tally["first_ns"] = t_ns if tally["first_ns"] is None else tally["first_ns"]
    tally["last_ns"] = t_ns
    tally["sizes"][str(size)] = tally["sizes"].get(str(size), 0) + 1
