"""The drone's rekeys: one at a time, further triggers coalesce, failures back off, each leaves a row.

A rekey that fails leaves the epoch in use untouched. One that the GCS answers with "session unknown" (it
restarted) becomes a full handshake at once.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from pqtunnel import suites
from pqtunnel.endpoint.dialling import Dialling
from pqtunnel.endpoint.plane import Plane
from pqtunnel.endpoint.work import CellWork, NoCellError
from pqtunnel.errors import HandshakeError, SessionUnknown, TunnelError
from pqtunnel.rekey import Backoff

ATTEMPTS: Final = 6
"""Tries of one rekey, back-off between them; an epoch that is still due starts another one."""
CONFIRM_EVERY_S: Final = 0.1
CONFIRM_TRIES: Final = 10
"""A keepalive each 100 ms for at most 1 s, until the gcs has answered on the new epoch: only then may the
next rekey begin, because a GCS forgets an epoch that it never heard."""


class RekeyRefused(TunnelError):
    """The rekey would break the drone's own policy, or there is nothing to rekey."""

    code = "rekey_refused"
    hint = "name the suite in accepted_suites of prepare, at both ends, at or above min_level"


@dataclass(frozen=True)
class RekeyResult:
    """A completed rekey. `result`: completed, or new_session when the GCS did not know the old one."""

    handshake_id: str
    epoch: int
    duration_ns: int
    suite_id: str
    result: str


@dataclass
class _Flight:
    work: CellWork
    suite_id: str
    done: threading.Event = field(default_factory=threading.Event)
    result: RekeyResult | None = None
    error: TunnelError | None = None


