"""What a training run says and keeps, and how shuffled labels are judged; without its libraries."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from pqdetect.commands import evaluate
from pqdetect.decide import Rule
from pqdetect.errors import DetectError
from pqdetect.evaluation.run import Evaluation, find_recordings
from pqdetect.simulate import GroundSpec, LinkSpec, Spec
from pqdetect.training import data, store, tune

MODELS = Path(__file__).parents[1] / "models"


@pytest.mark.parametrize(
    ("values", "passed", "told"),
    [
        ([0.52, 0.44, 0.6], True, "mean AUROC 0.520 of 3, chance"),
        ([0.41, None, 0.42], True, "mean AUROC 0.415 of 2, chance"),
        ([0.8, 0.75], False, "mean AUROC 0.775 of 2, NOT chance: labels leak"),
        ([0.3, 0.2], False, "NOT chance"),
        ([None], None, "not measured (no window of an attack)"),
    ],
)
def test_shuffled_labels_are_judged(values: list[float | None], passed: bool | None, told: str) -> None:
    text, verdict = evaluate.verdict({"auroc": values})
    assert verdict is passed and told in text


@pytest.mark.parametrize(
    ("tiny", "shuffled", "code"),
    [
        (True, {"auroc": [0.5]}, 0),
        (True, {"auroc": [0.9]}, 3),
        (False, {"auroc": [0.9]}, 3),
        (True, {"auroc": None, "reason": "training.json: gone"}, 3),
        (False, {"auroc": None, "reason": "training.json: gone"}, 0),
    ],
)
def test_the_verdict_is_the_exit_code(
    tiny: bool,
    shuffled: dict[str, object],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Judged:
        def __init__(self, *given: object) -> None:
            pass

        def run(self, *given: object) -> dict[str, object]:
            won = {"best": "tst", "default": "ewma", "rule": "r"}
            return {"winner": won, "shuffled_labels": shuffled}

    monkeypatch.setattr("pqdetect.evaluation.run.Evaluation", Judged)
    parser = argparse.ArgumentParser()
    evaluate.add(parser)
    given = ["--work", str(tmp_path), "--models", str(tmp_path)]
    args = parser.parse_args([*given, "--tiny"] if tiny else given)
    assert evaluate.run(args) == code
    told = capsys.readouterr().out
    assert "tst finds most; default: ewma" in told and "shuffled labels: " in told
    assert ("say nothing of the models" in told) is tiny


def test_without_models_it_names_the_command_that_makes_them(tmp_path: Path) -> None:
    for scale, hint in ((0.02, "./pqdetect train --tiny"), (1.0, "./pqdetect train")):
        with pytest.raises(DetectError, match="no model") as told:
            Evaluation(tmp_path, tmp_path, tmp_path, scale)
        assert told.value.hint == hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_takes_no_files_is_named_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shutil.copytree(MODELS / "threshold", tmp_path / "models/threshold")  # a rule needs no library
    (tmp_path / "closed_file").mkdir(0o555)
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "closed_file"):
        evaluation = Evaluation(tmp_path / "models", tmp_path / "work", folder, 1.0)
        with pytest.raises(DetectError, match="file") as told:
            evaluation.run([])
        assert "may write" in told.value.hint


def test_a_folder_without_recordings_names_what_writes_them(tmp_path: Path) -> None:
    with pytest.raises(DetectError, match="holds no recording") as told:
        find_recordings([tmp_path])
    assert "./pqlab recording" in told.value.hint


def test_validation_figures_are_words() -> None:
    figures = {
        "recall_visible": 0.875,
        "recall_visible_loss_30pct": None,
        "false_alarms_per_h": 0.6,
        "attack_free_hours": 1.6,
        "median_delay_s": None,
        "budget_per_h": 0.3,
        "within_budget": False,
    }
    rule = Rule(0.5, 0.25)
    assert tune.attack_told(tune.Tuned(rule, figures)) == (
        "ATTACK: 87.5 % of the visible episodes found, median delay ∞, 0.60 false alarms/h in 1.6 h "
        "(over the 0.3 allowed)"
    )
    known = figures | {"recall_visible_loss_30pct": 1.0, "median_delay_s": 0.42, "within_budget": True}
    assert tune.attack_told(tune.Tuned(rule, known)) == (
        "ATTACK: 87.5 % of the visible episodes found (100.0 % with ≥ 30 % loss), median delay 0.4 s, "
        "0.60 false alarms/h in 1.6 h"
    )
    stretches = tune.Tuned(rule, {"recall": 0.5, "precision": 0.25, "stretches": 8})
    told = tune.degraded_told(stretches)
    assert told == "DEGRADED: 50.0 % of 8 stretches found, 25.0 % of the alarms right"


def test_kept_recordings_are_of_this_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = []

    def flights(split: str, scale: float) -> list[Spec]:
        made.append(split)
        return [Spec("q", 3, "none", "quiet", "direct", 12.0, LinkSpec(), GroundSpec())]

    monkeypatch.setattr(store, "scenarios", flights)
    first = store.dataset("test", 1.0, tmp_path)
    again = store.dataset("test", 1.0, tmp_path)
    assert made == ["test"] and np.array_equal(first.rows, again.rows, equal_nan=True)
    monkeypatch.setattr(store, "code_sha256", lambda: "0" * 64)  # another simulator
    store.dataset("test", 1.0, tmp_path)
    assert made == ["test", "test"]


def test_the_code_of_a_recording_is_whole() -> None:
    assert len(store.code_sha256()) == 64
    root = Path(store.__file__).parents[1]
    assert all(list(root.glob(part)) for part in store._MADE_BY)


def test_what_is_over_at_once_is_not_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(data.time, "monotonic", lambda: now[0])
    quick = data.Progress("quick", 10)
    quick.at(10)
    assert capsys.readouterr().err == ""
    slow = data.Progress("slow", 10)
    for done, at in ((2, 106.0), (3, 107.0), (10, 108.0)):
        now[0] = at
        slow.at(done)
    told = capsys.readouterr().err.splitlines()
    assert told == ["  slow: 2 of 10, 24 s left", "  slow: 10 of 10, took 8 s"]
