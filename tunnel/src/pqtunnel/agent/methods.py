"""The agent's methods: parameters in, endpoint and drivers moved, result objects out. See docs/AGENT.md."""

from __future__ import annotations

import threading
import time
from typing import Final

from pqtunnel.agent.attest import SCHEMA as ATTESTATION
from pqtunnel.agent.attest import Attestation
from pqtunnel.agent.canary import Canary
from pqtunnel.agent.detectors import Detectors
from pqtunnel.agent.drivers.base import TrafficDriver
from pqtunnel.agent.facts import HostFacts
from pqtunnel.agent.faults import Faults
from pqtunnel.agent.feed import Feed
from pqtunnel.agent.params import Params, ParamsError
from pqtunnel.agent.rekeys import RekeyEvents
from pqtunnel.agent.server import Handler
from pqtunnel.agent.state import BadStateError, CellState
from pqtunnel.agent.streams import Streams
from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint.endpoint import Endpoint
from pqtunnel.endpoint.work import CellPlan
from pqtunnel.errors import TunnelError
from pqtunnel.primitives.pool import MAX_TARGET
from pqtunnel.quiet import probe

FIRST_DATAGRAM_LIMIT_S: Final = 2.0
LEVELS: Final = (1, 3, 5)
DRONE_AUTH: Final = ("psk", "signature")


