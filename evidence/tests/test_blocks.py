"""What moves whole blocks is taken out of each suite's values, and nothing else is."""

from __future__ import annotations

import math
import random

import pytest

from pqevidence.analysis.blocks import MIN_SUITES_COUNT, without_blocks


def walls(moves: list[float], suites: int, noise: float = 0.0, seed: int = 1) -> dict[str, dict[int, float]]:
    """Suites of 1, 2, 3, … ms on a machine that moves by `moves` (logarithms) from block to block."""
    rng = random.Random(seed)
    return {
        f"s{suite}": {
            block: (suite + 1) * math.exp(move + rng.gauss(0.0, noise)) for block, move in enumerate(moves)
        }
        for suite in range(suites)
    }


def spread(values: list[float]) -> float:
    return max(map(math.log, values)) - min(map(math.log, values))


def test_a_move_of_all_is_taken_out_and_their_mean_stays() -> None:
    steady = without_blocks(walls([0.3, -0.1, 0.1], 12))
    for suite, values in enumerate(steady.values()):
        assert spread(values) == pytest.approx(0.0, abs=1e-12)
        assert values[0] == pytest.approx((suite + 1) * math.exp(0.1))


def test_few_suites_tell_nothing() -> None:
    given = walls([0.3, -0.1, 0.1], MIN_SUITES_COUNT - 1)
    steady = without_blocks(given)
    for suite, cells in given.items():
        assert steady[suite] == pytest.approx(list(cells.values()))
    two_blocks = walls([0.3, -0.1], 12)
    assert without_blocks(two_blocks)["s0"] == pytest.approx(list(two_blocks["s0"].values()))
    assert without_blocks({}) == {}


def test_a_fault_of_one_suite_moves_no_other() -> None:
    given = walls([0.2, 0.0, -0.2], 12)
    given["s5"][1] *= 3.0
    steady = without_blocks(given)
    assert max(spread(values) for suite, values in steady.items() if suite != "s5") < 1e-9
    assert spread(steady["s5"]) > 0.8


def test_a_suite_that_lacks_a_block_stands_at_the_state_of_the_whole_run() -> None:
    given = walls([0.0, 0.0, 0.6], 12)
    del given["s3"][2]
    given["s3"][3] = 4.0  # a block that this suite alone was run in
    for suite in given:
        if suite != "s3":
            given[suite][3] = (int(suite[1:]) + 1) * 1.0
    steady = without_blocks(given)["s3"]
    assert steady == pytest.approx([4.0 * math.exp(0.15)] * 3)


def test_a_suite_keeps_noise_of_its_own_size() -> None:
    shrunk = [
        spread(without_blocks(walls([0.0, 0.0, 0.0], 12, 0.05, seed))["s0"])
        / spread(list(walls([0.0, 0.0, 0.0], 12, 0.05, seed)["s0"].values()))
        for seed in range(200)
    ]
    assert 0.95 < math.exp(math.fsum(map(math.log, shrunk)) / len(shrunk)) < 1.05
