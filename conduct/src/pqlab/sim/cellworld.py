"""One simulated cell: both ends, handshakes, traffic windows and rekeys in virtual time.

Handshake machines, sessions, epochs and traffic profile are the product's own; chance comes from the cell's
seed, time from the virtual clock. A rekey runs beside the traffic on a clock of its own, and its two installs
fall among the datagrams where they belong.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from pqbase.documents import Json, texts_of, whole_of
from pqlab.sim.clock import START_NS, VirtualClock
from pqlab.sim.end import End, Role
from pqlab.sim.handshakes import Made, delay_ns, handshake
from pqlab.sim.identity import Identities
from pqlab.sim.machine import SimMachine
from pqlab.sim.primitives import SimPrimitives
from pqlab.sim.traffic import NS, Offer, Tally, offers
from pqlab.sim.workload import Asked, Workload
from pqsitl.profile import TIMESYNC_REPLY_BYTES
from pqsitl.steps import steps_of
from pqtunnel import packet, suites

MS = 1_000_000
#: pause between two cold handshakes, as the agents make it
SETTLE_NS = 2 * MS
Action = Callable[[int], None]


@dataclass(frozen=True)
class RekeySchedule:
    """Rekeys of the next window: `suites` are cycled, none keeps the suite; count None: as many as fit."""

    every_s: float
    start_s: float
    count: int | None
    suites: tuple[str, ...]


class CellWorld:
    """What `prepare` makes and both agents work on."""

    def __init__(
        self, clock: VirtualClock, identities: Identities, params: Json, machine: SimMachine | None = None
    ) -> None:
        machine = machine or SimMachine()
        self.cell_id = str(params["cell_id"])
        self.suite = self._spoken = suites.get(str(params["suite_id"]))
        self.schedule: RekeySchedule | None = None
        self.taken: set[Role] = set()
        self._accepted = {self.suite.id, *texts_of(params, "accepted_suites", [])}
        self._clock = self._spending = clock
        self._identities = identities
        self._min_level = whole_of(params, "min_level")
        self._rng = random.Random(f"sim cell/{params['seed']}/{self.cell_id}{machine.suffix}")
        # a machine is a little faster or slower in every cell: what run-level statistics are about
        pace = self._rng.lognormvariate(0.0, 0.02) * machine.pace
        self._primitives = SimPrimitives(
            self._rng, lambda ns: self._spending.advance(ns), pace, machine.pace_of
        )
        ledger = bool(params["ledger"])
        self.drone = End("drone", clock, self._primitives, ledger)
        self.gcs = End("gcs", clock, self._primitives, ledger)
        self._ends: dict[Role, End] = {"drone": self.drone, "gcs": self.gcs}
        self._dialled = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._order = itertools.count()
        self._rekeying = False

    def end(self, role: Role) -> End:
        return self._ends[role]

    # ------------------------------------------------------------------ handshakes

    def handshake_block(self, count: int, min_count: int, max_s: float) -> Json:
        """Cold handshakes one after another; the last session carries the traffic."""
        begun_ns = self._clock.mono_ns()
        done: list[str] = []
        while len(done) < count:
            if len(done) >= min_count and self._clock.mono_ns() - begun_ns >= max_s * NS:
                break
            made = self._dial(self._clock, self.suite, rekey=False)
            self._install(self.gcs, made, made.gcs_ready_ns)
            self._install(self.drone, made, made.drone_ready_ns)
            self._clock.advance_to(self._confirm(self._clock.mono_ns()))
            done.append(made.drone.handshake_id)
            self._clock.advance(SETTLE_NS)
        return {"completed": len(done), "failed": 0, "handshake_ids": done, "failures": []}

    def _dial(self, clock: VirtualClock, suite: suites.Suite, *, rekey: bool) -> Made:
        """One handshake on `clock`; the epoch's number is that of the dial."""
        self._spending = clock
        try:
            made = handshake(
                clock,
                suite,
                index=self._dialled,
                epoch=self._dialled,
                rekey=rekey,
                ends=self._ends,
                identities=self._identities,
                accepted=self._accepted,
                min_level=self._min_level,
                primitives=self._primitives,
                rng=self._rng,
            )
        finally:
            self._spending = self._clock
        self._dialled += 1
        for role, end in self._ends.items():
            end.counters.add_handshake(made.counts[role])
            end.spans += [json.dumps(row, separators=(",", ":")) for row in made.rows[role]]
        return made

    def _install(self, end: End, made: Made, at_ns: int) -> None:
        established = made.drone if end.role == "drone" else made.gcs
        end.session.install(established, at_ns)
        end.book.add(established, end.session.sent_on)

    def _confirm(self, at_ns: int) -> int:
        """The drone speaks first on a new epoch, the ground acknowledges it; returns when that is done."""
        for here, there, kind in (
            (self.drone, self.gcs, packet.KEEPALIVE),
            (self.gcs, self.drone, packet.EPOCH_ACK),
        ):
            datagram = here.session.seal_control(kind)
            at_ns += delay_ns(self._rng)
            there.receive(datagram, at_ns)
        return at_ns

    # ------------------------------------------------------------------ traffic

    def run_window(self, spec: Json, duration_s: float, asked: Json | None = None) -> tuple[Json, Json]:
        """Carry `duration_s` of traffic; returns what source and sink report at drone and gcs. asked: spec of
        the ground's source, for its workload."""
        open_ns = self._clock.mono_ns()
        end_ns = open_ns + round(duration_s * NS)
        tallies: dict[Role, tuple[Tally, Tally]] = {role: (Tally(), Tally()) for role in self._ends}
        for offer in offers(spec, open_ns, end_ns):
            self._plan(offer.at_ns, self._carrying(offer, tallies, end_ns))
        workload = None
        if asked is not None and asked.get("workload"):
            workload = Workload(steps_of(asked["workload"]), whole_of(asked, "seed"), open_ns)
            for one in workload.exchanges:
                if one.due_ns < end_ns:
                    self._plan(one.due_ns, self._asking(one, workload, tallies, end_ns))
        if self.schedule is not None:
            self._plan_rekeys(self.schedule, open_ns, end_ns)
            self.schedule = None
        while self._queue:
            at_ns, _, action = heapq.heappop(self._queue)
            self._clock.advance_to(min(at_ns, end_ns))
            action(at_ns)
        self._clock.advance_to(end_ns)
        told: dict[Role, Json] = {
            role: {"sent": sent.report, "received": received.report}
            for role, (sent, received) in tallies.items()
        }
        if workload is not None:
            told["drone"] |= workload.at_vehicle()
            told["gcs"]["workload"] = workload.at_ground()
        return told["drone"], told["gcs"]

    def _plan(self, at_ns: int, action: Action) -> None:
        heapq.heappush(self._queue, (at_ns, next(self._order), action))

    def _carrying(self, offer: Offer, tallies: dict[Role, tuple[Tally, Tally]], end_ns: int) -> Action:
        sender = offer.sender
        receiver: Role = "gcs" if sender == "drone" else "drone"

        def carry(at_ns: int) -> None:
            datagram, left_ns = self._ends[sender].send(self._rng.randbytes(offer.size_bytes), at_ns)
            tallies[sender][0].note(offer.size_bytes, START_NS + at_ns)
            arrived_ns = left_ns + delay_ns(self._rng)
            if self._ends[receiver].receive(datagram, arrived_ns) is None:
                return
            tallies[receiver][1].note(offer.size_bytes, START_NS + arrived_ns)
            if offer.asks and arrived_ns + MS < end_ns:
                answer = Offer(arrived_ns + MS, receiver, TIMESYNC_REPLY_BYTES)
                self._plan(answer.at_ns, self._carrying(answer, tallies, end_ns))

        return carry

    # ------------------------------------------------------------------ workload

    def _asking(
        self,
        one: Asked,
        workload: Workload,
        tallies: dict[Role, tuple[Tally, Tally]],
        end_ns: int,
        *,
        waited: bool = False,
    ) -> Action:
        """One exchange: its lane, then frame after frame, each when the one before it was heard. waited: it
        has its place in the lane."""

        def begin(at_ns: int) -> None:
            one.sent_ns = at_ns
            step(at_ns)

        def step(at_ns: int) -> None:
            turn = one.turns[one.done]
            sender: Role = "gcs" if turn.asks else "drone"
            receiver: Role = "drone" if turn.asks else "gcs"
            datagram, left_ns = self._ends[sender].send(self._rng.randbytes(turn.size_bytes), at_ns)
            tallies[sender][0].note(turn.size_bytes, START_NS + at_ns)
            if not turn.asks:
                workload.answered[turn.kind] += 1
                workload.answered_sizes[turn.size_bytes] += 1
            else:
                workload.sent[turn.kind] += 1
            arrived_ns = left_ns + delay_ns(self._rng)
            if self._ends[receiver].receive(datagram, arrived_ns) is None:
                return
            tallies[receiver][1].note(turn.size_bytes, START_NS + arrived_ns)
            (workload.received if turn.asks else workload.heard)[turn.kind] += 1
            one.done += 1
            if one.done == len(one.turns):
                if arrived_ns < end_ns:
                    one.acknowledged_ns = arrived_ns
                following = workload.ends(one)
                if following is not None and arrived_ns < end_ns:
                    self._plan(arrived_ns, self._asking(following, workload, tallies, end_ns, waited=True))
                return
            next_ns = arrived_ns + one.turns[one.done].after_ns
            if next_ns < end_ns:
                self._plan(next_ns, step)

        def due(at_ns: int) -> None:
            if waited or workload.begins(one):
                begin(at_ns)

        return due

    # ------------------------------------------------------------------ rekeys

    def _plan_rekeys(self, schedule: RekeySchedule, open_ns: int, end_ns: int) -> None:
        for number in itertools.count():
            at_ns = open_ns + round((schedule.start_s + number * schedule.every_s) * NS)
            if at_ns >= end_ns or number == schedule.count:
                return
            suite = self.suite
            if schedule.suites:
                suite = suites.get(schedule.suites[number % len(schedule.suites)])
            self._plan(at_ns, self._rekeying_to(suite))

    def _rekeying_to(self, suite: suites.Suite) -> Action:
        def rekey(at_ns: int) -> None:
            if self._rekeying:
                self.drone.counters.add_rekey("rekey_coalesced")
                return
            self._rekeying = True
            self.drone.counters.add_rekey("rekey_started")
            old, before = self.drone.book.newest, self._spoken
            assert old is not None  # a window opens on a session only
            made = self._dial(VirtualClock(at_ns), suite, rekey=True)

            def switch(now_ns: int) -> None:
                self._install(self.drone, made, now_ns)
                self._confirm(now_ns)
                self._rekeying = False
                self._spoken = suite
                self.drone.counters.add_rekey("rekey_completed")
                self.drone.event(
                    "rekey",
                    at_ns=now_ns,
                    epoch_from=old.epoch,
                    epoch_to=made.drone.epoch,
                    suite_from=before.id,
                    suite_to=suite.id,
                    handshake_id=made.drone.handshake_id,
                    start_ns=START_NS + at_ns,
                    end_ns=START_NS + made.drone_ready_ns,
                    switch_ns=START_NS + now_ns,
                    result="completed",
                    reason="schedule",
                )

            self._plan(made.gcs_ready_ns, lambda now_ns: self._install(self.gcs, made, now_ns))
            self._plan(made.drone_ready_ns, switch)

        return rekey
