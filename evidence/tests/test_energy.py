"""Energy of blocks: the truth comes out within the stated U, and nothing comes out where there is none."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from pqevidence.analysis.energy import (
    Energy,
    Resolution,
    Span,
    Trace,
    additive,
    between_blocks,
    block_energy,
)
from pqtelemetry.ina219.calibration import Calibration, Line
from pqtelemetry.ina219.device import Ina219
from pqtelemetry.ina219.model import Imperfection, Ina219Model
from pqtelemetry.ina219.registers import Mode
from pqtelemetry.power.rawfile import CLIPPED, GAP, PowerSample

MS, SECOND = 1_000_000, 1_000_000_000
CALIBRATED = Calibration("m", "B", 0.1, "2026-01-01", "model", Line(1, 0, 0.002, 9), Line(1, 0, 0.004, 9))
LIMITS = Resolution(
    calibration_relative=CALIBRATED.power_relative_u(5.1, 0.8),
    quantum_w=math.hypot(5.1 * 1e-4, 0.8 * 4e-3),
    alignment_s=1e-4,
    period_s=1e-3,
)
BEFORE, WORK, AFTER = Span(SECOND, 3 * SECOND), Span(3 * SECOND, 5 * SECOND), Span(5 * SECOND, 7 * SECOND)
IDLE_A, BUSY_A, RAIL_V = 0.6, 0.9, 5.1


def measured(amps: Callable[[float], float], seed: int = 1, gain: float = 1.0) -> list[PowerSample]:
    """Eight seconds at 1 kHz of a rail through the software INA219, 11 bit, with its noise."""
    now = [0.0]
    flaws = Imperfection(current_gain=gain)
    model = Ina219Model(
        lambda t_s: (RAIL_V, amps(t_s)), lambda: now[0], imperfection=flaws, seed=seed, steps=2
    )
    chip = Ina219(model, CALIBRATED, Mode(adc="11bit"))
    chip.set_up()
    samples = []
    for index in range(1, 8000):
        now[0] = index / 1000
        reading = chip.take()
        if reading is not None:
            flags = CLIPPED if reading.clipped else 0
            samples.append(PowerSample(index * MS, reading.voltage_v, reading.current_a, flags, 0))
    return samples


def step(busy_a: float, idle_a: float = IDLE_A) -> Callable[[float], float]:
    return lambda t_s: busy_a if 3.0 <= t_s < 5.0 else idle_a


def energy_of(samples: list[PowerSample], operations: int = 1000) -> Energy:
    return block_energy(Trace(samples, LIMITS.period_s), BEFORE, WORK, AFTER, operations, LIMITS)


def test_known_joules_within_the_stated_uncertainty_of_at_most_three_percent() -> None:
    truth_net_j = RAIL_V * (BUSY_A - IDLE_A) * 2.0
    outside = 0
    for seed in range(20):
        # each board's gain is off by what its calibration says it may be
        gain = random.Random(seed).gauss(1.0, LIMITS.calibration_relative)
        energy = energy_of(measured(step(BUSY_A), seed, gain))
        assert energy.net_j is not None and energy.u_net_j is not None and energy.resolvable
        assert energy.u_net_j / energy.net_j <= 0.03
        outside += abs(energy.net_j - truth_net_j) > energy.u_net_j
        assert energy.gross_j == pytest.approx(RAIL_V * BUSY_A * 2.0, rel=0.02)
    assert outside <= 3, "U with k = 2 holds in about 95 of 100"


def test_the_uncertainty_is_not_padded() -> None:
    truth_net_j = RAIL_V * (BUSY_A - IDLE_A) * 2.0
    energy = energy_of(measured(step(BUSY_A), gain=1 + 5 * LIMITS.calibration_relative))
    assert energy.net_j is not None and energy.u_net_j is not None
    assert abs(energy.net_j - truth_net_j) > energy.u_net_j, "a gain error of five sigma must show"


def test_twice_the_work_takes_twice_the_energy() -> None:
    once = energy_of(measured(lambda t_s: BUSY_A if 3.0 <= t_s < 4.0 else IDLE_A), 500)
    twice = energy_of(measured(step(BUSY_A), 2), 1000)
    result = additive(once, twice)
    assert result is not None and result[0]
    wrong = additive(once, energy_of(measured(step(BUSY_A + 0.1), 2), 1000))
    assert wrong is not None and not wrong[0]
    with pytest.raises(ValueError, match="2 N"):
        additive(once, once)


def test_work_below_the_resolution_is_not_a_number() -> None:
    energy = energy_of(measured(step(IDLE_A)))
    assert energy.resolvable is False and energy.per_operation_j is None
    assert energy.reason is not None and "not resolvable" in energy.reason


def test_work_that_seems_to_take_less_than_idling_is_no_result() -> None:
    energy = energy_of(measured(step(IDLE_A - 0.2)))
    assert energy.net_j is not None and energy.net_j < 0
    assert energy.resolvable is False and energy.per_operation_j is None


def without_numbers(energy: Energy, reason: str) -> None:
    assert energy.reason is not None and reason in energy.reason
    numbers = (energy.gross_j, energy.net_j, energy.u_net_j, energy.per_operation_j, energy.idle_w)
    assert numbers == (None,) * 5 and energy.resolvable is None


def test_a_gap_a_clip_a_hole_and_a_missing_neighbour_leave_only_a_reason() -> None:
    good = measured(step(BUSY_A))
    middle = next(index for index, sample in enumerate(good) if sample.t_mono_ns > 4 * SECOND)
    gap = [*good]
    gap[middle] = PowerSample(gap[middle].t_mono_ns, None, None, GAP, 0)
    without_numbers(energy_of(gap), "gap inside the block")
    without_numbers(energy_of(measured(step(3.5))), "left the sensor's range")
    without_numbers(energy_of(good[:middle] + good[middle + 20 :]), "without a sample")
    without_numbers(energy_of([s for s in good if s.t_mono_ns < 6 * SECOND]), "do not cover the block")


def test_drifting_idle_power_invalidates_the_block() -> None:
    drifting = measured(lambda t_s: (BUSY_A if 3.0 <= t_s < 5.0 else IDLE_A) + 0.01 * t_s)
    without_numbers(energy_of(drifting), "idle power drifted")


def test_a_block_below_a_second_is_refused() -> None:
    trace = Trace(measured(step(BUSY_A)), LIMITS.period_s)
    short = Span(WORK.start_ns, WORK.start_ns + SECOND // 2)
    without_numbers(block_energy(trace, BEFORE, short, AFTER, 10, LIMITS), "1 s are needed")


def test_the_spread_between_blocks_enters_and_needs_three() -> None:
    blocks = [energy_of(measured(step(BUSY_A), seed)) for seed in range(5)]
    whole = between_blocks(blocks)
    assert whole.net_j == pytest.approx(math.fsum(b.net_j or 0 for b in blocks) / 5)
    assert whole.u_net_j is not None
    # what is common to all blocks does not average away
    assert whole.u_net_j >= 2 * min(b.budget_j["calibration"] for b in blocks)
    uneven = between_blocks([replace(b, net_j=(b.net_j or 0) + k) for k, b in enumerate(blocks)])
    assert whole.blocks == 5 and between_blocks([*blocks, replace(blocks[0], net_j=None)]).blocks == 5
    assert uneven.u_net_j is not None and uneven.u_net_j > 3 * whole.u_net_j
    without_numbers(
        between_blocks(
            [*blocks[:2], block_energy(Trace(measured(step(3.5)), 1e-3), BEFORE, WORK, AFTER, 1000, LIMITS)]
        ),
        "2 of 3 blocks",
    )
