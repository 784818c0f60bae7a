"""One cell, from prepare to raw files: labelled windows, both ends' streams, nothing measured here.

Everything a cell produced is fetched and written even when it went wrong on the way; what could not be
fetched is absent, and an `error` event says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType

from pqbase.documents import Json, number_of, numbers_of, part_of, part_or_none, rows_of, texts_of, whole_of
from pqevidence.plan import Cell
from pqevidence.record.fleet import fleet_of
from pqevidence.record.visitors import visitors
from pqevidence.scenario.attacks import attack_events
from pqevidence.scenario.conditions import keeps_flight_log, keeps_ledger, without, workload_of
from pqevidence.scenario.model import Scenario
from pqlab.campaign.agents import Agent, AgentFailure, Pair, stream_lines, wait_all
from pqlab.campaign.canary import CANARY_WINDOW, canary_condition, canary_s, fed_roles
from pqlab.campaign.clock import Clock
from pqlab.campaign.fleet import NO_FLEET, WINDOW, Fleet, FleetFailure, Flown
from pqlab.campaign.journal import Journal
from pqlab.campaign.neighbours import NO_NEIGHBOURS, Neighbours
from pqlab.campaign.observers import NO_OBSERVERS, Observers
from pqlab.campaign.rawcell import RawCell, write_raw
from pqlab.campaign.residents import NO_RESIDENTS, Residents
from pqlab.campaign.supervisor import NO_SUPERVISOR, Supervisor
from pqlab.campaign.thermal import ThermalGate
from pqlab.campaign.timed import CellTimeline, LastWords, MakeTimeline
from pqtunnel import suites as registry
from pqtunnel.inflight import Policy
from pqtunnel.rpc import RpcError

HANDSHAKE_WINDOW = "handshake_cold"
POOLED_WINDOW = "handshake_pooled"
#: handshakes before the first cell that nobody records
WARM_UP = "warm-up"
WARM_UP_S = 2.0
#: filling the ground's key pool: labelled, and nothing is measured in it
POOL_WINDOW = "key_pool"
TRAFFIC_WINDOW = "traffic"
#: a silent end returns to idle after 60 s; it hears from us well before
_KEEPALIVE_S = 10.0
_SLACK_S = 30.0
NOBODY: Mapping[str, LastWords] = MappingProxyType({})
#: the most an agent stops its sampler for; the end of the cell wakes it sooner
_LONGEST_STALL_S = 3600.0


class CellRunner:
    """Runs cells on a pair of agents; a failed call is returned, with the files written, never raised."""

    def __init__(
        self,
        pair: Pair,
        scenario: Scenario,
        clock: Clock,
        timeline: MakeTimeline,
        gate: ThermalGate,
        fast_power: frozenset[str] = frozenset(),
        residents: Residents = NO_RESIDENTS,
        observers: Observers = NO_OBSERVERS,
        *,
        neighbours: Neighbours = NO_NEIGHBOURS,
        supervisor: Supervisor = NO_SUPERVISOR,
        fleet: Fleet = NO_FLEET,
        canary_by_agent: bool = False,
        tell: Callable[[Json], None] | None = None,
    ) -> None:
        self._pair = pair
        self._scenario = scenario
        self._clock = clock
        self._make_timeline = timeline
        self._gate = gate
        self._fast_power = fast_power
        self._residents = residents
        self._observers = observers
        self._neighbours = neighbours
        self._supervisor = supervisor
        self._fleet = fleet
        self._canary_by_agent = canary_by_agent
        self._tell = tell

    def run(self, cell: Cell, folder: Path) -> AgentFailure | None:
        """Carry out `cell` and write its raw files into `folder`. Raises LabError when the disk is full."""
        journal, raw = Journal(self._clock, self._tell), RawCell()
        failure: AgentFailure | None = None
        condition = self._scenario.condition(cell.condition)
        timeline = self._make_timeline(condition, cell, self._pair, self._clock, journal, folder)
        # made here, because what it needs may have to be started first
        canary = self._canary_timeline(condition, cell, journal, folder)
        try:
            self._gate.wait(journal)
            journal.event("prepare", cell_id=cell.cell_id, suite_id=cell.suite_id, position=cell.position)
            self._measure(cell, condition, timeline, journal, raw)
            if (asked := fleet_of(condition)) is not None:
                self._fly(cell, asked, folder, journal)
            if canary is not None and TRAFFIC_WINDOW in raw.windows:
                timeline.heal()  # what was done to the measured part is no part of the canary, nor counts it
                self._canary(cell, condition, canary, journal, raw)
        except AgentFailure as error:
            failure = error
            self._note_failure(error, journal)
        finally:
            if canary is not None:
                canary.heal()
            timeline.heal()
        gone = failure.role if failure is not None and failure.lost else None
        left = {role: agent for role, agent in self._pair.agents.items() if role != gone}
        late = self._collect(cell, condition, left, journal, raw, timeline.killed)
        if failure is None and late is not None:
            failure = late
            self._note_failure(late, journal)
        journal.event("cell_end")
        write_raw(folder, raw, journal)
        return failure

    def _note_failure(self, error: AgentFailure, journal: Journal) -> None:
        """What a call did not bring, and what became of the container that it needed."""
        amiss = self._supervisor.amiss(lost=error.lost)
        reason = "; ".join([*amiss.told, str(error)])
        more: Json = {"containers": amiss.told} if amiss.told else {}
        if amiss.killed:
            more["killed"] = amiss.killed
        journal.event("error", reason=reason, code=error.code, role=error.role, hint=error.hint, **more)

    # ------------------------------------------------------------------ measured part

    def _measure(
        self, cell: Cell, condition: Json, timeline: CellTimeline, journal: Journal, raw: RawCell
    ) -> None:
        orders = self._orders(cell, condition)
        fed = fed_roles(condition)
        _, refused = wait_all(
            {
                role: agent.start("prepare", {**orders, **({"feed": True} if role in fed else {})})
                for role, agent in self._pair.agents.items()
            }
        )
        if refused is not None:
            raise refused
        self._pair.both("start", {"cell_id": cell.cell_id})
        journal.event("start")
        timeline.before(orders)
        if "sampler" in without(condition):
            self._stop_samplers(cell, journal)
        if not registry.get(cell.suite_id).is_plain and self._handshakes(cell, journal) == 0:
            return  # without a session there is nothing to carry; the record says why
        if (traffic := self._scenario.traffic) is not None:
            spec, uplink = self._session(cell)
            if attack_events(condition):
                self._residents.mark()
            route, session_s = str(traffic["route"]), number_of(traffic, "session_s")
            if keeps_flight_log(self._scenario.data):
                uplink = {**uplink, "record": True}
            if steps := workload_of(self._scenario.data):
                uplink = {**uplink, "workload": steps}
            self._window(cell, TRAFFIC_WINDOW, route, spec, uplink, session_s, journal, raw, timeline)
        if (bulk := self._scenario.bulk) is not None:
            step_s = number_of(bulk, "step_s")
            for rate_pps in numbers_of(bulk, "rates_pps"):
                spec = {
                    "source": "bulk",
                    "rate_hz": rate_pps,
                    "size_bytes": bulk["size_bytes"],
                    "seed": cell.seed,
                    "duration_s": None,
                }
                # the ground's sink always listens and is reset after every window: it needs no source
                self._window(cell, f"bulk-{rate_pps}", "direct", spec, None, step_s, journal, raw)

    def _fly(self, cell: Cell, asked: Json, folder: Path, journal: Journal) -> None:
        """The fleet of the cell's condition, after all else. Raises AgentFailure."""

        def alive() -> None:
            for agent in self._pair.agents.values():
                agent.call("counters")

        journal.event("window_start", window=WINDOW)
        try:
            self._fleet.fly(Flown(asked, cell.suite_id, cell.seed, folder, alive))
        except FleetFailure as error:
            told = RpcError(f"{error.what}: {error.why}", code=error.code, hint=error.hint)
            raise AgentFailure("fleet", told) from error
        finally:
            journal.event("window_end", window=WINDOW)

    def _orders(self, cell: Cell, condition: Json) -> Json:
        """What both ends are told of the cell before it starts."""
        suites = accepted_suites(cell, condition)
        return {
            "cell_id": cell.cell_id,
            "suite_id": cell.suite_id,
            "min_level": floor_level(suites, condition),
            "allow_plain": registry.get(cell.suite_id).is_plain,
            **drone_auth(cell, condition),
            "ledger": keeps_ledger(self._scenario.data, condition),
            "seed": cell.seed,
            # an agent that never changes suites need not know that it could
            **({"accepted_suites": suites} if len(suites) > 1 else {}),
        }

    def warm_up(self, cell: Cell) -> int:
        """Cold handshakes of the cell's suite for some two seconds, thrown away; returns how many completed.
        Raises AgentFailure."""
        if registry.get(cell.suite_id).is_plain:
            return 0
        known: Json = {"cell_id": WARM_UP}
        self._pair.both("prepare", {**self._orders(cell, self._scenario.condition(cell.condition)), **known})
        self._pair.both("start", known)
        block = {"count": 100, "min_count": 1, "max_s": WARM_UP_S}
        asked = {**known, "kind": "handshake_block", **block}
        running = self._pair.drone.start("event", asked, timeout_s=WARM_UP_S + self._limit_s(cell, 1))
        answer = self._wait(running, self._pair.gcs)
        self._pair.both("stop", known)
        return whole_of(answer, "completed")

    def _stop_samplers(self, cell: Cell, journal: Journal) -> None:
        """Both ends' samplers stand still until the cell ends; the agents wake them themselves."""
        stall: Json = {"cell_id": cell.cell_id, "kind": "sensor_stall", "for_s": _LONGEST_STALL_S}
        self._pair.both("event", stall)
        journal.event("samplers_stopped")

    def _session(self, cell: Cell) -> tuple[Json, Json]:
        """Specs of the vehicle's source and of the ground's answers to it. KeyError without traffic."""
        traffic = part_of(self._scenario.data, "traffic")
        spec = {
            "source": traffic["source"],
            "profile": traffic["profile"],
            "rate_hz": traffic["rate_hz"],
            "seed": cell.seed,
            "duration_s": None,
            "path": traffic["path"],
        }
        return spec, {"source": "uplink", "seed": cell.seed, "duration_s": None}

    def _canary_timeline(
        self, condition: Json, cell: Cell, journal: Journal, folder: Path
    ) -> CellTimeline | None:
        """Of the canary window, in a folder of its own; None where no detector watches."""
        if condition.get("detector", "none") == "none":
            return None
        (folder / CANARY_WINDOW).mkdir(exist_ok=True)
        told = canary_condition(condition, by_agent=self._canary_by_agent)
        place = folder / CANARY_WINDOW
        return self._make_timeline(told, cell, self._pair, self._clock, journal, place)

    def _canary(
        self, cell: Cell, condition: Json, canary: CellTimeline, journal: Journal, raw: RawCell
    ) -> None:
        """A known attack after the measured part: proof that the detector sees. All that it takes is
        labelled, from the first order to the account of what was sent; it enters no statistic and no later
        cell's history."""
        journal.event("window_start", window=CANARY_WINDOW)
        if not attack_events(condition):
            self._residents.mark()
        canary.before()
        spec, uplink = self._session(cell)
        route = str(part_of(self._scenario.data, "traffic")["route"])
        session_s = canary_s(condition)
        self._window(cell, CANARY_WINDOW, route, spec, uplink, session_s, journal, raw, canary)
        canary.heal()
        journal.event("window_end", window=CANARY_WINDOW)

    def _handshakes(self, cell: Cell, journal: Journal) -> int:
        """The block of cold handshakes, then that of pooled ones where they are asked for; returns how many
        completed in the last block, whose last session carries the traffic."""
        block = {key: self._scenario.handshake[key] for key in ("count", "min_count", "max_s")}
        completed = self._block(cell, journal, HANDSHAKE_WINDOW, block)
        pooled = part_or_none(self._scenario.handshake, "pooled")
        if pooled is None or completed == 0:
            return completed
        count = whole_of(pooled, "count")
        block |= {"count": count, "min_count": min(whole_of(block, "min_count"), count)}
        self._pool(cell, journal, count)
        completed = self._block(cell, journal, POOLED_WINDOW, {**block, "pooled": True})
        # what comes later in the cell makes its own keys again
        self._pool(cell, journal, 0)
        return completed

    def _block(self, cell: Cell, journal: Journal, window: str, block: Json) -> int:
        """Handshakes one after another in a window of their own; returns how many completed."""
        limit_s = number_of(block, "max_s") + self._limit_s(cell, whole_of(block, "min_count"))
        self._processors(journal, window, "before")
        journal.event("window_start", window=window)
        answer = self._wait(
            self._pair.drone.start(
                "event", {"cell_id": cell.cell_id, "kind": "handshake_block", **block}, timeout_s=limit_s
            ),
            self._pair.gcs,
        )
        journal.event("window_end", window=window)
        self._processors(journal, window, "after")
        completed, failures = whole_of(answer, "completed"), answer.get("failures", [])
        label = {"pooled": True} if block.get("pooled") else {}
        failed = whole_of(answer, "failed")
        journal.event("handshake_block", completed=completed, failed=failed, failures=failures, **label)
        return completed

    def _pool(self, cell: Cell, journal: Journal, target: int) -> None:
        """Let the ground make `target` key pairs and wait for them, labelled; 0 wipes what is left."""
        if target:
            journal.event("window_start", window=POOL_WINDOW)
        asked: Json = {"cell_id": cell.cell_id, "kind": "key_pool", "target": target}
        running = self._pair.gcs.start("event", asked, timeout_s=self._limit_s(cell, target))
        answer = self._wait(running, self._pair.drone)
        if target:
            journal.event("window_end", window=POOL_WINDOW)
        journal.event("key_pool", target=target, ready=whole_of(answer, "ready"))

    def _limit_s(self, cell: Cell, count: int) -> float:
        """How long `count` handshakes or key pairs may take on a slow board."""
        return float(count * (5.0 + registry.get(cell.suite_id).crypto_allowance_s) + _SLACK_S)

    def _window(
        self,
        cell: Cell,
        window: str,
        route: str,
        drone_spec: Json,
        gcs_spec: Json | None,
        duration_s: float,
        journal: Journal,
        raw: RawCell,
        timeline: CellTimeline | None = None,
    ) -> None:
        """One traffic window: the ground end opens first and closes last, so that it hears all of it."""
        common = {"cell_id": cell.cell_id, "window": window}
        opening = {**common, "kind": "traffic_open", "route": route}
        sides: dict[str, Json] = {"drone": {}, "gcs": {}}
        raw.windows[window] = {"route": route, "spec": drone_spec, **sides}
        sides["gcs"].update(self._pair.gcs.call("event", {**opening, "spec": gcs_spec}))
        watched = window == TRAFFIC_WINDOW
        # ahead of the drone's gate, which these readings frame
        before = self._residents.usage() if watched else {}
        observed = self._observers.usage() if watched else {}
        sides["drone"].update(self._pair.drone.call("event", {**opening, "spec": drone_spec}))
        labelled = window != CANARY_WINDOW  # whose label holds more than this
        if labelled:
            self._processors(journal, window, "before")
            journal.event("window_start", window=window)
        with nullcontext() if timeline is None else timeline.during():
            killed = {} if timeline is None else timeline.killed
            until_s = self._clock.monotonic_s() + duration_s
            running = self._pair.drone.start(
                "event",
                {**common, "kind": "traffic_run", "duration_s": duration_s},
                timeout_s=duration_s + _SLACK_S,
            )
            try:
                sides["drone"].update(self._wait(running, self._pair.gcs, killed))
            except AgentFailure as error:
                if error.role not in killed:
                    raise
                self._sit_out(until_s, error.role)
        if before:
            raw.usage = {"before": before, "after": self._residents.usage()}
        if observed:
            raw.observers = {"before": observed, "after": self._observers.usage()}
        if labelled:
            journal.event("window_end", window=window)
            self._processors(journal, window, "after")
        if "gcs" not in killed:
            sides["gcs"].update(self._pair.gcs.call("event", {**common, "kind": "traffic_close"}))
        for visitor in visitors(sides):
            journal.event("visitor", window=window, **visitor.as_dict())

    def _sit_out(self, until_s: float, gone: str) -> None:
        """The rest of a window in which one end was killed on purpose: later events have their times."""
        other = next(agent for role, agent in self._pair.agents.items() if role != gone)
        while (left_s := until_s - self._clock.monotonic_s()) > 0:
            other.call("counters")
            self._clock.sleep(min(left_s, _KEEPALIVE_S))

    def _processors(self, journal: Journal, window: str, edge: str) -> None:
        """What the machine and the lab used so far, outside the window that it frames."""
        if told := self._neighbours.reading():
            mono_s = self._clock.monotonic_s()
            journal.event("processors", window=window, edge=edge, mono_s=mono_s, **told)

    def _wait(self, running: Future[Json], other: Agent, killed: Mapping[str, object] = NOBODY) -> Json:
        """The answer of a long call at one end; the other end is told now and then that we are still here,
        unless it was killed on purpose."""
        while True:
            try:
                return running.result(timeout=_KEEPALIVE_S)
            except FutureTimeout:
                try:
                    other.call("counters")
                except AgentFailure:
                    if other.role not in killed:
                        raise

    # ------------------------------------------------------------------ gathering

    def _collect(
        self,
        cell: Cell,
        condition: Json,
        agents: dict[str, Agent],
        journal: Journal,
        raw: RawCell,
        killed: Mapping[str, LastWords],
    ) -> AgentFailure | None:
        """Stop both ends and fetch all their streams, both at once; of an end that was killed on purpose what
        it held before. Returns what prevented it, or None."""
        kept = ["ledger"] if keeps_ledger(self._scenario.data, condition) else []
        names = ["spans", "events", "telemetry", "log", *kept]

        def gather(agent: Agent) -> Future[None]:
            lines = raw.streams.setdefault(agent.role, {})

            def job() -> None:
                answer = agent.call_here("stop", {"cell_id": cell.cell_id})
                if words := killed.get(agent.role):
                    # half a window's counts would look like loss
                    windows = {
                        k: v for k, v in part_of(words.counters, "windows", {}).items() if k != TRAFFIC_WINDOW
                    }
                    raw.counters[agent.role] = {**words.counters, "windows": windows}
                    lines.update(words.streams)
                    return
                raw.counters[agent.role] = part_of(answer, "counters")
                for name in [*names, *self._streams_of(agent.role, condition)]:
                    lines[name] = stream_lines(agent, str(cell.cell_id), name)

            return agent.submit(job)

        _, failure = wait_all({role: gather(agent) for role, agent in agents.items()})
        journal.event("stop")
        return failure

    def _streams_of(self, role: str, condition: Json) -> list[str]:
        """What this end has beyond what every end has."""
        extra = ["power"] if role in self._fast_power else []
        extra += ["bins"] if role in fed_roles(condition) else []
        extra += ["tlog"] if role == "gcs" and keeps_flight_log(self._scenario.data) else []
        watched = role == "drone" and condition.get("detector", "none") != "none"
        return extra + (["detector"] if watched else [])


def floor_level(suites: list[str], condition: Json) -> int:
    """Least NIST level both ends accept: the policy's own floor, else that of the suites in play."""
    if condition["policy"] != "none":
        return whole_of(part_of(condition, "policy"), "floor_level")
    return max(1, min(registry.get(suite).level for suite in suites))


def drone_auth(cell: Cell, condition: Json) -> Json:
    """The prepare parameter of a drone that signs; nothing where its pre-shared key alone proves it."""
    signs = condition["drone_auth"] == "signature" and not registry.get(cell.suite_id).is_plain
    return {"drone_auth": "signature"} if signs else {}


def accepted_suites(cell: Cell, condition: Json) -> list[str]:
    """The cell's suite, and every other one that its condition switches to, each once."""
    named = [] if condition["rekey"] == "none" else texts_of(part_of(condition, "rekey"), "suites")
    if condition["policy"] != "none":
        named += Policy.from_json(part_of(condition, "policy")).suite_ids
    asked = (event["suite_id"] for event in rows_of(condition, "events"))
    named += [str(suite_id) for suite_id in asked if suite_id is not None]
    return list(dict.fromkeys([cell.suite_id, *named]))
