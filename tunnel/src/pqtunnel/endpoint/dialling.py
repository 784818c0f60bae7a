"""The drone's handshakes as its endpoint runs them: one in flight, installed, confirmed, traced.

Blocks of cold handshakes, the redial after silence, and the dial under a rekey (`rekeyer` decides when).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from pqtunnel import suites
from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint.dialer import EARLY_TRIES, Dialer, DialResult, PeerUnreachableError
from pqtunnel.endpoint.handshakes import DroneHandshakes
from pqtunnel.endpoint.plane import Plane
from pqtunnel.endpoint.work import CellWork
from pqtunnel.errors import CellEnded, HandshakeError
from pqtunnel.handshake.established import Epoch
from pqtunnel.session import new_index

PAUSE_BETWEEN_HANDSHAKES_S: Final = 0.002
"""Lets both ends finish tearing down before the next cold handshake, so that none pays for its
predecessor."""
GIVE_UP_AFTER_FAILURES: Final = 3
REDIAL_BACKOFF_S: Final = (1.0, 2.0)
"""Each times 1 to 1.5: a drone dials within 3 s after its gcs is back."""
CONFIRM_LIMIT_S: Final = 0.05
"""How long the drone waits for the gcs's first packet on a new session before it goes on without."""


def free_index(dataplane: Plane) -> int:
    """A receiver index that is free in the cell's session. Raises PeerUnreachableError without a cell."""
    picked: list[int] = []
    dataplane.with_session(lambda session: picked.append(new_index(os.urandom, session)))
    if not picked:
        raise PeerUnreachableError("no cell is prepared here", code="bad_state", hint="call prepare first")
    return picked[0]


def _refuse_ended(work: CellWork) -> None:
    if work.stopped.is_set():
        raise CellEnded(f"cell {work.plan.cell_id} was stopped")


class Dialling:
    """Everything of a drone that dials. `install` is the endpoint's; it raises CellEnded."""

    def __init__(
        self,
        config: EndpointConfig,
        handshakes: DroneHandshakes,
        dataplane: Plane,
        install: Callable[[CellWork, Epoch, int], None],
    ) -> None:
        self._config = config
        self._handshakes = handshakes
        self._dataplane = dataplane
        self._install = install

    def dial(
        self, work: CellWork, suite_id: str, *, rekey: bool, label: str = "cold", in_block: bool = False
    ) -> DialResult:
        """One handshake, its epoch installed and a keepalive sent on it. Raises HandshakeError, and CellEnded
        rather than dial for a cell that was stopped: the next one would inherit the session."""
        with work.handshake_lock:  # one handshake in flight
            _refuse_ended(work)
            counted: dict[str, int] = {}
            dialer = Dialer(
                (self._config.peer, self._config.handshake_port),
                self._config.bind,
                suites.get(suite_id),
                work.plan.min_level,
                self._handshakes,
                work.plan.drone_auth == "signature",
                work.sampling,
            )
            try:
                result = dialer.dial(
                    work.handshakes,
                    work.dialled,
                    free_index(self._dataplane),
                    counted,
                    work.book.rekey_from() if rekey else None,
                    label=label,
                    # A block measures: what fails there is counted, and not made up for.
                    early_tries=0 if in_block else EARLY_TRIES,
                )
            finally:
                work.counters.add_handshake(counted)
            # Traced even when the cell ended meanwhile: it was counted, and the controller has yet to fetch.
            work.journal.add_spans(result.spans)
            _refuse_ended(work)
            work.dialled += 1
            work.handshakes += 1
            self._dataplane.confirmed.clear()
            self._install(work, result.established, result.rtt_ns)
            work.suite_id = suite_id
        self._dataplane.send_keepalive()
        return result

    def block(
        self, work: CellWork, count: int, min_count: int, max_s: float, *, pooled: bool = False
    ) -> dict[str, object]:
        """New handshakes one after another; see `Endpoint.handshake_block`."""
        start_ns, begin_s = time.time_ns(), time.monotonic()
        ids: list[str] = []
        failures: list[dict[str, str]] = []
        in_a_row = 0
        while len(ids) < count and in_a_row < GIVE_UP_AFTER_FAILURES and not work.stopped.is_set():
            spent_s = time.monotonic() - begin_s
            if (spent_s >= max_s and len(ids) >= min_count) or spent_s >= 2 * max_s:
                break
            try:
                label = "pooled" if pooled else "cold"
                dialled = self.dial(work, work.plan.suite_id, rekey=False, label=label, in_block=True)
                ids.append(dialled.handshake_id)
                in_a_row = 0
            except HandshakeError as error:
                in_a_row += 1
                failures.append(
                    {"reason": str(error), "code": error.code, "counter": error.counter, "hint": error.hint}
                )
                work.journal.event("handshake_failed", reason=str(error), code=error.code, hint=error.hint)
                work.journal.note(f"handshake failed: {error} [{error.code}] — {error.hint}")
            else:
                # The next handshake of a block must not overtake this one's first packet: it would arrive
                # under a retired index and be counted as refused.
                self._dataplane.confirmed.wait(CONFIRM_LIMIT_S)
            time.sleep(PAUSE_BETWEEN_HANDSHAKES_S)
        return {
            "completed": len(ids),
            "failed": len(failures),
            "handshake_ids": ids,
            "start_ns": start_ns,
            "end_ns": time.time_ns(),
            "failures": failures,
        }

    def redial(self, work: CellWork, now_ns: int) -> None:
        """Nothing authentic came for 3 s: dial a new session in a thread of its own, with back-off."""
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
            self.dial(work, work.suite_id, rekey=False, label="redial")
        except HandshakeError as error:
            work.journal.event("handshake_failed", reason=str(error), code=error.code, hint=error.hint)
            return
        work.redial_attempts = 0
        work.redial_after_ns = 0
