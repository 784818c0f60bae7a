"""Figures of the running lab: attack by attack, theme by theme, campaigns; and the tables made of them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pqdetect.decide import Rule
from pqdetect.errors import DetectError
from pqdetect.evaluation import degraded, figures, lab, live, live_tables
from pqdetect.features import FEATURE_NAMES
from pqdetect.recording import Recording
from pqdetect.simulate import AttackSpec, GroundSpec, LinkSpec, Spec, simulate
from pqdetect.training.data import Dataset, collect

RULES = {"any": {"attack": Rule(1.0, 1.0, hold=1), "degraded": Rule(1.0, 1.0)}}


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    """A quiet flight and two with the same attack."""
    quiet = Spec("q", 3, "none", "quiet", "direct", 30.0, LinkSpec(), GroundSpec())
    hit = Spec(
        "a",
        4,
        "forged",
        "t",
        "direct",
        30.0,
        LinkSpec(),
        GroundSpec(),
        attacks=(AttackSpec("forged", 12.0, 6.0, 500.0, 120, False),),
    )
    return [simulate(quiet), simulate(hit), simulate(replace(hit, scenario_id="b", seed=5))]


def scores_of(data: Dataset) -> dict[str, np.ndarray]:
    refused = np.nan_to_num(data.rows[:, FEATURE_NAMES.index("auth_failed")])
    return {"any": np.stack([refused, refused], axis=1).astype(np.float32)}


def test_attacks_are_told_with_their_loss_and_every_delay(recordings: list[Recording]) -> None:
    data = collect(recordings)
    alarms = live.alarms_of(scores_of(data), RULES, data.truth)
    (row,) = live.attacks(alarms, data)
    assert (row["kind"], row["profile"], row["episodes"]) == ("forged", "direct", 2)
    assert len(row["loss"]) == 2 and all(0 <= loss <= 1 for loss in row["loss"])
    assert len(row["delays_s"]["any"]) == 2 and all(0 < d <= 1.2 for d in row["delays_s"]["any"])
    blind = live.attacks({"any": np.zeros(len(data.rows), np.bool_)}, data)
    assert blind[0]["delays_s"]["any"] == [None, None]


def test_what_was_no_attack_is_told_with_its_alarms(recordings: list[Recording]) -> None:
    data = collect(recordings)
    alarms = np.zeros(len(data.rows), np.bool_)
    alarms[[5, 6, 20]] = True  # two alarms in the quiet flight
    (row,) = live.quiet({"any": alarms}, data)
    assert (row["kind"], row["recordings"], row["minutes"]) == ("quiet", 1, 0.5)
    assert row["false"] == {"any": 2}


def test_every_feature_is_held_against_twins(recordings: list[Recording]) -> None:
    told = live.against_simulator(recordings[:2])
    assert {row["feature"] for row in told} == set(FEATURE_NAMES)
    assert all(row["ks"] is None or 0 <= row["ks"] <= 1 for row in told)


def test_the_trade_of_degraded_over_levels(recordings: list[Recording]) -> None:
    data = collect(recordings)
    truth = replace(
        data.truth,
        degraded=np.arange(len(data.rows)) % 10 == 4,
        degraded_known=np.ones(len(data.rows), np.bool_),
    )
    scores = np.where(truth.degraded, 0.9, np.linspace(0, 0.8, len(data.rows))).astype(np.float64)
    points = degraded.curve(scores, Rule(0.5, 0.25), truth)
    assert [p["level"] for p in points] == sorted((p["level"] for p in points), reverse=True)
    # every stretch scores above every other window: some level is right about all
    best = degraded.nearest(points)
    assert best is not None and (best["recall"], best["precision"]) == (1.0, 1.0)
    assert degraded.nearest([]) is None
    drawn = figures.degraded({"threshold": points}, "test")
    assert "polyline" in drawn and "<title>threshold</title>" in drawn


def test_a_curve_is_what_the_best_level_finds_at_no_more_alarms() -> None:
    found = [(0.0, 0.1), (0.0, 0.6), (0.2, 0.5), (0.3, 0.9), (5.0, 0.9), (7.0, 0.2), (None, 1.0)]
    points = [{"false_alarms_per_h": rate, "recall_visible": share} for rate, share in found]
    steps = figures.best_within(points)
    assert steps == [(0.0, 0.6), (0.3, 0.6), (0.3, 0.9), (7.0, 0.9)]
    assert figures.best_within(points[:1]) == [(0.0, 0.1)]
    assert figures.best_within([]) == figures.best_within(points[-1:]) == []


# ---------------------------------------------------------------------- campaigns

COLUMNS = {
    "ring": "lab", "verdict": "pass", "history": "cold", "due_count": "5", "verdict_count": "5",
    "deadline_missed_count": "0", "latency_max_ms": "150", "false_alarm_count": "0", "episode_count": "0",
    "detected_count": "0", "delay_s": "", "canary_raised": "true", "canary_delay_s": "0.3", "rss_mb": "32",
}  # fmt: skip


def bundle(root: Path) -> Path:
    """Ten watched cells, two attacked ones, and two without a detector."""
    rows = [
        COLUMNS
        | {
            "cell_id": f"x{n}",
            "condition": "xgboost",
            "detector": "xgboost",
            "model": "xgboost-5w",
            "cpu_mean_pct": f"0.{n}",
            "others_cpu_ms": "0",
        }
        for n in range(10)
    ]
    hit = {"condition": "hit", "episode_count": "1", "false_alarm_count": "1"}
    rows += [rows[0] | hit | {"cell_id": "h0", "detected_count": "1", "delay_s": "0.5"}]
    rows += [rows[0] | hit | {"cell_id": "h1"}]
    bare = {"condition": "baseline", "detector": "none", "model": "", "cpu_mean_pct": "0"}
    rows += [rows[0] | bare | {"cell_id": "b0"}, rows[0] | bare | {"cell_id": "b1", "verdict": "invalid"}]
    data = root / "run" / "data"
    (data / "analysis").mkdir(parents=True)
    (data / "cells" / "h0").mkdir(parents=True)
    asked = {"episode": 1, "kind": "forged", "rate_pps": 20000.0, "for_s": 1.5, "path": "direct"}
    (data / "cells" / "h0" / "attack.ndjson").write_text('{"schema":"s"}\n' + json.dumps(asked) + "\n")
    with (data / "analysis" / "detectors.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    run = {"run_id": "r", "scenario": "s", "loadavg_start": [1.23, 1, 1], "loadavg_end": [4.0, 1, 1]}
    (data / "run.json").write_text(json.dumps(run))
    return root / "run"


def test_a_campaign_is_read_by_condition(tmp_path: Path) -> None:
    (told,) = lab.read([bundle(tmp_path)])["bundles"]
    assert (told["cells"], told["loadavg"]) == ({"invalid": 1, "pass": 13}, [1.2, 4.0])
    watched, hit, bare = told["conditions"]
    assert (watched["n"], watched["attack"], watched["cpu_pct"]["value"]) == (10, None, 0.45)
    # of ten values one lies beyond each bound
    assert [watched["cpu_pct"][bound] for bound in ("low", "high", "max")] == [0.1, 0.8, 0.9]
    assert (watched["false_alarms"]["count"], watched["false_alarms"]["hours"]) == (0, round(30 / 3600, 2))
    assert (hit["attack"]["kind"], hit["found"]["value"], hit["delay_s"]["value"]) == ("forged", 0.5, 0.5)
    assert hit["cpu_pct"]["what"] == "range"
    assert (bare["others_cpu_ms_max"], bare["n"], "model" in bare) == (0.0, 1, False)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(DetectError, match=r"no bundle of a campaign with detectors.*no run\.json"):
        lab.read([tmp_path])
    unwatched = bundle(tmp_path)
    (unwatched / "data/analysis/detectors.csv").unlink()
    with pytest.raises(DetectError, match=r"it has no detectors\.csv") as told:
        lab.read([unwatched])
    assert "--live" in told.value.hint


def test_tables_hold_what_was_read(tmp_path: Path) -> None:
    text = live_tables.lab({"lab": lab.read([bundle(tmp_path)])})
    assert "| `xgboost` | `xgboost-5w`, cold | – | 10 | 0.45 (0.10–0.80) | 0.90 | 32.0 |" in text
    assert "| 50 of 50, 0 late | 150 (150–150) |" in text
    assert "forged, 20000/s" in text and "50.0 %" in text
    assert "In its 1 cells without a detector" in text and "0.000 ms" in text
    assert live_tables.lab({}) == live_tables.NO_BUNDLES
    assert live_tables.live({"sets": {}}) == live_tables.simulator({"sets": {}}) == live_tables.NO_RECORDINGS


def test_features_far_from_the_simulator_are_named() -> None:
    def row(feature: str, ks: float | None) -> dict[str, object]:
        return {
            "condition": "no attack",
            "feature": feature,
            "ks": ks,
            "lab_median": 13.0,
            "sim_median": 9.0,
            "lab_p95": None,
            "sim_p95": 12.0,
            "lab_count": 1200,
            "sim_count": 6000,
        }

    none = live_tables.simulator({"sets": {"live": {"simulator": [row("tx_peak", None)]}}})
    assert none == "**no attack**: these recordings hold no whole window of it."
    part = {"simulator": [row("tx_peak", 0.7), row("rx_bytes", 0.05), row("udp_errors", None)]}
    text = live_tables.simulator({"sets": {"live": part}})
    assert "1,200 windows of the lab" in text and "Of 2 features 1 lie within 0.1" in text
    assert "| tx_peak | 0.70 | 13 | 9 | – | 12 |" in text and "rx_bytes" not in text
