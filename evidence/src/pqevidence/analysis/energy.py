"""Energy of a block of work from raw power samples, gross and net, with its uncertainty budget.

    gross   E = ∫ P dt over the exact span, trapezoids, interpolated at both ends                        J
    net     E − P_idle · t, where P_idle is the mean of the idle blocks just before and just after       J
    U       expanded, k = 2, of calibration ⊕ quantisation ⊕ alignment ⊕ idle

A gap inside a block, a clipped sample, a missing idle neighbour or an idle power that drifted by more than
2 σ between the neighbours leaves no number, only the reason. A net energy inside its own U is `not
resolvable`, which is a result and not a zero. Drone only: the ground station carries no power sensor.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pqevidence.analysis.stats import student_t_quantile
from pqtelemetry.power.rawfile import CLIPPED, GAP, PowerSample

COVERAGE: Final = 2.0
_COVERED: Final = 0.97725
"""One-sided probability that k = 2 stands for."""
MIN_BLOCK_S: Final = 1.0
"""A shorter block is too few samples for its span: operations are batched, at least 1 s a block."""
_LARGEST_STEP_PERIODS: Final = 5
_BATCHES: Final = 10
"""Batch means: neighbouring samples of a board are correlated, means of a tenth of the block far less."""


@dataclass(frozen=True, slots=True)
class Span:
    """A block on the clock of the samples, nanoseconds."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Resolution:
    """What limits one sensor. calibration_relative: standard uncertainty of power as a fraction, common to
    all samples; quantum_w: one step of the power reading; alignment_s: standard uncertainty between the clock
    of the spans and that of the samples; period_s: nominal time between samples."""

    calibration_relative: float
    quantum_w: float
    alignment_s: float
    period_s: float


@dataclass(frozen=True, slots=True)
class Power:
    """Mean power of a span and the standard error of that mean, watts."""

    mean_w: float
    standard_error_w: float
    energy_j: float
    samples: int


@dataclass(frozen=True, slots=True)
class Energy:
    """A block's result. Numbers are None where `reason` says why; `resolvable` is None together with them.

    net_j and u_net_j are of the whole block; the per_operation pair of one of its `operations`; `blocks` is
    how many gave the numbers.
    """

    gross_j: float | None
    net_j: float | None
    u_net_j: float | None
    per_operation_j: float | None
    u_per_operation_j: float | None
    idle_w: float | None
    operations: int
    resolvable: bool | None
    reason: str | None
    budget_j: dict[str, float]
    blocks: int = 0


class NoEnergyError(Exception):
    """This span has no energy; the message is the reason."""


class Trace:
    """Samples in time order, with the integral of any span of them."""

    def __init__(self, samples: Sequence[PowerSample], period_s: float) -> None:
        self._samples = samples
        self._times = [sample.t_mono_ns for sample in samples]
        self._largest_step_ns = _LARGEST_STEP_PERIODS * period_s * 1e9

    def power(self, span: Span) -> Power:
        """Mean power, its standard error by batch means, and energy of a span. Raises NoEnergyError."""
        if span.end_ns <= span.start_ns:
            raise NoEnergyError("the block has no length")
        first, last = bisect_right(self._times, span.start_ns) - 1, bisect_left(self._times, span.end_ns)
        if first < 0 or last >= len(self._samples):
            raise NoEnergyError("the samples do not cover the block")
        points = self._samples[first : last + 1]
        self._refuse_holes(points)
        energy_j = self._integral(points, span)
        batch_ns = (span.end_ns - span.start_ns) // _BATCHES
        means = []
        for index in range(_BATCHES):
            part = Span(span.start_ns + index * batch_ns, span.start_ns + (index + 1) * batch_ns)
            low = bisect_right(self._times, part.start_ns) - 1
            high = bisect_left(self._times, part.end_ns)
            means.append(self._integral(self._samples[low : high + 1], part) / part.seconds)
        mean = math.fsum(means) / _BATCHES
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in means) / (_BATCHES - 1) / _BATCHES)
        return Power(energy_j / span.seconds, spread, energy_j, len(points))

    def _refuse_holes(self, points: Sequence[PowerSample]) -> None:
        if any(point.flags & GAP for point in points):
            raise NoEnergyError("the sensor had a gap inside the block")
        if any(point.flags & CLIPPED for point in points):
            raise NoEnergyError("the current left the sensor's range inside the block")
        largest_ns = max(b.t_mono_ns - a.t_mono_ns for a, b in itertools.pairwise(points))
        if largest_ns > self._largest_step_ns:
            raise NoEnergyError(f"{largest_ns / 1e6:.1f} ms without a sample inside the block")

    @staticmethod
    def _integral(points: Sequence[PowerSample], span: Span) -> float:
        """Joules between the span's ends; the outer points lie at or beyond them."""
        terms = []
        for a, b in itertools.pairwise(points):
            pa, pb = a.power_w, b.power_w
            if pa is None or pb is None:
                raise NoEnergyError("the sensor had a gap inside the block")
            low, high = max(a.t_mono_ns, span.start_ns), min(b.t_mono_ns, span.end_ns)
            width = b.t_mono_ns - a.t_mono_ns
            at_low = pa + (pb - pa) * (low - a.t_mono_ns) / width
            at_high = pa + (pb - pa) * (high - a.t_mono_ns) / width
            terms.append((at_low + at_high) / 2 * (high - low) / 1e9)
        return math.fsum(terms)


