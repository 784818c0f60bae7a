"""Metrics on streams small enough to count by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pqdetect.evaluation.compare import difference, over_seeds, winner
from pqdetect.evaluation.intervals import poisson_cdf, poisson_lower, poisson_upper, wilson
from pqdetect.evaluation.metrics import auroc, degraded_report, detected_within_s, outcome, rate, recall
from pqdetect.evaluation.truth import GRACE_WINDOWS, Episode, Truth, runs


def truth_of(windows: int, episodes: list[tuple[int, int]], starts: tuple[int, ...] = (0,)) -> Truth:
    """Recordings of together ``windows`` windows with visible episodes [first, last]."""
    attack = np.zeros(windows, dtype=np.bool_)
    for first, last in episodes:
        attack[first : last + 1] = True
    began = np.zeros(windows, dtype=np.bool_)
    began[list(starts)] = True
    scenario = (np.cumsum(began) - 1).astype(np.int32)
    none = np.zeros(windows, dtype=np.bool_)
    return Truth(
        tuple(f"s{n}" for n in range(len(starts))),
        scenario,
        began,
        attack,
        none,
        none.copy(),
        ~none,
        tuple(Episode(int(scenario[a]), a, b, "flood", 100.0, "direct", 0.5, 0.4) for a, b in episodes),
    )


def marks(windows: int, *spans: tuple[int, int]) -> np.ndarray:
    flags = np.zeros(windows, dtype=np.bool_)
    for first, last in spans:
        flags[first : last + 1] = True
    return flags


def test_delay_runs_from_the_first_datagram_to_the_end_of_the_window() -> None:
    truth = truth_of(100, [(20, 29), (50, 59)])
    result = outcome(marks(100, (20, 22), (53, 70)), truth)
    # 0.4 s of the first window, and then three more windows.
    assert result.delays_s.tolist() == pytest.approx([0.4, 0.4 + 3 * 0.6])
    assert result.false_alarms == 0


def test_an_alarm_that_was_there_before_is_false_and_finds_nothing() -> None:
    result = outcome(marks(100, (10, 60)), truth_of(100, [(20, 29)]))
    assert result.false_alarms == 1
    assert math.isinf(result.delays_s[0])


def test_an_alarm_in_the_grace_time_is_neither_right_nor_false_and_later_it_is_false() -> None:
    truth = truth_of(100, [(20, 29)])
    in_grace = outcome(marks(100, (29 + GRACE_WINDOWS, 40)), truth)
    assert (in_grace.false_alarms, math.isinf(in_grace.delays_s[0])) == (0, True)
    assert outcome(marks(100, (30 + GRACE_WINDOWS, 40)), truth).false_alarms == 1


def test_an_alarm_standing_since_the_last_attack_finds_the_next_at_once() -> None:
    result = outcome(marks(100, (22, 60)), truth_of(100, [(20, 29), (50, 59)]))
    assert result.delays_s.tolist() == pytest.approx([0.4 + 2 * 0.6, 0.4])
    assert result.false_alarms == 0


def test_runs_and_alarms_end_with_their_recording() -> None:
    truth = truth_of(100, [(40, 49)], starts=(0, 50))
    assert [part.tolist() for part in runs(marks(100, (48, 52)), truth.starts)] == [[48, 50], [49, 52]]
    # The alarm at the beginning of the next recording is its own, and no grace time reaches there.
    assert outcome(marks(100, (50, 52)), truth).false_alarms == 1


def test_hidden_attacks_count_on_neither_side() -> None:
    truth = truth_of(100, [])
    hidden = replace(truth, hidden=marks(100, (20, 29)))
    assert outcome(marks(100, (22, 23)), hidden).false_alarms == 0
    assert hidden.attack_free_hours == pytest.approx((100 - 10 - GRACE_WINDOWS) * 0.6 / 3600)


def test_a_missed_episode_has_infinite_delay_in_every_quantile() -> None:
    delays = np.array([0.6, math.inf, 1.2, math.inf])
    assert detected_within_s(delays, 0.5) == 1.2
    assert detected_within_s(delays, 0.9) is None


def test_no_episode_is_null_with_a_reason_and_never_zero() -> None:
    result = outcome(marks(10), truth_of(10, []))
    share = recall(result, np.zeros(0, dtype=np.bool_))
    assert share["value"] is None
    assert share["reason"]
    assert rate(0, 0.0)["value"] is None


def test_auroc_counts_pairs_and_halves_ties() -> None:
    scores, positive = np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, True, False, True])
    # Pairs (positive, other): .4>.1, .4=.4 (half), .9>.1, .9>.4.
    assert auroc(scores, positive) == pytest.approx(3.5 / 4)
    assert auroc(scores, np.ones(4, dtype=np.bool_)) is None


def test_degraded_by_stretches_and_windows() -> None:
    base = truth_of(100, [])
    truth = replace(base, degraded=marks(100, (10, 19), (60, 69)))
    report = degraded_report(marks(100, (12, 15), (80, 81)), truth)
    assert [report[key]["value"] for key in ("recall", "precision", "window_recall", "window_precision")] == [
        0.5,
        0.5,
        pytest.approx(4 / 20),
        pytest.approx(4 / 6, abs=1e-4),
    ]


def test_degraded_alarms_where_nothing_is_known_do_not_count() -> None:
    base = truth_of(100, [])
    truth = replace(base, degraded=marks(100, (10, 19)), degraded_known=marks(100, (0, 50)))
    assert degraded_report(marks(100, (12, 15), (80, 81)), truth)["precision"]["value"] == 1.0


def test_wilson_holds_published_values() -> None:
    # Newcombe 1998, table I, method 3: 81 of 263, and 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(0, 0) is None


def test_poisson_bounds_hold_known_values_and_their_own_definition() -> None:
    # No event: the 95 % upper bound is −ln 0.05; Garwood's two-sided 90 % interval of 10 is 5.43 to 16.96.
    assert poisson_upper(0) == pytest.approx(-math.log(0.05))
    assert (poisson_lower(10), poisson_upper(10)) == (
        pytest.approx(5.4254, abs=1e-3),
        pytest.approx(16.9622, abs=1e-3),
    )
    assert poisson_cdf(103, poisson_upper(103)) == pytest.approx(0.05)


def test_paired_difference_takes_scenarios_as_units() -> None:
    truth = truth_of(400, [(10, 12), (110, 112), (210, 212), (310, 312)], starts=(0, 100, 200, 300))
    all_found, half = outcome(truth.attack, truth), outcome(marks(400, (10, 12), (110, 112)), truth)
    told = difference(all_found, half, truth)
    # Differences 0, 0, 1, 1: mean ½, standard error √(4/3 · 4 · ¼)/4.
    assert told["difference"] == 0.5
    assert told["se"] == pytest.approx(math.sqrt(4 / 3) / 4, abs=1e-5)
    assert told["scenarios"] == 4


def test_of_two_alike_the_cheaper_is_the_default() -> None:
    truth = truth_of(400, [(10, 12), (110, 112), (210, 212), (310, 312)], starts=(0, 100, 200, 300))
    best, less = outcome(truth.attack, truth), outcome(marks(400, (10, 12), (110, 112), (210, 212)), truth)
    told = winner({"tst": best, "threshold": less}, truth)
    assert (told["best"], told["default"]) == ("tst", "threshold")
    nothing = outcome(marks(400), truth)
    # Every scenario differs by the same: no error to count in, and no doubt either.
    assert winner({"tst": best, "threshold": nothing}, truth)["default"] == "tst"


def test_over_seeds() -> None:
    told = over_seeds([0.9, 0.92, 0.94])
    assert (told["n"], told["mean"]) == (3, pytest.approx(0.92))
    assert told["se"] == pytest.approx(0.02 / math.sqrt(3), abs=1e-5)
    assert over_seeds([0.9])["se"] is None


def test_long_stretches_are_counted_apart() -> None:
    truth = replace(truth_of(100, []), degraded=marks(100, (10, 10), (60, 64)))
    report = degraded_report(marks(100, (61, 62)), truth)
    assert (report["recall"]["value"], report["recall_long"]["value"]) == (0.5, 1.0)
