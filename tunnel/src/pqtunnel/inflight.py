"""In-flight suite policy, sans-IO: the suite the drone should speak now, by battery, temperature and link.

The policy is a list of modes, the most urgent first, each with the suite it takes and the thresholds that
enter and leave it; without a mode in force the default suite holds. It only ever proposes a suite at or
above the floor, and the proposal is carried out by a rekey, whose handshake checks the floor at both ends
again.

An input counts only while it is authentic and fresh. One that is missing, stale or unauthenticated can
neither enter nor leave a mode: who can merely silence a sensor or forge a number gains nothing by it.

In scope: the decision. Not in scope: reading inputs, carrying out the rekey (`endpoint.inflight`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pqtunnel import suites
from pqtunnel.errors import TunnelError

INPUTS: Final = ("battery_pct", "temperature_c", "loss_pct")
"""Charge left; hottest zone of the board; datagrams lost on the way here, by authentic sequence."""
_RANGES: Final = {"battery_pct": (0.0, 100.0), "temperature_c": (-55.0, 150.0), "loss_pct": (0.0, 100.0)}
_LEVELS: Final = tuple(sorted({suite.level for suite in suites.SUITES.values()}))
Sense = Literal["above", "below"]


class PolicyError(TunnelError):
    """A policy that cannot be carried out as written."""

    code = "bad_policy"
    hint = "docs/POLICY.md describes every key of a policy."


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of an input. `t_ns` is monotonic; `authentic` says that it came from this host's own sensor,
    from authenticated packets, or over the control connection."""

    value: float
    t_ns: int
    authentic: bool
    source: str


@dataclass(frozen=True, slots=True)
class Threshold:
    """An input enters the mode beyond `enter` and leaves it beyond `leave` on the other side."""

    name: str
    sense: Sense
    enter: float
    leave: float

    def entered(self, value: float) -> bool:
        """Is the value beyond the entering threshold?"""
        return value > self.enter if self.sense == "above" else value < self.enter

    def left(self, value: float) -> bool:
        """Is the value back beyond the leaving threshold?"""
        return value < self.leave if self.sense == "above" else value > self.leave


