"""Steps of a session's workload, and the plan that they and a seed make; for both ends and for a checker.

A step is what a scenario writes under `traffic.workload`. It becomes one exchange, a step `command` one a
period. What carries them out is workload.py.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from pqsitl.errors import SpecError

NS: Final = 1_000_000_000
KINDS: Final = ("mission_upload", "mode", "auto", "param_download", "command")
#: ArduCopter's numbers of modes in which the vehicle stays in the air
MODES: Final = {"AUTO": 3, "GUIDED": 4, "LOITER": 5, "BRAKE": 17}
#: kind → longest time that an exchange may take, seconds, where its step does not say
LIMITS_S: Final = {"mission_upload": 30.0, "mode": 5.0, "auto": 5.0, "param_download": 60.0, "command": 5.0}
MAX_EXCHANGES: Final = 5_000
MAX_WAYPOINTS: Final = 700
NOT_DUE: Final = "the session ended before it was sent"
CUT: Final = "the session ended before an answer"
STATION: Final = (255, 190)
"""MAVLink system and component that asks; the uplink probe's."""


def unanswered(limit_s: float) -> str:
    """Why an exchange whose time ran out has no result."""
    return f"no answer within {limit_s:g} s"


@dataclass(frozen=True)
class Step:
    """One step of a scenario's `traffic.mission`; None where the kind takes no such key."""

    kind: str
    at_s: float
    limit_s: float
    waypoints: int | None = None
    mode: str | None = None
    count: int | None = None
    """Parameters; None: all."""
    rate_hz: float | None = None
    for_s: float | None = None

    @property
    def exchange_count(self) -> int:
        """How many exchanges it becomes."""
        if self.rate_hz is None or self.for_s is None:
            return 1
        return max(1, int(self.rate_hz * self.for_s + 1e-9))


@dataclass(frozen=True)
class Due:
    """One exchange of the plan. at_ns counts from the session's begin; number from 0 within its step."""

    step: int
    number: int
    at_ns: int


_NEEDED: Final = {"mission_upload": ("waypoints",), "mode": ("mode",), "command": ("rate_hz", "for_s")}
_ALLOWED: Final = {**_NEEDED, "param_download": ("count",)}
_OPTIONS: Final = ("waypoints", "mode", "count", "rate_hz", "for_s")


def steps_of(raw: object) -> tuple[Step, ...]:
    """The steps of a start request or a scenario. SpecError names the step and what is wrong with it."""
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes):
        raise SpecError("workload is no list of steps", 'write [{"kind":"auto","at_s":1}]')
    steps = tuple(_step(place, one) for place, one in enumerate(raw))
    total = sum(step.exchange_count for step in steps)
    if total > MAX_EXCHANGES:
        raise SpecError(f"the steps make {total} exchanges", f"at most {MAX_EXCHANGES} a session")
    return steps


def _step(place: int, raw: object) -> Step:
    known = {one.name for one in fields(Step)}
    if not isinstance(raw, Mapping):
        raise SpecError(f"step {place} is no object", 'write {"kind":"auto","at_s":1}')
    kind = raw.get("kind")
    if kind not in KINDS:
        near = difflib.get_close_matches(str(kind), KINDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(KINDS)}"
        raise SpecError(f"step {place} cannot be {kind!r}", hint)
    for key in raw:
        if key not in known:
            near = difflib.get_close_matches(str(key), sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise SpecError(f"step {place} ({kind}): unknown key {key!r}", hint)
    given = {key: value for key, value in raw.items() if value is not None}
    if why := amiss(str(kind), given):
        raise SpecError(f"step {place} ({kind}) {why[0]}", why[1])
    try:
        step = Step(**{"limit_s": LIMITS_S[str(kind)], **given})
        good = step.at_s >= 0 and step.limit_s > 0 and (step.rate_hz or 1) > 0 and (step.for_s or 1) > 0
        good = good and 0 < (step.waypoints or 1) <= MAX_WAYPOINTS and (step.count or 1) > 0
    except TypeError as error:
        raise SpecError(f"step {place} ({kind}): {error}", "at_s is a number of seconds") from error
    if not good or step.mode not in (None, *MODES):
        raise SpecError(f"step {place} ({kind}) holds a value out of range", f"modes: {', '.join(MODES)}")
    return step


def amiss(kind: str, given: Mapping[str, object]) -> tuple[str, str] | None:
    """(what is wrong, what to do) with the keys that are set for a kind; None where nothing is."""
    for key in _NEEDED.get(kind, ()):
        if given.get(key) is None:
            return f"lacks `{key}`", f"add `{key}:`"
    allowed = _ALLOWED.get(kind, ())
    for key in _OPTIONS:
        if given.get(key) is not None and key not in allowed:
            return f"takes no `{key}`", f"it takes: {', '.join(('at_s', 'limit_s', *allowed))}"
    return None


def dues(steps: Sequence[Step], seed: int) -> list[Due]:
    """Every exchange, in order of time. The commands of a step lie anywhere in their period, by the seed: a
    steady beat would meet a steady rekey always at the same phase."""
    found = []
    for place, step in enumerate(steps):
        if step.rate_hz is None:
            found.append(Due(place, 0, round(step.at_s * NS)))
            continue
        rng = random.Random(f"workload/{seed}/{place}")
        for number in range(step.exchange_count):
            at_s = step.at_s + (number + rng.random()) / step.rate_hz
            found.append(Due(place, number, round(at_s * NS)))
    return sorted(found, key=lambda due: (due.at_ns, due.step, due.number))
