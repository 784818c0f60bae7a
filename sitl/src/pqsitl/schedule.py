"""Absolute, drift-free schedule of bursts: sans-IO, nanoseconds in, message names out.

Burst n of cycle c is due at start + (c + offset_n) × cycle, computed from the integers c and n each time, so
that rounding never accumulates. A message on its own period leaves with the first burst after it is due.
"""

from __future__ import annotations

from collections.abc import Mapping

from pqsitl.profile import Profile

NS = 1_000_000_000
LATE_NS = 2_000_000
"""A burst that leaves later than this behind its schedule counts as late."""
SKIP_NS = 500_000_000
"""Further behind than this (a suspended host), bursts are dropped and counted, not blurted out: more than
some 250 frames at once would overflow the next socket's buffer and pass for loss."""


class BurstSchedule:
    """What is due when, for one profile at one rate."""

    def __init__(
        self, profile: Profile, rate_hz: float, start_ns: int, extra_us: Mapping[str, int] | None = None
    ) -> None:
        """`extra_us`: periods in µs of messages beside the profile's, from the start."""
        self._cycle_ns = profile.cycle_s(rate_hz) * NS
        self._bursts = profile.cycle
        self._start_ns = start_ns
        self._number = 0
        self._fixed_hz = dict(profile.fixed_hz)
        self._fixed_sent = dict.fromkeys(self._fixed_hz, 0)
        self._override_ns: dict[str, int] = {}
        self._override_due: dict[str, int] = {}
        self._extra_us = dict(extra_us or {})
        for name in self._extra_us:
            self.set_interval(name, 0, start_ns)
        self.late_count = 0
        self.max_late_ns = 0
        self.skipped_count = 0

    @property
    def next_ns(self) -> int:
        """When the next burst is due."""
        due = self._due_ns(self._number)
        return min(due, *self._override_due.values()) if self._override_due else due

    def _due_ns(self, number: int) -> int:
        cycle, place = divmod(number, len(self._bursts))
        return self._start_ns + round((cycle + self._bursts[place].offset) * self._cycle_ns)

    def set_interval(self, name: str, interval_us: int, now_ns: int) -> None:
        """MAV_CMD_SET_MESSAGE_INTERVAL: > 0 own period, -1 off, 0 back to what it was at the start."""
        self._override_due.pop(name, None)
        interval_us = interval_us or self._extra_us.get(name, 0)
        if interval_us == 0:
            self._override_ns.pop(name, None)
            return
        self._override_ns[name] = interval_us * 1000 if interval_us > 0 else -1
        if interval_us > 0:
            self._override_due[name] = now_ns

    def interval_us(self, name: str) -> int:
        """MAV_CMD_GET_MESSAGE_INTERVAL: period in µs, -1 when the message is off."""
        if name in self._override_ns:
            override_ns = self._override_ns[name]
            return -1 if override_ns < 0 else override_ns // 1000
        if name in self._fixed_hz:
            return round(1e6 / self._fixed_hz[name])
        per_cycle = sum(burst.names.count(name) for burst in self._bursts)
        return round(self._cycle_ns / 1000 / per_cycle) if per_cycle else -1

    @property
    def overridden(self) -> list[str]:
        """Messages whose rate no longer is what it was at the start."""
        changed = (n for n, ns in self._override_ns.items() if ns != self._extra_us.get(n, 0) * 1000)
        return sorted(changed)

    def take(self, now_ns: int) -> list[str]:
        """Names of all messages due by `now_ns`, in order."""
        names: list[str] = []
        while (due := self._due_ns(self._number)) <= now_ns:
            late_ns = now_ns - due
            burst = self._bursts[self._number % len(self._bursts)].names
            self._number += 1
            if late_ns > SKIP_NS:
                self.skipped_count += len(burst)
                continue
            if late_ns > LATE_NS:
                self.late_count += 1
            self.max_late_ns = max(self.max_late_ns, late_ns)
            names += burst if not self._override_ns else [n for n in burst if n not in self._override_ns]
            names += self._fixed_due(due)
        for name, due in list(self._override_due.items()):
            period = self._override_ns[name]
            while due <= now_ns:
                if now_ns - due <= SKIP_NS:
                    names.append(name)
                due += period
            self._override_due[name] = due
        return names

    def _fixed_due(self, due_ns: int) -> list[str]:
        elapsed_s = (due_ns - self._start_ns) / NS
        ready: list[str] = []
        for name, hz in self._fixed_hz.items():
            # HEARTBEAT leaves at once so that ground stations find the vehicle, the rest half a period in.
            first = 1.0 if name == "HEARTBEAT" else 0.5
            wanted = int(elapsed_s * hz + first)
            if wanted > self._fixed_sent[name]:
                self._fixed_sent[name] = wanted
                if name not in self._override_ns:
                    ready.append(name)
        return ready