@dataclass(frozen=True, slots=True)
class Mode:
    """A state of the flight and the suite it asks for; any one threshold enters, all must have left."""

    name: str
    suite_id: str
    thresholds: tuple[Threshold, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policy. `dwell_s`: least time between two switches; `stale_s`: greatest age of an input."""

    floor_level: int
    default_suite_id: str
    modes: tuple[Mode, ...]
    dwell_s: float
    stale_s: float

    @property
    def suite_ids(self) -> tuple[str, ...]:
        """Every suite the policy may ask for, each once: what both ends must accept."""
        return tuple(dict.fromkeys((self.default_suite_id, *(mode.suite_id for mode in self.modes))))

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Policy:
        """From the scenario's `policy` mapping. Raises PolicyError, SuiteUnknown."""
        known = {"floor_level", "default", "modes", "dwell_s", "stale_s"}
        _only(document, known, "the policy")
        floor = document.get("floor_level", 1)
        level = next((one for one in _LEVELS if one == floor), None)
        if level is None:
            raise PolicyError(f"floor_level must be one of {_LEVELS}, not {floor!r}")
        if "default" not in document:
            raise PolicyError("the policy names no default suite", hint="add: default: <suite id>")
        modes = document.get("modes", [])
        if not isinstance(modes, list):
            raise PolicyError(f"modes must be a list, not {modes!r:.80}")
        policy = cls(
            floor_level=level,
            default_suite_id=suites.canonical(str(document["default"])),
            modes=tuple(_mode(row) for row in modes),
            dwell_s=_positive(document.get("dwell_s", 5.0), "dwell_s"),
            stale_s=_positive(document.get("stale_s", 3.0), "stale_s"),
        )
        names = [mode.name for mode in policy.modes]
        if len(set(names)) != len(names):
            raise PolicyError(f"two modes share a name: {', '.join(names)}")
        for suite_id in policy.suite_ids:
            suite = suites.get(suite_id)
            if suite.level < policy.floor_level:
                raise PolicyError(
                    f"{suite_id} is level {suite.level}, below the policy's own floor {policy.floor_level}",
                    hint="choose another suite, or lower floor_level if the flight allows it",
                )
        return policy


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy wants now. `switch` is False when the present suite stays; `reason` is for the log."""

    suite_id: str
    mode: str
    switch: bool
    reason: str


class InflightPolicy:
    """The policy's memory: the modes in force and when it last switched. Times are monotonic nanoseconds."""

    def __init__(self, policy: Policy, suite_id: str) -> None:
        self.policy = policy
        self.suite_id = suites.canonical(suite_id)
        self._inside: dict[str, bool] = {mode.name: False for mode in policy.modes}
        self._switched_ns: int | None = None

    def decide(self, readings: Mapping[str, Reading | None], now_ns: int) -> Decision:
        """The suite to speak now. Call `switched` once the rekey is done; until then it is proposed again."""
        usable = {name: value for name in INPUTS if (value := self._usable(readings.get(name), name, now_ns))}
        for each in self.policy.modes:
            self._inside[each.name] = self._in_force(each, usable)
        mode = next((each for each in self.policy.modes if self._inside[each.name]), None)
        wanted = mode.suite_id if mode else self.policy.default_suite_id
        name = mode.name if mode else "default"
        if wanted == self.suite_id:
            return Decision(wanted, name, False, f"mode {name}: already in force")
        if self._switched_ns is not None and now_ns - self._switched_ns < self.policy.dwell_s * 1e9:
            waits = f"mode {name}: waits until {self.policy.dwell_s:g} s after the last switch"
            return Decision(self.suite_id, name, False, waits)
        return Decision(wanted, name, True, f"mode {name}: {_told(usable)}")

    def switched(self, suite_id: str, now_ns: int) -> None:
        """A rekey to `suite_id` has completed."""
        self.suite_id = suites.canonical(suite_id)
        self._switched_ns = now_ns

    def _usable(self, reading: Reading | None, name: str, now_ns: int) -> Reading | None:
        if reading is None or not reading.authentic or not math.isfinite(reading.value):
            return None
        least, most = _RANGES[name]
        if not least <= reading.value <= most or now_ns - reading.t_ns > self.policy.stale_s * 1e9:
            return None
        return reading

    def _in_force(self, mode: Mode, usable: Mapping[str, Reading]) -> bool:
        if not self._inside[mode.name]:
            return any(t.name in usable and t.entered(usable[t.name].value) for t in mode.thresholds)
        # An input that cannot be read has not been seen to recover, so it keeps the mode.
        return not all(t.name in usable and t.left(usable[t.name].value) for t in mode.thresholds)


def _mode(row: object) -> Mode:
    if not isinstance(row, Mapping):
        raise PolicyError(f"a mode is a mapping, not {row!r:.80}")
    _only(row, {"name", "suite", "when"}, "a mode")
    missing = [key for key in ("name", "suite", "when") if key not in row]
    if missing:
        raise PolicyError(f"a mode lacks {', '.join(missing)}")
    if not isinstance(row["when"], Mapping) or not row["when"]:
        raise PolicyError(f"mode {row['name']}: `when` needs at least one input")
    thresholds = tuple(_threshold(str(row["name"]), str(key), rule) for key, rule in row["when"].items())
    return Mode(str(row["name"]), suites.canonical(str(row["suite"])), thresholds)


def _threshold(mode: str, name: str, rule: object) -> Threshold:
    if name not in INPUTS:
        raise PolicyError(f"mode {mode}: no input {name!r}", hint="inputs: " + ", ".join(INPUTS))
    if not isinstance(rule, Mapping) or set(rule) not in ({"above", "leave_below"}, {"below", "leave_above"}):
        raise PolicyError(
            f"mode {mode}: {name} needs `above` with `leave_below`, or `below` with `leave_above`"
        )
    sense: Sense = "above" if "above" in rule else "below"
    enter = _number(rule[sense], f"mode {mode}: {name} {sense}")
    leave_key = "leave_below" if sense == "above" else "leave_above"
    leave = _number(rule[leave_key], f"mode {mode}: {name} {leave_key}")
    least, most = _RANGES[name]
    if not (least <= enter <= most and least <= leave <= most):
        raise PolicyError(f"mode {mode}: {name} lies between {least:g} and {most:g}")
    if (leave >= enter) if sense == "above" else (leave <= enter):
        raise PolicyError(
            f"mode {mode}: {name} would leave at {leave:g} before it enters at {enter:g}",
            hint="a gap between the two keeps a noisy input from switching to and fro",
        )
    return Threshold(name, sense, float(enter), float(leave))


def _only(document: Mapping[str, object], known: Iterable[str], what: str) -> None:
    extra = sorted(set(document) - set(known))
    if extra:
        raise PolicyError(f"{what} has an unknown key {extra[0]!r}", hint="keys: " + ", ".join(sorted(known)))


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyError(f"{name} must be a number, not {value!r:.80}")
    return value


def _positive(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
        raise PolicyError(f"{name} must be a number of seconds up to 3600, not {value!r}")
    return float(value)


def _told(usable: Mapping[str, Reading]) -> str:
    return ", ".join(f"{name} {reading.value:g} ({reading.source})" for name, reading in usable.items()) or (
        "no usable input"
    )