def block_energy(
    trace: Trace, before: Span, work: Span, after: Span, operations: int, limits: Resolution
) -> Energy:
    """The energy of `operations` operations done in `work`, between two idle blocks."""
    try:
        if work.seconds < MIN_BLOCK_S:
            raise NoEnergyError(f"the block is {work.seconds:.3f} s long, {MIN_BLOCK_S:g} s are needed")
        busy = trace.power(work)
        idles = [trace.power(before), trace.power(after)]
    except NoEnergyError as error:
        return _nothing(operations, str(error))
    drift_w = abs(idles[0].mean_w - idles[1].mean_w)
    drift_sigma_w = math.hypot(idles[0].standard_error_w, idles[1].standard_error_w, limits.quantum_w / 2)
    if drift_w > 2 * drift_sigma_w:
        text = f"idle power drifted by {drift_w * 1e3:.1f} mW between the neighbours, 2 σ is"
        return _nothing(operations, f"{text} {2e3 * drift_sigma_w:.1f} mW")
    idle_w = (idles[0].mean_w + idles[1].mean_w) / 2
    net_j = busy.energy_j - idle_w * work.seconds
    budget = {
        "calibration": limits.calibration_relative * abs(net_j),
        # each sample's rounding is independent: it averages with their number
        "quantisation": limits.quantum_w / math.sqrt(12) * work.seconds / math.sqrt(busy.samples),
        # both edges of the block, where power steps from idle to busy
        "alignment": math.sqrt(2)
        * math.hypot(limits.alignment_s, limits.period_s / math.sqrt(12))
        * abs(busy.mean_w - idle_w),
        "idle": math.hypot(idles[0].standard_error_w, idles[1].standard_error_w) / 2 * work.seconds,
    }
    u_j = COVERAGE * math.sqrt(math.fsum(part**2 for part in budget.values()))
    return _told(busy.energy_j, net_j, u_j, idle_w, operations, budget, 1)


def between_blocks(blocks: Sequence[Energy]) -> Energy:
    """One operation's energy from repeated equal blocks; the spread between blocks joins the budget.

    At least three blocks with a number; others are named in the reason. Raises ValueError for unequal blocks.
    """
    if not blocks or len({block.operations for block in blocks}) != 1:
        raise ValueError("blocks of different numbers of operations are not repetitions of one another")
    operations = blocks[0].operations
    good = [block for block in blocks if block.net_j is not None]
    if len(good) < 3:
        why = next((block.reason for block in blocks if block.net_j is None), "no more were made")
        return _nothing(
            operations, f"{len(good)} of {len(blocks)} blocks have an energy, 3 are needed ({why})"
        )
    n = len(good)
    gross_j = math.fsum(_number(block.gross_j) for block in good) / n
    net_j = math.fsum(_number(block.net_j) for block in good) / n
    idle_w = math.fsum(_number(block.idle_w) for block in good) / n
    spread = math.fsum((_number(block.net_j) - net_j) ** 2 for block in good) / (n - 1)
    parts = {
        # common to all blocks, so it does not average
        "calibration": math.fsum(block.budget_j["calibration"] for block in good) / n,
        **{
            name: math.sqrt(math.fsum(block.budget_j[name] ** 2 for block in good)) / n
            for name in ("quantisation", "alignment", "idle")
        },
        # a spread of few blocks is itself uncertain: Student's factor instead of the normal one
        "between blocks": math.sqrt(spread / n) * student_t_quantile(_COVERED, n - 1) / COVERAGE,
    }
    u_j = COVERAGE * math.sqrt(math.fsum(part**2 for part in parts.values()))
    return _told(gross_j, net_j, u_j, idle_w, operations, parts, n)


def additive(once: Energy, twice: Energy) -> tuple[bool, float, float] | None:
    """Does twice the work take twice the energy? (within U, difference J, U of the difference); None without
    both numbers. `twice` holds 2 × the operations of `once`."""
    if twice.operations != 2 * once.operations:
        raise ValueError("the additivity test compares N with 2 N operations")
    if once.net_j is None or twice.net_j is None or once.u_net_j is None or twice.u_net_j is None:
        return None
    difference = twice.net_j - 2 * once.net_j
    u_difference = math.hypot(twice.u_net_j, 2 * once.u_net_j)
    return abs(difference) <= u_difference, difference, u_difference


def _told(
    gross_j: float,
    net_j: float,
    u_j: float,
    idle_w: float,
    operations: int,
    budget_j: dict[str, float],
    blocks: int,
) -> Energy:
    """An energy with its number, or `not resolvable` where it does not exceed its own uncertainty."""
    # Work cannot take less than idling: a net energy below zero is one of the sensor's, never a result.
    resolvable = net_j > u_j
    return Energy(
        gross_j=gross_j,
        net_j=net_j,
        u_net_j=u_j,
        per_operation_j=net_j / operations if resolvable else None,
        u_per_operation_j=u_j / operations if resolvable else None,
        idle_w=idle_w,
        operations=operations,
        resolvable=resolvable,
        reason=None if resolvable else "not resolvable: the net energy does not exceed its own uncertainty",
        budget_j=budget_j,
        blocks=blocks,
    )


def _number(value: float | None) -> float:
    if value is None:
        raise ValueError("a block with a net energy has all its numbers")
    return value


def _nothing(operations: int, reason: str) -> Energy:
    return Energy(None, None, None, None, None, None, operations, None, reason, {})