class Rekeyer:
    """Rekeys of one drone, cell after cell."""

    def __init__(self, dialling: Dialling, dataplane: Plane) -> None:
        self._dialling = dialling
        self._dataplane = dataplane
        self._lock = threading.Lock()
        self._flight: _Flight | None = None
        self._threads: set[tuple[int, str | None]] = set()
        """(cell, suite asked for) of every thread that `start` made and that has not ended; a thread holds
        its cell, so the identity stays the cell's own for as long as it is here."""

    @staticmethod
    def allowed(work: CellWork, suite_id: str | None) -> str:
        """The suite to rekey to. Raises RekeyRefused for one outside this end's own policy."""
        target = suite_id or work.suite_id
        if work.is_plain:
            raise RekeyRefused("a plain cell has no keys to replace", hint="prepare a cell with a suite")
        if target not in work.plan.accepted_suites:
            raise RekeyRefused(f"suite {target} is not among the accepted ones of this cell")
        if suites.get(target).level < work.plan.min_level:
            raise RekeyRefused(f"suite {target} lies below the floor {work.plan.min_level}")
        return target

    def check(self, work: CellWork, suite_id: str | None) -> str:
        """The same, and there is a session to rekey."""
        target = self.allowed(work, suite_id)
        if work.book.newest is None:
            raise RekeyRefused(
                "there is no session to rekey", code="bad_state", hint="run a handshake_block first"
            )
        return target

    def rekey(self, work: CellWork, suite_id: str | None, reason: str) -> RekeyResult:
        """Rekey now and return when the new epoch carries packets both ways, or join the rekey in flight
        when it goes to the same suite. Raises RekeyRefused, HandshakeError."""
        while True:
            target = self.check(work, suite_id)
            mine = _Flight(work, target)
            with self._lock:
                flight = self._flight
                if flight is None or flight.work is not work:  # one of a cell that is over ends by itself
                    self._flight = flight = mine
            if flight is mine:
                return self._fly(work, flight, reason)
            joined = suite_id is None or flight.suite_id == target
            if joined:
                work.counters.add_rekey("rekey_coalesced")
            flight.done.wait()
            if joined:
                if flight.result is not None:
                    return flight.result
                raise flight.error or NoCellError("the cell ended during the rekey")

    def start(self, work: CellWork, suite_id: str | None, reason: str) -> None:
        """Rekey in a thread of its own; what becomes of it is in the journal. A trigger that the rekey in
        flight satisfies joins it, and so does one whose like has a thread already: of each suite asked for
        at most one waits, however long the flight before it takes."""
        target = self.check(work, suite_id)
        like = (id(work), suite_id)
        with self._lock:
            flight = self._flight
            joins = (
                flight is not None and flight.work is work and (suite_id is None or flight.suite_id == target)
            )
            if joins or like in self._threads:
                work.counters.add_rekey("rekey_coalesced")
                return
            self._threads.add(like)
        thread = threading.Thread(
            target=self._quietly, args=(work, suite_id, reason), name="drone-rekey", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # no task left: what is still due comes again with the next tick
            with self._lock:
                self._threads.discard(like)
            work.journal.note(f"rekey ({reason}) not started: {error}")

    def _quietly(self, work: CellWork, suite_id: str | None, reason: str) -> None:
        try:
            self.rekey(work, suite_id, reason)
        except TunnelError as error:
            work.journal.note(f"rekey ({reason}) given up: {error} [{error.code}] — {error.hint}")
        finally:
            with self._lock:
                self._threads.discard((id(work), suite_id))

    def _fly(self, work: CellWork, flight: _Flight, reason: str) -> RekeyResult:
        try:
            flight.result = self._try_until_done(work, flight.suite_id, reason)
            return flight.result
        except TunnelError as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                if self._flight is flight:
                    self._flight = None
            flight.done.set()

    def _try_until_done(self, work: CellWork, suite_id: str, reason: str) -> RekeyResult:
        backoff = Backoff(random.Random(f"{work.plan.seed} rekey {work.dialled}"))
        for attempt in range(ATTEMPTS):
            try:
                return self._once(work, suite_id, reason)
            except HandshakeError:
                if attempt + 1 == ATTEMPTS or work.stopped.wait(backoff.pause_ns() / 1e9):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _once(self, work: CellWork, suite_id: str, reason: str) -> RekeyResult:
        old = work.book.newest
        start_ns = time.time_ns()
        row: dict[str, object] = {
            "epoch_from": old.epoch if old else None,
            "epoch_to": None,
            "suite_from": work.suite_id,
            "suite_to": suite_id,
            "handshake_id": None,
            "start_ns": start_ns,
            "end_ns": None,
            "switch_ns": None,
            "result": "failed",
            "reason": reason,
        }
        begin_ns = time.monotonic_ns()
        work.counters.add_rekey("rekey_started")
        try:
            try:
                dialled = self._dialling.dial(work, suite_id, rekey=True)
                result = "completed"
            except SessionUnknown:
                dialled = self._dialling.dial(work, suite_id, rekey=False)
                result = "new_session"
        except HandshakeError as error:
            row.update(end_ns=time.time_ns(), error=str(error), code=error.code)
            work.counters.add_rekey("rekey_failed")
            work.journal.event("rekey", **row)
            raise
        duration_ns = time.monotonic_ns() - begin_ns
        work.counters.add_rekey("rekey_completed" if result == "completed" else "rekey_failed")
        self._await_confirmation(work)
        epoch = dialled.established.epoch
        first_ns = self._dataplane.first_sent_ns(epoch)
        row.update(
            epoch_to=epoch,
            handshake_id=dialled.handshake_id,
            end_ns=start_ns + duration_ns,
            switch_ns=None if first_ns is None else start_ns + first_ns - begin_ns,
            result=result,
        )
        work.journal.event("rekey", **row)
        return RekeyResult(dialled.handshake_id, epoch, duration_ns, suite_id, result)

    def _await_confirmation(self, work: CellWork) -> None:
        for _ in range(CONFIRM_TRIES):
            if self._dataplane.confirmed.wait(CONFIRM_EVERY_S) or work.stopped.is_set():
                return
            self._dataplane.send_keepalive()
        work.journal.note("the gcs has sent nothing on the new epoch for 1 s; the old one keeps receiving")
