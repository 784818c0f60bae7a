"""What one direction of the link does to packets, and what a probe should then find.

Every key is optional and 0 means nothing. `jitter_ms` is the half width of a uniform distribution or the
standard deviation of a normal one (cut at three of them); a delay is never below zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from pqlink.errors import SettingsError

Distribution = Literal["uniform", "normal"]
NORMAL_CUT: Final = 3.0
_SHA256: Final = re.compile("[0-9a-f]{64}")
#: what a bounded queue holds when a rate is set and nothing is said
DEFAULT_QUEUE_MS: Final = 200.0

#: key → greatest value; the least is 0 everywhere
LIMITS: Final[dict[str, float]] = {
    "delay_ms": 10_000, "jitter_ms": 5_000, "loss_pct": 100, "rate_kbps": 10_000_000, "queue_ms": 60_000,
    "reorder_pct": 100, "duplicate_pct": 100,
}  # fmt: skip
BURST_KEYS: Final = ("p_enter_pct", "p_exit_pct", "loss_pct")
AtEnd = Literal["loop", "clear"]
AT_ENDS: Final[tuple[AtEnd, ...]] = ("loop", "clear")
MOST_START_MS: Final = 86_400_000
#: column of a trace → settings that would say the same thing a second time
SAID_BY_TRACE: Final[dict[str, tuple[str, ...]]] = {
    "rate_bit_s": ("rate_kbps",), "delay_ms": ("delay_ms", "jitter_ms", "reorder_pct"),
    "loss_pct": ("loss_pct", "burst_loss"),
}  # fmt: skip


@dataclass(frozen=True)
class Burst:
    """Gilbert-Elliott: per packet the chance to enter and to leave the bad state, and the loss within it."""

    p_enter_pct: float
    p_exit_pct: float
    loss_pct: float

    @property
    def bad_share(self) -> float:
        """Long-run share of packets that meet the bad state."""
        total = self.p_enter_pct + self.p_exit_pct
        return self.p_enter_pct / total if total else 0.0


@dataclass(frozen=True)
class Replay:
    """Which trace is replayed, by the SHA-256 of its file; where it begins, and what comes behind its end:
    `loop`, it begins anew; `clear`, nothing of it holds any more."""

    sha256: str
    at_end: AtEnd = "loop"
    start_ms: int = 0

    @classmethod
    def parse(cls, given: object) -> Replay:
        """From a mapping; `file`, which a scenario has besides, is left aside. Raises SettingsError."""
        if not isinstance(given, Mapping):
            raise SettingsError(f"trace is a mapping, not {given!r:.60}")
        unknown = sorted(set(given) - {"file", "sha256", "at_end", "start_ms"})
        if unknown:
            raise SettingsError(
                f"unknown key of trace {unknown[0]!r:.60}", hint="keys: file, sha256, at_end, start_ms"
            )
        sha256, at_end, start_ms = given.get("sha256"), given.get("at_end", "loop"), given.get("start_ms", 0)
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            raise SettingsError(f"trace.sha256 must be 64 hex digits, not {sha256!r:.80}")
        if at_end not in AT_ENDS:
            raise SettingsError(f"trace.at_end must be {' or '.join(AT_ENDS)}, not {at_end!r:.40}")
        if isinstance(start_ms, bool) or not isinstance(start_ms, int) or not 0 <= start_ms <= MOST_START_MS:
            raise SettingsError(f"trace.start_ms must be a whole number, 0 … {MOST_START_MS}")
        return cls(sha256, cast(AtEnd, at_end), start_ms)

    def as_dict(self) -> dict[str, object]:
        """The same keys, without `file`."""
        return {"sha256": self.sha256, "at_end": self.at_end, "start_ms": self.start_ms}


@dataclass(frozen=True)
class Side:
    """Settings of one direction."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    distribution: Distribution = "uniform"
    loss_pct: float = 0.0
    burst_loss: Burst | None = None
    rate_kbps: float = 0.0
    queue_ms: float = 0.0
    reorder_pct: float = 0.0
    duplicate_pct: float = 0.0
    trace: Replay | None = None

    @classmethod
    def parse(cls, given: object) -> Side:
        """From a mapping of the scenario's keys. Raises SettingsError naming the key."""
        if given is None:
            return NOTHING
        if not isinstance(given, Mapping):
            raise SettingsError(f"a direction is a mapping of settings, not {given!r}")
        others = ("distribution", "burst_loss", "trace")
        unknown = sorted(set(given) - set(LIMITS) - set(others))
        if unknown:
            known = ", ".join([*LIMITS, *others])
            raise SettingsError(f"unknown link setting {unknown[0]!r}", hint=f"settings: {known}")
        values = {key: _number(key, given.get(key), most) for key, most in LIMITS.items()}
        distribution = given.get("distribution") or "uniform"
        if distribution not in ("uniform", "normal"):
            raise SettingsError(f"distribution must be uniform or normal, not {distribution!r}")
        side = cls(
            **values,
            distribution=cast(Distribution, distribution),
            burst_loss=_burst(given.get("burst_loss")),
            trace=None if given.get("trace") is None else Replay.parse(given["trace"]),
        )
        if side.jitter_ms * side.reach > side.delay_ms:
            raise SettingsError(
                f"jitter_ms {side.jitter_ms:g} reaches below a delay of zero (delay_ms {side.delay_ms:g})",
                hint=f"delay_ms of at least {side.jitter_ms * side.reach:g}, or less jitter",
            )
        if side.reorder_pct and not side.delay_ms:
            raise SettingsError(
                "reorder_pct needs delay_ms: a packet overtakes by not being delayed", hint="set delay_ms"
            )
        if side.queue_ms and not side.rate_kbps and side.trace is None:
            raise SettingsError(
                "queue_ms needs rate_kbps: without a rate nothing queues", hint="set rate_kbps"
            )
        return side

    @property
    def reach(self) -> float:
        """Greatest distance from the mean, in units of jitter_ms."""
        return NORMAL_CUT if self.distribution == "normal" else 1.0

    @property
    def expected_loss_pct(self) -> float:
        """Share of packets that are lost in the long run, queue overflow apart."""
        burst = self.burst_loss
        in_burst = burst.bad_share * burst.loss_pct / 100 if burst else 0.0
        return 100 * (1 - (1 - self.loss_pct / 100) * (1 - in_burst))

    @property
    def expected_delay_ms(self) -> float:
        """Mean delay of a small packet on an empty queue, packets that overtake included."""
        return self.delay_ms * (1 - self.reorder_pct / 100)

    @property
    def expected_jitter_ms(self) -> float:
        """Standard deviation of that delay."""
        spread = self.jitter_ms / math.sqrt(3) if self.distribution == "uniform" else self.jitter_ms * _CUT_SD
        overtake = self.reorder_pct / 100
        return math.sqrt((1 - overtake) * spread**2 + overtake * (1 - overtake) * self.delay_ms**2)

    @property
    def expected_burst_factor(self) -> float:
        """By how much the variance of a loss count exceeds that of independent losses."""
        burst = self.burst_loss
        loss = self.expected_loss_pct / 100
        if burst is None or not 0 < loss < 1:
            return 1.0
        memory = max(0.0, 1 - (burst.p_enter_pct + burst.p_exit_pct) / 100)
        share, bad = burst.bad_share, burst.loss_pct / 100 * (1 - self.loss_pct / 100)
        covariance = bad * bad * share * (1 - share)
        if memory >= 1:
            return math.inf
        return 1 + 2 * covariance / (loss * (1 - loss)) * memory / (1 - memory)

    def as_dict(self) -> dict[str, object]:
        """The same keys as in a scenario, all of them."""
        burst = self.burst_loss
        return {
            **{key: getattr(self, key) for key in LIMITS},
            "distribution": self.distribution,
            "burst_loss": None if burst is None else {key: getattr(burst, key) for key in BURST_KEYS},
            # only where there is one: link.json of runs without traces stays as it was
            **({} if self.trace is None else {"trace": self.trace.as_dict()}),
        }

    def said_twice(self, known: Iterable[str]) -> list[str]:
        """Settings beside a trace that has these columns, of which the trace speaks itself."""
        return [key for name in known for key in SAID_BY_TRACE[name] if getattr(self, key)]


NOTHING: Final = Side()
BLOCKED: Final = Side(loss_pct=100.0)

#: standard deviation of a standard normal cut at ± NORMAL_CUT by drawing again
_DENSITY = math.exp(-(NORMAL_CUT**2) / 2) / math.sqrt(2 * math.pi)
_CUT_SD: Final = math.sqrt(1 - 2 * NORMAL_CUT * _DENSITY / math.erf(NORMAL_CUT / math.sqrt(2)))


def _number(key: str, value: object, most: float) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise SettingsError(f"{key} must be a number, not {value!r}")
    if not 0 <= value <= most:  # compared before it is converted: a whole number may be too large for a float
        raise SettingsError(f"{key} {value!r:.40} is outside 0 … {most:g}")
    return float(value)


def _burst(given: object) -> Burst | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or set(given) != set(BURST_KEYS):
        raise SettingsError(f"burst_loss needs exactly {', '.join(BURST_KEYS)}, not {given!r}")
    burst = Burst(**{key: _number(f"burst_loss.{key}", given[key], 100) for key in BURST_KEYS})
    if burst.p_enter_pct and not burst.p_exit_pct:
        raise SettingsError("burst_loss.p_exit_pct is 0: a burst would never end", hint="set it above 0")
    return burst
