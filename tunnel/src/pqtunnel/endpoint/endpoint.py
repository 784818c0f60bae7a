"""One end of the tunnel as its agent sees it: prepare a cell, run handshakes, open and close traffic
windows, stop.

The sans-IO core decides what is valid; the modules beside this one own sockets and threads; this one owns
the order in which things happen. All public methods are called from the agent's threads.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

from pqtunnel import suites
from pqtunnel.config import EndpointConfig, Route
from pqtunnel.endpoint.acceptor import AcceptHooks, Acceptor, AcceptPolicy
from pqtunnel.endpoint.dialer import Dialer, PeerUnreachableError
from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.endpoint.journal import Journal
from pqtunnel.endpoint.plane import SessionHandle, make_plane
from pqtunnel.endpoint.work import CellPlan, CellWork, NoCellError, WindowError
from pqtunnel.errors import HandshakeError, TunnelError
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.limits import HandshakeLimits
from pqtunnel.primitives import Primitives
from pqtunnel.session import new_index

QUIET_NS: Final = 100_000_000
DRAIN_LIMIT_S: Final = 1.0
ANNOUNCE_EVERY_NS: Final = 1_000_000_000
PAUSE_BETWEEN_HANDSHAKES_S: Final = 0.002
"""Lets both ends finish tearing down before the next cold handshake, so that none pays for its
predecessor."""
GIVE_UP_AFTER_FAILURES: Final = 3
REDIAL_BACKOFF_S: Final = (1.0, 2.0, 4.0, 8.0)
CONFIRM_LIMIT_S: Final = 0.05
"""How long the drone waits for the gcs's first packet on a new session before it goes on without."""
_POLL_S: Final = 0.01


