"""One end of the tunnel as its agent sees it: prepare a cell, run handshakes, open and close traffic
windows, stop.

The sans-IO core decides what is valid; the modules beside this one own sockets and threads; this one owns
the order in which things happen. All public methods are called from the agent's threads.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final

from pqtunnel import suites
from pqtunnel.config import EndpointConfig, Route
from pqtunnel.endpoint.acceptor import AcceptHooks, Acceptor, AcceptPolicy, Arrival
from pqtunnel.endpoint.dialling import Dialling, free_index
from pqtunnel.endpoint.handshakes import Loads, Tunnel
from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.endpoint.journal import Journal
from pqtunnel.endpoint.keypool import PoolKeeper
from pqtunnel.endpoint.plane import SessionHandle
from pqtunnel.endpoint.rekeyer import Rekeyer, RekeyResult
from pqtunnel.endpoint.renewal import Renewal
from pqtunnel.endpoint.work import PLAIN, CellPlan, CellWork, NoCellError, WindowError
from pqtunnel.errors import CellEnded, HandshakeError, PolicyRefused, TunnelError
from pqtunnel.handshake.established import Epoch, plain_epoch
from pqtunnel.handshake.limits import HandshakeLimits
from pqtunnel.primitives import Primitives
from pqtunnel.primitives.pool import Wipeable

QUIET_NS: Final = 100_000_000
DRAIN_LIMIT_S: Final = 1.0
ANNOUNCE_EVERY_NS: Final = 1_000_000_000
HANDSHAKE_END_LIMIT_S: Final = 3.0
_POLL_S: Final = 0.01


class Endpoint:
    """A drone or a gcs. Raises PortTakenError, KeyMaterialError when it cannot be set up."""

    def __init__(
        self, config: EndpointConfig, keys: DroneKeys | GcsKeys, primitives: Primitives, tunnel: Tunnel
    ) -> None:
        self.config = config
        self._keys = keys
        self._primitives = primitives
        self._work: CellWork | None = None
        self._live = False
        self._changing = threading.Lock()
        """Held while the cell changes and while keys go into it: no handshake ends in another cell than its
        own. Never held over a primitive of the handshake or a send."""
        self._announced_ns = 0
        self.dataplane = tunnel.plane(config, self.note)
        self._handshakes: Loads
        self._dialling: Dialling | None = None
        if isinstance(keys, DroneKeys):
            self._handshakes = dials = tunnel.drone(keys, primitives)
            self._dialling = Dialling(config, dials, self.dataplane, self._install)
        rekeyer = Rekeyer(self._dialling, self.dataplane) if self._dialling is not None else None
        self.renewal = Renewal(self.dataplane, rekeyer)
        self._acceptor: Acceptor | None = None
        self._pool: PoolKeeper[Wipeable] | None = None
        if isinstance(keys, GcsKeys):
            self._handshakes = answers = tunnel.gcs(keys, primitives)
            self._pool = PoolKeeper(answers.pairs, self.note)
            limits = HandshakeLimits(
                {},
                rate_per_s=config.tokens_per_s,
                burst=config.token_burst,
                max_half_open=config.half_open_limit,
            )
            hooks = AcceptHooks(
                policy=self._policy,
                new_index=lambda: free_index(self.dataplane),
                install=self._accept,
                failed=self._refused,
            )
            try:
                self._acceptor = Acceptor(
                    (config.bind, config.handshake_port),
                    answers,
                    limits,
                    config.half_open_limit + 1,
                    hooks,
                )
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
        if self._pool is not None:
            self._pool.end()
        with self._changing:
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
        if plan.suite_id == PLAIN:
            self._check_plain(plan)
        else:
            self._load(plan)
        cell = self.dataplane.new_cell(self._primitives, ledger=plan.ledger)
        journal = Journal(self.config.role)
        work = CellWork(
            plan,
            cell.counters,
            journal,
            cell.ledger,
            time.time_ns(),
            cell.bins,
            cell.bin_fields,
            plan.suite_id,
        )
        with self._changing:
            if work.is_plain:
                # Not where a handshake of an earlier cell saw the peer: nothing here could move it back.
                self.dataplane.set_peer((self.config.peer, self.config.peer_sealed_port))
            self.dataplane.attach(cell)
            self._work = work
            self._live = True
        journal.event(
            "prepare",
            cell_id=plan.cell_id,
            suite_id=plan.suite_id,
            min_level=plan.min_level,
            accepted_suites=list(plan.accepted_suites),
            dataplane=self.dataplane.kind,
        )
        if self.dataplane.timestamp_source != "kernel":
            journal.event(
                "note", reason="no kernel receive timestamps here: t_in_ns is the clock after receiving"
            )

    def _load(self, plan: CellPlan) -> None:
        """Load the libraries of every suite the cell may speak: no handshake may pay for it."""
        if plan.allow_plain:
            raise TunnelError(
                "allow_plain goes with the suite `plain` alone",
                code="plain_refused",
                hint="leave allow_plain out, or prepare the suite plain",
            )
        if plan.suite_id not in plan.accepted_suites:
            raise TunnelError(
                f"suite {plan.suite_id} is not among accepted_suites",
                code="bad_params",
                hint="name every suite of the cell in accepted_suites",
            )
        for suite in map(suites.get, plan.accepted_suites):
            if suite.id == PLAIN:
                raise TunnelError(
                    "plain is never negotiated: it cannot be among accepted_suites",
                    code="bad_params",
                    hint="prepare a cell of its own for plain",
                )
            if suite.level < plan.min_level:
                raise TunnelError(
                    f"suite {suite.id} has level {suite.level}, below the floor {plan.min_level}",
                    code="below_floor",
                    hint="lower min_level or choose another suite",
                )
            if (
                plan.drone_auth == "signature"
                and isinstance(self._keys, DroneKeys)
                and suite.sig.token not in self._keys.signing
            ):
                raise TunnelError(
                    f"this drone holds no {suite.sig.name} key to sign with",
                    code="no_signing_key",
                    hint="make the drone's signing keys: make keys",
                )
            self._primitives.kem(suite.kem.token)
            self._primitives.sig(suite.sig.token)
            self._primitives.aead(suite.aead.token)
        self._handshakes.load()

    def _check_plain(self, plan: CellPlan) -> None:
        if not plan.allow_plain or plan.accepted_suites != (PLAIN,):
            raise TunnelError(
                "plain carries traffic in the clear and needs allow_plain, at both ends",
                code="plain_refused",
                hint="set allow_plain in the scenario only if that is what you want to measure",
            )
        if not self.config.peer:
            raise TunnelError(
                "plain has no handshake that could tell where the peer is",
                code="bad_config",
                hint="set PQ_PEER (and PQ_PEER_SEALED_PORT) at this end too",
            )

    def start(self) -> None:
        """The controller says the cell runs. A plain cell has its session from here on."""
        work = self.work
        if work.is_plain:
            self._install(work, plain_epoch(self.config.role, suites.get(PLAIN)), 0)
        work.journal.event("start", cell_id=work.plan.cell_id)

    def stop(self) -> None:
        """Close the gate, wait until the link is quiet, drop the session's keys."""
        work = self.work
        if work.window is not None:
            self._shut_gate(work)
        self.drain()
        with self._changing:
            self._live = False
            work.stopped.set()
        if work.handshake_lock.acquire(timeout=HANDSHAKE_END_LIMIT_S):
            # None in flight may meet the next cell.
            work.handshake_lock.release()
        self.dataplane.attach(None)
        work.book.clear()
        if self._pool is not None:
            self._pool.end()
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

    def handshake_block(
        self, count: int, min_count: int, max_s: float, *, pooled: bool = False
    ) -> dict[str, object]:
        """New handshakes one after another: `count` of them, or as many as fit `max_s` but at least
        `min_count`.

        Their spans are labelled cold, or `pooled` when the caller has filled the gcs's key pool for them. The
        last session carries the cell's traffic. Gives up after three failures in a row or twice `max_s`.
        """
        work = self.work
        if self._dialling is None:
            raise TunnelError(
                "only the drone dials", code="wrong_role", hint="send handshake_block to the drone"
            )
        if work.is_plain:
            raise TunnelError(
                "a plain cell has no handshakes",
                code="plain_cell",
                hint="open its traffic window right after start",
            )
        return self._dialling.block(work, count, min_count, max_s, pooled=pooled)

    def rekey(self, suite_id: str | None, reason: str) -> RekeyResult:
        """Drone: one rekey, to another suite if one is named; returns when packets flow on the new epoch."""
        return self.renewal.rekeyer.rekey(self.work, suite_id, reason)

    def keep_keys(self, target: int) -> int:
        """Gcs: keep this many ephemeral key pairs of the cell's KEM ready until the cell ends; returns once
        they are there. Raises KeyMaterialError, PrimitiveFailed."""
        if self._pool is None:
            raise TunnelError(
                "only the gcs makes ephemeral keys", code="wrong_role", hint="send key_pool to the gcs"
            )
        suite = suites.get(self.work.plan.suite_id)
        if suite.is_plain:
            raise TunnelError("a plain cell has no handshakes", code="plain_cell", hint="leave key_pool out")
        return self._pool.keep(suite.kem.token, target)

    # ------------------------------------------------------------------ handshakes, both ends

    def _install(
        self,
        work: CellWork,
        established: Epoch,
        rtt_ns: int,
        source: str | None = None,
        number: int | None = None,
    ) -> None:
        """Take in the keys, and `source` as the peer's address where one is given. `number`: of the
        connection, at the gcs. Raises CellEnded, with nothing changed, unless `work` is the cell that is
        held; PolicyRefused where a newer handshake of this drone has completed."""
        now_ns = time.monotonic_ns()
        took: list[CellWork] = []

        def install(session: SessionHandle) -> None:
            session.set_rtt(rtt_ns)
            session.install(established, now_ns)
            # Asked after it: a packet that came meanwhile may have confirmed the epoch before.
            work.book.add(established, session.sent_on)
            took.append(work)

        with self._changing:
            if work is self._work and not work.stopped.is_set():
                if number is not None:
                    # Whoever holds an older handshake's last frame back must not put its keys, which nobody
                    # has any more, in the place of the newer ones.
                    if number < work.newest_arrivals.get(established.peer_key_id, number):
                        raise PolicyRefused(
                            "a newer handshake of this drone has completed before this one",
                            hint="Nothing is to be done: the newer session serves.",
                        )
                    work.newest_arrivals[established.peer_key_id] = number
                self.dataplane.with_session(install)
            if not took:
                raise CellEnded(f"cell {work.plan.cell_id} ended during the handshake")
            if number is not None:
                if work.served_key_id not in (None, established.peer_key_id):
                    # One session is all there is: the other drone hears of it when nothing answers any more.
                    work.counters.add_handshake({"hs_displaced": 1})
                work.served_key_id = established.peer_key_id
            peer = self.dataplane.peer
            if source is not None and (peer is None or peer[0] != source):
                self.dataplane.set_peer((source, self.config.peer_sealed_port))

    def _accept(self, work: CellWork, established: Epoch, arrival: Arrival) -> None:
        source = arrival.source if arrival.purpose == "new" else None
        self._install(work, established, arrival.rtt_ns, source, arrival.number)

    def _policy(self) -> AcceptPolicy | None:
        work = self._work
        if work is None or not self._live or work.is_plain:
            return None
        return AcceptPolicy(
            work,
            work.plan.accepted_suites,
            work.plan.min_level,
            work.plan.suite_id,
            work.book.basis,
            self._keys.drone_keys
            if work.plan.drone_auth == "signature" and isinstance(self._keys, GcsKeys)
            else None,
            self._pool.take if self._pool is not None and self._pool.is_on else None,
        )

    def _refused(self, work: CellWork, error: HandshakeError, source: str) -> None:
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
        """Name the window and aim the closed gate at its route: its first datagram can be waited for."""
        work = self.work
        if work.window is not None:
            raise WindowError(f"window {work.window!r} is still open")
        if window in work.counters.window_names:
            raise WindowError(f"window {window!r} was already used in this cell")
        route = self.select_route(route_name)
        work.counters.open_window(window)
        work.window = window
        work.window_open_ns = 0
        self.dataplane.set_gate(route, len(work.counters.window_names), is_open=False)
        # After it: a datagram on the last window's route would be taken for the first of this one.
        self.dataplane.first_plaintext.clear()

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
        if work.schedule is not None:
            work.schedule.open()
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
        if work.schedule is not None and work.schedule.is_open:
            work.schedule.close()
            work.schedule = None
        work.journal.event("gate_close", window=work.window)
        work.window = None
        return close_ns

    # ------------------------------------------------------------------ upkeep, ten times a second

    def tick(self) -> None:
        """Keepalives, announces, the drone's redial after silence, rekeys that are due or asked for. Called
        by the agent's upkeep thread."""
        now_ns = time.monotonic_ns()
        self.dataplane.deliver_notes()
        if max(self.dataplane.last_plaintext_ns, self._announced_ns) + ANNOUNCE_EVERY_NS <= now_ns:
            self._announced_ns = now_ns
            self.dataplane.announce()
        if not self._live:
            return
        work = self._work
        state: dict[str, bool] = {}

        def look(session: SessionHandle) -> None:
            if work is not None:
                work.book.settle(session.sent_on)
            session.expire(now_ns)
            state["keepalive"] = session.keepalive_due(now_ns)
            state["silent"] = session.silent(now_ns)
            state["due"] = session.rekey_due(now_ns)

        self.dataplane.with_session(look)
        if state.get("keepalive"):
            self.dataplane.send_keepalive()
        if work is None or work.is_plain:
            return
        if state.get("silent") and self._dialling is not None:
            self._dialling.redial(work, now_ns)
        self.renewal.tick(work, now_ns, is_due=state.get("due", False))
