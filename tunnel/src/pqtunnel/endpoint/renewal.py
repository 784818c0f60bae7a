"""Why a rekey starts: an epoch that is due, a request of the gcs, an order of the controller, a schedule.

The drone rekeys by itself; the gcs, which never dials, asks the drone by a sealed rekey-request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from pqtunnel import packet, suites
from pqtunnel.endpoint.pilot import BIN_NS, LOSS_WINDOW_BINS, SuitePilot, loss_pct
from pqtunnel.endpoint.plane import ControlFrame, Plane, SessionHandle
from pqtunnel.endpoint.rekeyer import Rekeyer, RekeyRefused
from pqtunnel.endpoint.schedule import RekeySchedule
from pqtunnel.endpoint.work import CellWork, WindowError
from pqtunnel.errors import TunnelError
from pqtunnel.inflight import INPUTS, InflightPolicy, Policy, Reading
from pqtunnel.rekey import parse_request


class Renewal:
    """Rekey triggers of one endpoint. `rekeyer` is the drone's; a gcs has none."""

    def __init__(self, dataplane: Plane, rekeyer: Rekeyer | None) -> None:
        self._dataplane = dataplane
        self._rekeyer = rekeyer
        self._lock = threading.Lock()

    @property
    def rekeyer(self) -> Rekeyer:
        """The drone's. Raises TunnelError at a gcs."""
        if self._rekeyer is None:
            raise TunnelError(
                "only the drone dials",
                code="wrong_role",
                hint="send rekey and rekey_schedule to the drone, request_rekey to the gcs",
            )
        return self._rekeyer

    def tick(self, work: CellWork, now_ns: int, *, is_due: bool) -> None:
        """Ten times a second: read what the peer asked for, start or ask for what is due."""
        for frame in self._dataplane.take_control():
            if frame.kind == packet.REKEY_REQUEST and self._rekeyer is not None:
                self._obey(work, frame)
        if self._rekeyer is not None:
            if is_due:
                self._rekeyer.start(work, None, "due")
            return
        if is_due:
            with self._lock:
                work.requester.ask(packet.REQUEST_DUE, packet.SAME_SUITE, self._epoch(), now_ns)
        self._send_request(work, now_ns)

    def _obey(self, work: CellWork, frame: ControlFrame) -> None:
        request = parse_request(frame.payload)
        newest = work.book.newest
        if newest is not None and frame.epoch < newest.epoch:
            return  # it asked for what has happened meanwhile
        try:
            if request is None:
                raise RekeyRefused(f"the gcs asks for {frame.payload.hex()}, which is no suite known here")
            assert self._rekeyer is not None
            self._rekeyer.start(work, request.suite.id if request.suite else None, request.reason)
        except RekeyRefused as error:
            work.journal.event("rekey_refused", reason=str(error), code=error.code)

    def request(self, work: CellWork, suite_id: str | None, now_ns: int) -> int:
        """GCS: ask the drone for a rekey, at once and each second until the epoch changes; returns the epoch
        to be replaced. Raises RekeyRefused."""
        if self._rekeyer is not None:
            raise TunnelError(
                "only the gcs asks", code="wrong_role", hint="send rekey to the drone, which dials itself"
            )
        epoch = self._epoch()
        if epoch is None or work.is_plain:
            raise RekeyRefused(
                "there is no session to rekey", code="bad_state", hint="run a handshake_block first"
            )
        code = packet.SAME_SUITE
        if suite_id is not None:
            if suite_id not in work.plan.accepted_suites:
                raise RekeyRefused(f"suite {suite_id} is not among the accepted ones of this cell")
            code = suites.get(suite_id).wire_code
        with self._lock:
            work.requester.ask(packet.REQUEST_ASKED, code, epoch, now_ns)
        self._send_request(work, now_ns)
        return epoch

    def arm(
        self, work: CellWork, every_s: float, count: int | None, wanted: Sequence[str], start_s: float
    ) -> None:
        """Drone: rekey at this pace within the next window. Raises RekeyRefused, WindowError."""
        rekeyer = self.rekeyer
        if work.schedule is not None and not work.schedule.is_open:
            raise WindowError(
                "a rekey_schedule is armed already", hint="open its window, or stop and prepare again"
            )
        for suite_id in wanted:
            rekeyer.allowed(work, suite_id)

        def rekey(suite_id: str | None) -> None:
            try:
                rekeyer.rekey(work, suite_id, "schedule")
            except TunnelError as error:
                work.journal.note(f"scheduled rekey given up: {error} [{error.code}] — {error.hint}")

        work.schedule = RekeySchedule(rekey, every_s, count, wanted, start_s)

    def fly(self, work: CellWork, policy: Policy, temperature_c: Callable[[], float | None]) -> None:
        """Drone: let this policy choose the suite within the next window. Raises RekeyRefused, WindowError,
        PolicyError."""
        rekeyer = self.rekeyer
        if work.schedule is not None and not work.schedule.is_open:
            raise WindowError(
                "a rekey_schedule or policy is armed already",
                hint="open its window, or stop and prepare again",
            )
        for suite_id in policy.suite_ids:
            rekeyer.allowed(work, suite_id)

        def rekey(suite_id: str) -> None:
            rekeyer.rekey(work, suite_id, "policy")

        flown = InflightPolicy(policy, work.suite_id)

        def read() -> dict[str, Reading | None]:
            # Read before each decision: an order or a request may have switched the suite since the last one.
            flown.suite_id = work.suite_id
            return self._readings(work, temperature_c)

        work.schedule = SuitePilot(flown, read, rekey, work.journal)

    def _readings(
        self, work: CellWork, temperature_c: Callable[[], float | None]
    ) -> dict[str, Reading | None]:
        """Each input: what control said last, else what this host sees by itself."""
        now_ns = time.monotonic_ns()
        readings = {name: work.inputs.get(name) for name in INPUTS}
        if readings["temperature_c"] is None and (celsius := temperature_c()) is not None:
            readings["temperature_c"] = Reading(celsius, now_ns, True, "hottest zone")
        if readings["loss_pct"] is None:
            now_bin = time.time_ns() // BIN_NS
            bins = self._dataplane.bins(now_bin - LOSS_WINDOW_BINS)
            if bins is not None and (lost_pct := loss_pct(bins, now_bin)) is not None:
                readings["loss_pct"] = Reading(lost_pct, now_ns, True, "authenticated sequence")
        return readings

    def _epoch(self) -> int | None:
        found: list[int | None] = []

        def look(session: SessionHandle) -> None:
            found.append(session.epoch)

        self._dataplane.with_session(look)
        return found[0] if found else None

    def _send_request(self, work: CellWork, now_ns: int) -> None:
        with self._lock:
            payload = work.requester.due(self._epoch(), now_ns)
        if payload is not None:
            self._dataplane.send_control(packet.REKEY_REQUEST, payload)