class Endpoint:
    """A drone or a gcs. Raises PortTakenError, KeyMaterialError when it cannot be set up."""

    def __init__(self, config: EndpointConfig, keys: DroneKeys | GcsKeys, primitives: Primitives) -> None:
        self.config = config
        self._keys = keys
        self._primitives = primitives
        self._work: CellWork | None = None
        self._live = False
        self._announced_ns = 0
        self.dataplane = make_plane(config, self.note)
        self._acceptor: Acceptor | None = None
        if isinstance(keys, GcsKeys):
            limits = HandshakeLimits(
                {}, rate_per_s=config.tokens_per_s, burst=config.token_burst,
                max_half_open=config.half_open_limit,
            )  # fmt: skip
            hooks = AcceptHooks(
                policy=self._policy, new_index=self._new_index, install=self._install,
                completed=self._completed, failed=self._refused, counted=self._counted,
            )  # fmt: skip
            try:
                self._acceptor = Acceptor(
                    (config.bind, config.handshake_port), keys.identity, keys.psks, primitives, limits,
                    config.half_open_limit + 1, hooks,
                )  # fmt: skip
            except TunnelError:
                self.dataplane.close()
                raise

    def open(self) -> None:
        """Start forwarding and, at the gcs, accepting."""
        self.dataplane.open()
        if self._acceptor is not None:
            self._acceptor.open()

    def close(self) -> None:
        """Stop all threads and free all ports."""
        self._live = False
        if self._acceptor is not None:
            self._acceptor.close()
        self.dataplane.attach(None)
        self.dataplane.close()

    @property
    def handshake_address(self) -> tuple[str, int] | None:
        """Where a gcs listens for handshakes."""
        return self._acceptor.address if self._acceptor is not None else None

    # ------------------------------------------------------------------ cell

    @property
    def work(self) -> CellWork:
        """The last prepared cell; raises NoCellError before the first."""
        if self._work is None:
            raise NoCellError("no cell has been prepared on this agent")
        return self._work

    def note(self, text: str) -> None:
        """A log line in the cell's log, and on standard error for the container's log."""
        if self._work is not None:
            self._work.journal.note(text)
        os.write(2, f"{self.config.role}: {text}\n".encode())

    def prepare(self, plan: CellPlan) -> None:
        """Forget the last cell and make ready for this one; raises SuiteUnknown, ProviderMissing."""
        suite = suites.get(plan.suite_id)
        if suite.level < plan.min_level:
            raise TunnelError(
                f"suite {suite.id} has level {suite.level}, below the floor {plan.min_level}",
                code="below_floor", hint="lower min_level or choose another suite",
            )  # fmt: skip
        # Load the suite's libraries now: the first handshake of a cell must not pay for it.
        self._primitives.kem(suite.kem.token)
        self._primitives.sig(suite.sig.token)
        self._primitives.aead(suite.aead.token)
        cell = self.dataplane.new_cell(self._primitives, ledger=plan.ledger)
        journal = Journal(self.config.role)
        work = CellWork(plan, cell.counters, journal, cell.ledger, time.time_ns())
        self.dataplane.attach(cell)
        if self._acceptor is not None:
            self._acceptor.reset_index()
        self._work = work
        self._live = True
        journal.event("prepare", cell_id=plan.cell_id, suite_id=suite.id, min_level=plan.min_level)
        if self.dataplane.timestamp_source != "kernel":
            journal.event(
                "note", reason="no kernel receive timestamps here: t_in_ns is the clock after receiving"
            )

    def start(self) -> None:
        """The controller says the cell runs."""
        self.work.journal.event("start", cell_id=self.work.plan.cell_id)

    def stop(self) -> None:
        """Close the gate, wait until the link is quiet, drop the session's keys."""
        work = self.work
        if work.window is not None:
            self._shut_gate(work)
        self.drain()
        self._live = False
        self.dataplane.attach(None)
        work.end_ns = time.time_ns()
        for name, cut in (("ledger", work.ledger_cut), ("events", work.journal.events.cut)):
            if cut:
                work.journal.event(
                    "note", reason=f"{name} is cut: {cut} rows over the limit were counted, not kept"
                )
        work.journal.event("stop", cell_id=work.plan.cell_id)

    def drain(self) -> None:
        """Return once no data packet has moved for 100 ms, after 1 s at most."""
        give_up_ns = time.monotonic_ns() + int(DRAIN_LIMIT_S * 1e9)
        while (now_ns := time.monotonic_ns()) < give_up_ns:
            quiet_ns = now_ns - self.dataplane.last_data_ns
            if quiet_ns >= QUIET_NS:
                return
            time.sleep(min(_POLL_S, (QUIET_NS - quiet_ns) / 1e9))

    # ------------------------------------------------------------------ handshakes, drone

    def handshake_block(self, count: int, min_count: int, max_s: float) -> dict[str, Any]:
        """Cold handshakes one after another: `count` of them, or as many as fit `max_s` but at least
        `min_count`.

        The last session carries the cell's traffic. Gives up after three failures in a row or twice `max_s`.
        """
        work = self.work
        start_ns, begin_s = time.time_ns(), time.monotonic()
        ids: list[str] = []
        failures: list[dict[str, str]] = []
        in_a_row = 0
        while len(ids) < count and in_a_row < GIVE_UP_AFTER_FAILURES:
            spent_s = time.monotonic() - begin_s
            if (spent_s >= max_s and len(ids) >= min_count) or spent_s >= 2 * max_s:
                break
            try:
                ids.append(self._dial(work))
                in_a_row = 0
            except HandshakeError as error:
                in_a_row += 1
                failures.append({"reason": str(error), "code": error.code, "counter": error.counter,
                                 "hint": error.hint})  # fmt: skip
                work.journal.event("handshake_failed", reason=str(error), code=error.code, hint=error.hint)
                self.note(f"handshake failed: {error} [{error.code}] — {error.hint}")
            time.sleep(PAUSE_BETWEEN_HANDSHAKES_S)
        return {
            "completed": len(ids), "failed": len(failures), "handshake_ids": ids, "start_ns": start_ns,
            "end_ns": time.time_ns(), "failures": failures,
        }  # fmt: skip

    def _dial(self, work: CellWork) -> str:
        if not isinstance(self._keys, DroneKeys):
            raise TunnelError(
                "only the drone dials", code="wrong_role", hint="send handshake_block to the drone"
            )
        with work.handshake_lock:  # one handshake in flight
            counted: dict[str, int] = {}
            dialer = Dialer(
                (self.config.peer, self.config.handshake_port), suites.get(work.plan.suite_id),
                self._keys.psk, self._keys.psk_keys, self._keys.trusted, work.plan.min_level,
                self._primitives,
            )  # fmt: skip
            try:
                result = dialer.dial(work.handshakes, work.dialled, self._new_index(), counted)
            finally:
                work.counters.add_handshake(counted)
            work.dialled += 1
            work.handshakes += 1
        self.dataplane.confirmed.clear()
        self._install(result.established)
        self.dataplane.send_keepalive()
        # The next handshake of a block must not overtake this one's first packet: it would arrive under a
        # retired index and be counted as refused.
        self.dataplane.confirmed.wait(CONFIRM_LIMIT_S)
        work.journal.add_spans(result.spans)
        return result.handshake_id

    # ------------------------------------------------------------------ handshakes, both ends

    def _new_index(self) -> int:
        picked: list[int] = []
        self.dataplane.with_session(lambda session: picked.append(new_index(os.urandom, session)))
        if not picked:
            raise PeerUnreachableError(
                "no cell is prepared here", code="bad_state", hint="call prepare first"
            )
        return picked[0]

    def _install(self, established: Established) -> None:
        now_ns = time.monotonic_ns()
        self.dataplane.with_session(lambda session: session.install(established, now_ns))

    def _policy(self) -> AcceptPolicy | None:
        work = self._work
        if work is None or not self._live:
            return None
        return AcceptPolicy((work.plan.suite_id,), work.plan.min_level, work.plan.suite_id)

    def _counted(self, counted: dict[str, int]) -> None:
        if self._work is not None:
            self._work.counters.add_handshake(counted)

    def _completed(self, handshake_id: str, spans: list[dict[str, object]]) -> None:
        if self._work is not None:
            self._work.journal.add_spans(spans)

    def _refused(self, error: HandshakeError, source: str) -> None:
        work = self._work
        if work is None:
            return
        # A flood of refusals is in the counters; the journal keeps its beginning.
        if len(work.journal.events) < 1_000:
            work.journal.event("handshake_failed", reason=str(error), code=error.code, source=source)
            work.journal.note(f"handshake from {source} refused: {error} [{error.code}]")

    # ------------------------------------------------------------------ traffic windows

    def select_route(self, name: str) -> Route:
        """The configured route of this name; raises WindowError."""
        route = self.config.routes.get(name)
        if route is None:
            raise WindowError(
                f"no route {name!r} is configured here",
                hint="routes: " + ", ".join(self.config.routes) + " (PQ_DIRECT_TARGET adds `direct`)",
            )
        return route

    def begin_window(self, window: str, route_name: str) -> None:
        """Name the window and aim the closed gate at its route, so that the first datagram can be waited
        for."""
        work = self.work
        if work.window is not None:
            raise WindowError(f"window {work.window!r} is still open")
        if window in work.counters.window_names:
            raise WindowError(f"window {window!r} was already used in this cell")
        route = self.select_route(route_name)
        work.counters.open_window(window)
        work.window = window
        work.window_open_ns = 0
        self.dataplane.first_plaintext.clear()
        self.dataplane.set_gate(route, len(work.counters.window_names), is_open=False)

    def abandon_window(self) -> None:
        """The window could not be opened (its source did not start)."""
        self.work.window = None

    def open_gate(self) -> int:
        """Let plaintext through; returns the realtime ns of it."""
        work = self.work
        gate_route = self.dataplane.route
        self.dataplane.set_gate(gate_route, len(work.counters.window_names), is_open=True)
        work.window_open_ns = time.time_ns()
        work.journal.event("gate_open", window=work.window, route=gate_route.name)
        return work.window_open_ns

    def close_window(self, window: str) -> tuple[int, int]:
        """Close the gate of `window`; returns (open_ns, close_ns)."""
        work = self.work
        if work.window != window:
            raise WindowError(
                f"window {window!r} is not open" + (f", {work.window!r} is" if work.window else "")
            )
        return work.window_open_ns, self._shut_gate(work)

    def _shut_gate(self, work: CellWork) -> int:
        self.dataplane.set_gate(self.dataplane.route, len(work.counters.window_names), is_open=False)
        close_ns = time.time_ns()
        work.journal.event("gate_close", window=work.window)
        work.window = None
        return close_ns

    # ------------------------------------------------------------------ upkeep, ten times a second

    def tick(self) -> None:
        """Keepalives, announces, and the drone's redial after silence. Called by the agent's upkeep
        thread."""
        now_ns = time.monotonic_ns()
        self.dataplane.deliver_notes()
        if max(self.dataplane.last_plaintext_ns, self._announced_ns) + ANNOUNCE_EVERY_NS <= now_ns:
            self._announced_ns = now_ns
            self.dataplane.announce()
        if not self._live:
            return
        state: dict[str, bool] = {}

        def look(session: SessionHandle) -> None:
            state["keepalive"] = session.keepalive_due(now_ns)
            state["silent"] = session.silent(now_ns)

        self.dataplane.with_session(look)
        if state.get("keepalive"):
            self.dataplane.send_keepalive()
        work = self._work
        if state.get("silent") and work is not None and self.config.role == "drone":
            self._redial(work, now_ns)

    def _redial(self, work: CellWork, now_ns: int) -> None:
        if now_ns < work.redial_after_ns or work.handshake_lock.locked():
            return
        backoff_s = REDIAL_BACKOFF_S[min(work.redial_attempts, len(REDIAL_BACKOFF_S) - 1)]
        jitter = 1.0 + os.urandom(1)[0] / 512  # up to half more
        work.redial_attempts += 1
        work.redial_after_ns = now_ns + int(backoff_s * jitter * 1e9)
        work.journal.event(
            "redial", attempt=work.redial_attempts, reason="3 s without an authenticated packet"
        )
        threading.Thread(target=self._redial_once, args=(work,), name="drone-redial", daemon=True).start()

    def _redial_once(self, work: CellWork) -> None:
        try:
            self._dial(work)
        except HandshakeError as error:
            work.journal.event("handshake_failed", reason=str(error), code=error.code, hint=error.hint)
            return
        work.redial_attempts = 0
        work.redial_after_ns = 0
