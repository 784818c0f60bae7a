"""Carries the in-flight policy out: reads its inputs four times a second, rekeys to the suite it asks for.

Where inputs come from: orders over the control connection (`policy_input`), the board's hottest zone as this
host's own sampler wrote it, and the loss on the way here by authenticated sequence numbers. A switch is a
rekey, so the floor and the accepted suites are checked by both ends again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pqtunnel.endpoint.journal import Journal
from pqtunnel.errors import TunnelError
from pqtunnel.inflight import INPUTS, InflightPolicy, PolicyError, Reading

PERIOD_S: Final = 0.25
RETRY_AFTER_S: Final = 1.0
"""Pause after a rekey that failed; the policy proposes it again."""
LOSS_WINDOW_BINS: Final = 50
"""One second of 20 ms bins."""
LEAST_DATAGRAMS: Final = 20
"""Fewer in a window say nothing about its loss."""
BIN_NS: Final = 20_000_000

Bins = Sequence[tuple[int, Sequence[int]]]
_RX_DATA, _RX_KEEPALIVE, _SEQUENCE_GAP = 2, 3, 9
"""Places of a bin's fields (tunnel/core, bins.rs)."""


class ControlInputs:
    """The last value of each input that came over the control connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readings: dict[str, Reading] = {}

    def put(self, values: Mapping[str, float], now_ns: int) -> None:
        """Take values in; raises PolicyError for an input that no policy knows."""
        unknown = sorted(set(values) - set(INPUTS))
        if unknown:
            raise PolicyError(f"no input {unknown[0]!r}", hint="inputs: " + ", ".join(INPUTS))
        with self._lock:
            for name, value in values.items():
                self._readings[name] = Reading(value, now_ns, True, "control")

    def get(self, name: str) -> Reading | None:
        """The last reading, however old: the policy judges its age."""
        with self._lock:
            return self._readings.get(name)


def loss_pct(bins: Bins, now_bin: int) -> float | None:
    """Per cent of datagrams of the last whole second that did not come, by gaps in authenticated sequence.

    None where too few came to tell. A late one was counted as missing when it was overtaken, so reordering
    reads as loss until the second has passed: the policy's thresholds are for links that lose, not reorder.
    """
    recent = [fields for number, fields in bins if now_bin - LOSS_WINDOW_BINS <= number < now_bin]
    got = sum(fields[_RX_DATA] + fields[_RX_KEEPALIVE] for fields in recent)
    missing = sum(fields[_SEQUENCE_GAP] for fields in recent)
    return 100.0 * missing / (got + missing) if got + missing >= LEAST_DATAGRAMS else None


class SuitePilot:
    """Armed by an event, flies from gate_open to gate_close. `rekey` blocks and raises TunnelError."""

    def __init__(
        self,
        policy: InflightPolicy,
        read: Callable[[], Mapping[str, Reading | None]],
        rekey: Callable[[str], None],
        journal: Journal,
    ) -> None:
        self._policy = policy
        self._read = read
        self._rekey = rekey
        self._journal = journal
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="suite-pilot", daemon=True)
        self._open = False

    def open(self) -> None:
        """The gate has opened; opening again changes nothing."""
        if not self._open:
            self._open = True
            self._thread.start()

    @property
    def is_open(self) -> bool:
        """Has the gate opened on it?"""
        return self._open

    def close(self) -> None:
        """No further switch starts; one in flight goes on."""
        self._ended.set()

    def _run(self) -> None:
        pause_s = PERIOD_S
        while not self._ended.wait(pause_s):
            pause_s = self.step()

    def step(self) -> float:
        """One look and, if the policy asks for it, one switch; returns the pause until the next look."""
        readings = self._read()
        before = self._policy.suite_id
        decision = self._policy.decide(readings, time.monotonic_ns())
        if not decision.switch:
            return PERIOD_S
        row: dict[str, object] = {
            "mode": decision.mode,
            "suite_from": before,
            "suite_to": decision.suite_id,
            "reason": decision.reason,
        }
        try:
            self._rekey(decision.suite_id)
        except TunnelError as error:
            self._journal.event("policy_switch", ok=False, error=str(error), code=error.code, **row)
            return RETRY_AFTER_S
        self._policy.switched(decision.suite_id, time.monotonic_ns())
        self._journal.event("policy_switch", ok=True, **row)
        return PERIOD_S
