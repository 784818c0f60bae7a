"""Simulator against recordings: the distance, the twins, the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pqdetect import cli, recording
from pqdetect.compare import ATTACK, QUIET, compare, ks_distance, markdown, twin
from pqdetect.errors import RecordingError
from pqdetect.features import FEATURE_NAMES
from pqdetect.feed import column
from pqdetect.recording import Recording
from pqdetect.simulate import AttackSpec, Spec, simulate

FLIGHT = Spec(
    "lab-like",
    3,
    "flood",
    "plain",
    "direct",
    60.0,
    attacks=(AttackSpec("flood", 30.0, 10.0, 300.0, 100, False),),
)


def test_the_distance_of_known_distributions() -> None:
    rng = np.random.default_rng(1)
    one = rng.normal(size=4000)
    assert ks_distance(one, rng.normal(size=4000)) == pytest.approx(0, abs=0.05)
    assert ks_distance(one, one + 1) == pytest.approx(0.383, abs=0.03)  # Φ(½) − Φ(−½)
    assert ks_distance(np.array([1.0, np.nan]), np.array([2.0])) == 1
    assert ks_distance(np.array([np.nan]), np.array([2.0])) is None


def test_a_twin_is_close_and_another_rate_is_not() -> None:
    made = simulate(FLIGHT)
    found = compare([made], twins=2)
    assert {one.condition for one in found} == {QUIET, ATTACK}
    assert len(found) == 2 * len(FEATURE_NAMES)
    by_name = {(one.condition, one.feature): one for one in found}
    assert by_name[ATTACK, "refused"].ks is not None and by_name[ATTACK, "refused"].ks < 0.35
    quiet = by_name[QUIET, "tx_data"]
    assert quiet.lab_median == pytest.approx(quiet.sim_median, abs=2)
    slower = made.counts.copy()
    slower[:, :, column("rx_datagrams")] //= 3
    other = compare([replace(made, counts=slower)], twins=2)
    assert {(one.condition, one.feature): one for one in other}[ATTACK, "rx_peak"].ks == pytest.approx(
        1, abs=0.3
    )


def test_a_twin_has_the_recordings_length_rate_and_attack() -> None:
    made = simulate(FLIGHT)
    spec = twin(made, 0)
    assert spec.duration_s == pytest.approx(60) and spec.ground.tx_rate_hz == pytest.approx(322, rel=0.05)
    (attack,) = spec.attacks
    assert attack.kind == "flood" and attack.rate_pps == pytest.approx(300, rel=0.02)
    assert (attack.start_s, attack.for_s) == (pytest.approx(30, abs=0.1), pytest.approx(10, abs=0.1))


def test_without_recordings_there_is_nothing_to_compare() -> None:
    with pytest.raises(RecordingError):
        compare([])


def test_the_verbs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.main(["simulate", "--split", "validation", "--attacks", "--count", "1", "--out", str(tmp_path)])
        == 0
    )
    assert '"times_real_time"' in capsys.readouterr().out
    (folder,) = tmp_path.iterdir()
    back: Recording = recording.read(folder)
    assert back.truth.source == "simulator" and len(back) > 50
    assert cli.main(["compare-sim", str(folder), "--twins", "1"]) == 0
    table = capsys.readouterr().out
    assert "| no attack | tx_data |" in table and len(table.splitlines()) >= 2 + len(FEATURE_NAMES)
    assert cli.main(["compare-sim", str(tmp_path / "nowhere")]) == cli.EXIT_ENVIRONMENT
    assert markdown([]).startswith("| condition")
