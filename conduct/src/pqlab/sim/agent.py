"""Two agents in this process that speak the agent's methods (docs/AGENT.md) over a simulated cell.

The engine calls both ends from two threads. Only calls that it makes one at a time let virtual time pass;
those it makes at both ends at once (hello, prepare, start, stop, fetch) read the clock and draw no random
number, so that no order of threads can show in a bundle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from pqbase.documents import Json, number_of, part_of, texts_of, whole_of
from pqlab.inventory import AgentAddress
from pqlab.sim.cellworld import MS, CellWorld, RekeySchedule
from pqlab.sim.clock import VirtualClock
from pqlab.sim.end import End, Role
from pqlab.sim.facts import PLANE, hello_facts
from pqlab.sim.identity import Identities
from pqlab.sim.machine import SimMachine
from pqtunnel.agent.params import ParamsError
from pqtunnel.agent.state import CellState
from pqtunnel.errors import TunnelError
from pqtunnel.rpc import RemoteError

SOURCE = "simulated"
#: virtual time that opening and closing a gate takes
GATE_NS = 2 * MS


class SimLab:
    """Clock, identities and both agents of one run; `connect` is what the engine asks for."""

    def __init__(self, seed: int, suite_ids: tuple[str, ...], machine: SimMachine | None = None) -> None:
        self.machine = machine or SimMachine()
        self.clock = VirtualClock()
        self.identities = Identities.from_seed(seed)
        self.lock = threading.Lock()
        self.world: CellWorld | None = None
        self.suite_ids = suite_ids
        self._agents: dict[Role, SimAgent] = {"drone": SimAgent("drone", self), "gcs": SimAgent("gcs", self)}

    def connect(self, address: AgentAddress) -> SimConnection:
        return SimConnection(self._agents["drone" if address.role == "drone" else "gcs"])

    def prepared(self, role: Role, params: Json) -> CellWorld:
        """The world of a cell; the first end to prepare makes it, anew for every attempt."""
        with self.lock:
            world = self.world
            if world is None or world.cell_id != params["cell_id"] or role in world.taken:
                world = self.world = CellWorld(self.clock, self.identities, params, self.machine)
            world.taken.add(role)
            return world


class SimAgent:
    """One end's methods."""

    def __init__(self, role: Role, lab: SimLab) -> None:
        self.role: Role = role
        self._lab = lab
        self._state = CellState(lab.clock.monotonic_s)
        self._world: CellWorld | None = None
        self._methods: dict[str, Callable[[Json], Json]] = {
            "hello": self._hello,
            "counters": self._counters,
            "prepare": self._prepare,
            "start": self._start,
            "event": self._event,
            "stop": self._stop,
            "fetch": self._fetch,
        }
        self._kinds: dict[str, Callable[[Json], Json]] = {
            "handshake_block": self._handshake_block,
            "traffic_open": self._traffic_open,
            "traffic_run": self._traffic_run,
            "traffic_close": self._traffic_close,
            "rekey_schedule": self._rekey_schedule,
        }

    def call(self, method: str, params: Json) -> Json:
        """Carry out one method. Raises RemoteError, as a real agent's answer would."""
        try:
            return self._methods[method](params)
        except TunnelError as error:
            raise RemoteError(
                f"{self.role}: {error}", code=error.code, hint=error.hint, rpc_code=-32000, data={}
            ) from error

    @property
    def _here(self) -> CellWorld:
        if self._world is None:
            raise ParamsError("no cell was prepared", hint="call prepare")
        return self._world

    @property
    def _end(self) -> End:
        return self._here.end(self.role)

    def _hello(self, _params: Json) -> Json:
        held = {"state": self._state.state, "cell_id": self._state.cell_id}
        return {"role": self.role, **held, **hello_facts(self._lab.suite_ids, self._lab.machine)}

    def _counters(self, _params: Json) -> Json:
        counted = self._end.counters.snapshot() if self._world is not None else {}
        held = {"state": self._state.state, "cell_id": self._state.cell_id}
        return {**held, "counters": counted, "t_ns": self._lab.clock.realtime_ns()}

    def _prepare(self, params: Json) -> Json:
        self._state.enter("prepared", cell_id=str(params["cell_id"]), since=("idle",))
        self._world = self._lab.prepared(self.role, params)
        self._end.event("prepare", cell_id=params["cell_id"], suite_id=params["suite_id"], dataplane=PLANE)
        return {"state": "prepared"}

    def _start(self, params: Json) -> Json:
        self._state.require("start", str(params["cell_id"]), "prepared")
        self._state.enter("running", since=("prepared",))
        self._end.event("start")
        return {"state": "running"}

    def _stop(self, params: Json) -> Json:
        self._state.require("stop", str(params["cell_id"]), "prepared", "running")
        self._state.enter("draining", since=("prepared", "running"))
        end = self._end
        end.event("stop")
        end.log.append(f"{self.role}: simulated cell {self._here.cell_id}, suite {self._here.suite.id}")
        end.finish()
        end.session.close()
        self._state.enter("idle", since=("draining",))
        return {"state": "idle", "counters": end.counters.snapshot()}

    def _fetch(self, params: Json) -> Json:
        end, stream = self._end, str(params["stream"])
        since, limit = whole_of(params, "since"), whole_of(params, "limit")
        if stream == "ledger":
            ledger = end.ledger
            lines = [] if ledger is None else ledger.lines(end.counters.window_names, since, limit)
            total = 0 if ledger is None else ledger.line_count()
        else:
            every: list[str] = getattr(end, stream)
            lines, total = every[since : since + limit], len(every)
        reached = since + len(lines)
        return {"lines": lines, "next": reached, "end": reached >= total}

    # ------------------------------------------------------------------ events

    def _event(self, params: Json) -> Json:
        kind = str(params["kind"])
        if kind not in self._kinds:
            raise ParamsError(f"event: the simulation has no kind {kind!r}", hint=", ".join(self._kinds))
        self._state.require("event", str(params["cell_id"]), "running")
        return self._kinds[kind](params)

    def _handshake_block(self, params: Json) -> Json:
        count, least = whole_of(params, "count"), whole_of(params, "min_count")
        return self._here.handshake_block(count, min(least, count), number_of(params, "max_s"))

    def _rekey_schedule(self, params: Json) -> Json:
        every_s = number_of(params, "every_s")
        count = whole_of(params, "count", 0)
        start_s = number_of(params, "start_s") if "start_s" in params else every_s
        suites = tuple(texts_of(params, "suites", []))
        self._here.schedule = RekeySchedule(every_s, start_s, count or None, suites)
        return {"armed": True}

    def _traffic_open(self, params: Json) -> Json:
        self._lab.clock.advance(GATE_NS)
        end = self._end
        end.counters.open_window(str(params["window"]))
        end.open_ns = self._lab.clock.realtime_ns()
        end.report = {"spec": params["spec"]}
        end.event("gate_open", window=params["window"])
        return {"source": SOURCE if params["spec"] is not None else None, "open_ns": end.open_ns}

    def _traffic_run(self, params: Json) -> Json:
        here, spec = self._here, part_of(self._end.report, "spec")
        asked = part_of(here.gcs.report, "spec", {})
        reports = here.run_window(spec, number_of(params, "duration_s"), asked)
        here.drone.report, here.gcs.report = reports
        return self._close(params)

    def _traffic_close(self, params: Json) -> Json:
        self._lab.clock.advance(GATE_NS)
        return self._close(params)

    def _close(self, params: Json) -> Json:
        end = self._end
        close_ns = self._lab.clock.realtime_ns()
        end.event("gate_close", window=params["window"])
        # the engine knows the ground's source as the one that probes the round trip
        source = "uplink" if self.role == "gcs" and params["window"] == "traffic" else SOURCE
        report = {"ok": True, "source": source, **end.report}
        return {"open_ns": end.open_ns, "close_ns": close_ns, "source": source, "source_report": report}


class SimConnection:
    """What `connect` gives: the engine's view of one simulated agent."""

    def __init__(self, agent: SimAgent) -> None:
        self._agent = agent

    def call(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Json:
        return self._agent.call(method, dict(params or {}))

    def close(self) -> None:
        return