class Methods:
    """One agent's methods. Handlers run in connection threads; `_order` keeps cell changes apart."""

    def __init__(
        self,
        config: EndpointConfig,
        endpoint: Endpoint,
        traffic: TrafficDriver,
        facts: HostFacts,
        streams: Streams,
        state: CellState,
        faults: Faults,
        feed: Feed,
        detectors: Detectors,
    ) -> None:
        self._config = config
        self._endpoint = endpoint
        self._traffic = traffic
        self._facts = facts
        self._streams = streams
        self._state = state
        self._faults = faults
        self._feed = feed
        self._detectors = detectors
        self._canary = Canary(endpoint)
        self._attestation = Attestation(config.role)
        self._rekeys = RekeyEvents(endpoint, streams.temperature_c)
        self._order = threading.Lock()
        self._stopped = threading.Event()
        self._source_running = False
        self._source: object = None
        self._opened_s = 0.0

    def table(self) -> dict[str, Handler]:
        """Method name → handler; every call counts as a sign of life of the controller."""
        methods: dict[str, Handler] = {
            "hello": self.hello,
            "prepare": self.prepare,
            "start": self.start,
            "event": self.event,
            "counters": self.counters,
            "stop": self.stop,
            "fetch": self.fetch,
            "detector": self._detectors.handle,
            "attest": self._attestation.handle,
        }

        def alive(handler: Handler) -> Handler:
            def call(params: object) -> dict[str, object]:
                self._state.touch()
                return handler(params)

            return call

        return {name: alive(handler) for name, handler in methods.items()}

    # ------------------------------------------------------------------ any state

    def hello(self, params: object) -> dict[str, object]:
        """Who this is and what it can do; asked for a probe, what its threads wait for a processor now."""
        given = Params("hello", params)
        asked = given.flag("probe", False)
        given.done()
        quiet = {"quiet": probe().as_dict()} if asked else {}
        return {
            **quiet,
            "role": self._config.role,
            "state": self._state.state,
            "cell_id": self._state.cell_id,
            "ring": self._config.ring,
            **self._facts.get(),
            "traffic": self._traffic.facts(),
            "timestamp_source": self._endpoint.dataplane.timestamp_source,
            "dataplane": self._endpoint.dataplane.kind,
            "dataplane_asked": "native",  # there is no other to ask for; earlier agents had one
            "temperature_c": self._streams.temperature_c(),
            "attestation": ATTESTATION,
        }

    def counters(self, params: object) -> dict[str, object]:
        """Counters of the present or last cell; empty before the first."""
        Params("counters", params).done()
        return self.counters_now()

    def counters_now(self) -> dict[str, object]:
        """The same, for counters.json."""
        try:
            counted = self._endpoint.work.counters.snapshot()
        except TunnelError:
            counted = {}
        return {
            "state": self._state.state,
            "cell_id": self._state.cell_id,
            "counters": counted,
            "t_ns": time.time_ns(),
        }

    def fetch(self, params: object) -> dict[str, object]:
        """A page of one of the cell's streams."""
        given = Params("fetch", params)
        cell_id, stream = given.text("cell_id"), given.text("stream")
        since = given.whole("since", 0, least=0, most=1 << 40)
        limit = given.whole("limit", 20_000, least=1, most=1_000_000)
        given.done()
        work = self._endpoint.work
        if work.plan.cell_id != cell_id:
            raise BadStateError(
                f"fetch is for cell {cell_id}, the agent holds {work.plan.cell_id}",
                code="unknown_cell",
                hint="a cell's streams last until the next prepare",
            )
        page = self._streams.page(work, stream, since, limit)
        if self._state.state == "idle":
            self._attestation.handed_out(cell_id, stream, since, page)
        return page

    # ------------------------------------------------------------------ the life of a cell

    def prepare(self, params: object) -> dict[str, object]:
        """idle → prepared."""
        given = Params("prepare", params)
        plan = CellPlan(
            cell_id=given.text("cell_id"),
            suite_id=given.text("suite_id"),
            min_level=given.whole("min_level", 1, least=1, most=5),
            ledger=given.flag("ledger", True),
            seed=given.whole("seed", 0, least=0, most=(1 << 64) - 1),
            accepted_suites=given.texts("accepted_suites"),
            allow_plain=given.flag("allow_plain", False),
            drone_auth=given.text("drone_auth", "psk"),
            feed=given.flag("feed", False),
        )
        given.done()
        if plan.min_level not in LEVELS:
            raise ParamsError(f"prepare: 'min_level' must be 1, 3 or 5, not {plan.min_level}")
        if plan.drone_auth not in DRONE_AUTH:
            raise ParamsError(f"prepare: 'drone_auth' must be psk or signature, not {plan.drone_auth!r}")
        with self._order:
            self._state.enter("prepared", cell_id=plan.cell_id, since=("idle",))
            try:
                self._endpoint.prepare(plan)
            except TunnelError:
                self._state.enter("idle", since=("prepared",))
                raise
            self._faults.forget()
            self._canary.forget()
            self._streams.forget()
            self._feed.begin(self._endpoint.work, lambda: self._state.state)
            self._stopped.clear()
            self._source_running = False
            self._attestation.prepared(plan.cell_id, plan.suite_id)
        return {"state": "prepared"}

    def start(self, params: object) -> dict[str, object]:
        """prepared → running."""
        given = Params("start", params)
        cell_id = given.text("cell_id")
        given.done()
        with self._order:
            self._state.require("start", cell_id, "prepared")
            self._state.enter("running", since=("prepared",))
            self._endpoint.start()
        return {"state": "running"}

    def stop(self, params: object) -> dict[str, object]:
        """prepared or running → draining → idle; answers with the final counters."""
        given = Params("stop", params)
        cell_id = given.text("cell_id")
        given.done()
        with self._order:
            self._state.require("stop", cell_id, "prepared", "running")
            self._end_cell()
        counted = self._endpoint.work.counters.snapshot()
        self._attestation.stopped(cell_id, counted)
        return {"counters": counted, "state": "idle"}

    def watchdog(self) -> None:
        """Give the cell up when the controller has been silent for too long."""
        if not self._state.expired():
            return
        with self._order:
            if not self._state.expired():
                return
            self._endpoint.work.journal.event("watchdog", reason="no call from the controller for 60 s")
            self._endpoint.note(f"watchdog: cell {self._state.cell_id} given up, the controller is silent")
            self._end_cell()

    def shut_down(self) -> None:
        """The agent ends: give a held cell up, so that its traffic source does not outlive it."""
        with self._order:
            if self._state.state in ("prepared", "running"):
                self._end_cell()

    def _end_cell(self) -> None:
        self._state.enter("draining", since=("prepared", "running"))
        self._stopped.set()
        self._faults.end()
        self._canary.end()
        try:
            if self._source_running:
                self._stop_source_quietly()
            self._endpoint.stop()
        finally:
            self._feed.end()
            self._state.enter("idle", since=("draining",))

    def _stop_source_quietly(self) -> None:
        try:
            self._traffic.stop()
        except TunnelError as error:
            self._endpoint.work.journal.event("error", reason=str(error), code=error.code)
        self._source_running = False

    # ------------------------------------------------------------------ events of a running cell

    def event(self, params: object) -> dict[str, object]:
        """Dispatch by kind. Kinds do not wait for one another: a rekey may run while `traffic_run` blocks
        on another connection."""
        given = Params("event", params)
        cell_id, kind = given.text("cell_id"), given.text("kind")
        handlers = {
            "handshake_block": self._handshake_block,
            "traffic_open": self._traffic_open,
            "traffic_run": self._traffic_run,
            "traffic_close": self._traffic_close,
            "key_pool": self._key_pool,
            **self._rekeys.table(),
            **self._faults.table(),
            **self._canary.table(),
        }
        handler = handlers.get(kind)
        if handler is None:
            raise ParamsError(f"event: no kind {kind!r}", hint="kinds: " + ", ".join(handlers))
        self._state.require("event", cell_id, "running")
        with self._state.activity():
            return handler(given)

    def _handshake_block(self, given: Params) -> dict[str, object]:
        count = given.whole("count", 30, least=1, most=100_000)
        min_count = given.whole("min_count", 5, least=0, most=100_000)
        max_s = given.number("max_s", 20.0, least=0.1, most=3600)
        pooled = given.flag("pooled", False)
        given.done()
        return self._endpoint.handshake_block(count, min(min_count, count), max_s, pooled=pooled)

    def _key_pool(self, given: Params) -> dict[str, object]:
        target = given.whole("target", least=0, most=MAX_TARGET)
        given.done()
        return {"ready": self._endpoint.keep_keys(target)}

    def _traffic_open(self, given: Params) -> dict[str, object]:
        window = given.text("window")
        route = given.text("route", "mavproxy")
        spec = given.object_or_null("spec")
        settle_s = given.number("spec_settle_s", 0.0, least=0, most=300)
        given.done()
        endpoint = self._endpoint
        endpoint.begin_window(window, route)
        started: dict[str, object] = {}
        if spec is not None:
            try:
                started = self._traffic.start(spec)
            except TunnelError:
                endpoint.abandon_window()
                raise
            self._source_running = True
            if spec.get("record"):
                self._streams.flight_log.begins(endpoint.work)
            if started.get("orphan_stopped"):
                endpoint.work.journal.event(
                    "note", window=window, reason="a source of an earlier agent was stopped"
                )
            if not endpoint.dataplane.first_plaintext.wait(FIRST_DATAGRAM_LIMIT_S):
                endpoint.work.journal.event(
                    "note",
                    window=window,
                    reason=f"no datagram from the source within {FIRST_DATAGRAM_LIMIT_S:g} s",
                )
            if settle_s and self._stopped.wait(settle_s):
                raise BadStateError("the cell was stopped while the window settled")
        open_ns = endpoint.open_gate()
        self._opened_s = time.monotonic()
        self._source = started.get("source") if spec is not None else None
        answer = {"source": self._source, "detail": started.get("detail"), "open_ns": open_ns}
        self._attestation.answered(window, answer)
        return answer

    def _traffic_run(self, given: Params) -> dict[str, object]:
        window = given.text("window")
        duration_s = given.number("duration_s", least=0.0, most=86_400)
        given.done()
        if self._endpoint.work.window != window:
            self._endpoint.close_window(window)  # raises the error that says which window is open
        left_s = self._opened_s + duration_s - time.monotonic()
        if left_s > 0 and self._stopped.wait(left_s):
            raise BadStateError(f"the cell was stopped while window {window!r} ran")
        return self._close(window)

    def _traffic_close(self, given: Params) -> dict[str, object]:
        window = given.text("window")
        given.done()
        return self._close(window)

    def _close(self, window: str) -> dict[str, object]:
        endpoint = self._endpoint
        open_ns, close_ns = endpoint.close_window(window)
        report: dict[str, object] = {}
        if self._config.role == "gcs":
            endpoint.drain()  # what the drone still had in flight must reach the sink before the sink reports
        if self._source_running or self._traffic_receives():
            self._source_running = False
            report = self._traffic.stop()
        times = {"open_ns": open_ns, "close_ns": close_ns}
        answer = {**times, "source": self._source, "source_report": report}
        self._attestation.answered(window, answer)
        return answer

    def _traffic_receives(self) -> bool:
        """A sink reports what it received even when this host started no source."""
        return self._traffic.name != "none"
