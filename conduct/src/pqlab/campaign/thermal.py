"""The thermal gate: a cell begins when both hosts are cool enough, where a temperature exists at all.

The wait is a labelled window of the cell, so it is no part of its overhead; why it ended is an event.
"""

from __future__ import annotations

from collections.abc import Callable

from pqbase.documents import Json, number_of, number_or_none
from pqlab.campaign.agents import Pair
from pqlab.campaign.clock import Clock
from pqlab.campaign.journal import Journal

WINDOW = "thermal_gate"
_PAUSE_S = 5.0


class ThermalGate:
    """Asks both agents for their temperature before a cell. Raises AgentFailure when one does not answer."""

    def __init__(self, settings: Json, pair: Pair, clock: Clock, note: Callable[[str], None]) -> None:
        self._below_c = number_or_none(settings, "below_c")
        self._wait_s = number_of(settings, "wait_s", 0.0)
        self._pair = pair
        self._clock = clock
        self._note = note

    def wait(self, journal: Journal) -> None:
        """Return when every host that has a temperature is at most at the limit, or the wait is over."""
        if self._below_c is None:
            return
        hottest = self._hottest_c()
        if hottest is None:
            journal.event(WINDOW, open=True, reason="no host measures a temperature")
            return
        if hottest <= self._below_c:
            journal.event(WINDOW, open=True, reason="cool enough", temperature_c=hottest)
            return
        self._note(f"{hottest:.1f} °C is above {self._below_c:g} °C; waiting for the hosts to cool")
        begun_s = self._clock.monotonic_s()
        journal.event("window_start", window=WINDOW, temperature_c=hottest)
        reason = "the wait is over"
        while self._clock.monotonic_s() - begun_s < self._wait_s:
            self._clock.sleep(min(_PAUSE_S, self._wait_s))
            now_c = self._hottest_c()
            if now_c is None:
                reason = "no host measures a temperature any more"
                break
            hottest = now_c
            if hottest <= self._below_c:
                reason = "cool enough"
                break
        journal.event("window_end", window=WINDOW, temperature_c=hottest, reason=reason)

    def _hottest_c(self) -> float | None:
        told = [facts.get("temperature_c") for facts in self._pair.both("hello").values()]
        known = [float(value) for value in told if isinstance(value, int | float)]
        return max(known, default=None)
