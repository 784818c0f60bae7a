"""Simulating and scoring by tasks: the same arrays, scores and files whoever carries them out."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pqbase.tasks import Here, Runner
from pqbase.workers import Where, runner_of
from pqdetect.cli import main
from pqdetect.evaluation.run import RESULTS, Evaluation
from pqdetect.evaluation.scoring import score_all
from pqdetect.model import load
from pqdetect.recording import read
from pqdetect.simulate import scenarios, simulate
from pqdetect.training import arrays, tasks
from pqdetect.training.data import collect

MODELS = Path(__file__).parents[1] / "models"
RULES = ("threshold", "ewma", "cusum", "any-auth-fail")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of two recordings, so that a few recordings are several tasks."""
    monkeypatch.setattr(tasks, "SIMULATED", 2)
    monkeypatch.setattr(tasks, "SCORED", 2)


def test_parts_laid_end_to_end_are_the_whole(small: None) -> None:
    specs = list(islice(scenarios("validation"), 5))
    whole = collect(simulate(spec) for spec in specs)
    parts = tasks.simulated(specs, Here(), None)
    assert parts.digest == whole.digest and len(whole.truth.episodes) > 0
    assert (parts.spans, parts.kinds) == (whole.spans, whole.kinds)
    assert parts.truth.episodes == whole.truth.episodes
    assert np.array_equal(parts.truth.scenario, whole.truth.scenario)
    assert parts.truth.scenario.dtype == whole.truth.scenario.dtype
    assert arrays.packed(parts) == arrays.packed(whole) == arrays.packed(arrays.opened(arrays.packed(whole)))


def test_scores_by_tasks_are_those_of_the_models(small: None) -> None:
    data = collect(simulate(spec) for spec in islice(scenarios("validation"), 5))
    got = tasks.scored({name: MODELS / name for name in RULES}, data, "test", Here(), None)
    want = score_all({name: load(MODELS / name).scorer for name in RULES}, data.rows, data.spans)
    assert set(got) == set(RULES)
    assert all(np.array_equal(got[name], want[name]) for name in RULES)


def test_a_cascade_takes_its_stages_along() -> None:
    content = tasks.files([MODELS / "cascade"])
    stages = json.loads((MODELS / "cascade/card.json").read_text())["stages"]
    assert set(content) == {"cascade", stages["first"], stages["second"]}
    assert set(content[stages["first"]]) == {"card.json", "model.onnx"}


def evaluated(folder: Path, runner: Runner) -> dict[str, bytes]:
    """Every file of an evaluation of the rules."""
    for name in RULES:
        (folder / "models" / name).mkdir(parents=True)
        card = (MODELS / name / "card.json").read_bytes()
        (folder / "models" / name / "card.json").write_bytes(card)
    record = folder.parent / "record"  # of no training: the reason names it
    evaluation = Evaluation(folder / "models", folder / "work", folder / "out", 0.005, record, runner)
    evaluation.run([])
    assert not (folder / "work" / "tasks").exists()
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}


def test_an_evaluation_by_workers_is_the_same(small: None, tmp_path: Path) -> None:
    here = evaluated(tmp_path / "here", Here())
    with runner_of(Where(workers=2), tasks.say) as runner:
        there = evaluated(tmp_path / "there", runner)
    assert RESULTS in here and len(here) > 5
    assert there == here


def test_simulated_recordings_by_workers_are_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", "--count", "3", "--out"]
    assert main([*words, str(tmp_path / "here")]) == 0
    here = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main([*words, str(tmp_path / "there"), "--workers", "2"]) == 0
    there = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for one, other in zip(here, there, strict=True):
        assert one["cpu_s"] > 0 and other["cpu_s"] is None and other["times_real_time"] is None
        assert {**one, "cpu_s": None, "times_real_time": None} == other
        folders = [tmp_path / side / one["scenario_id"] for side in ("here", "there")]
        assert all(
            (folders[0] / path.name).read_bytes() == path.read_bytes() for path in folders[1].iterdir()
        )
        assert len(read(folders[1])) == one["windows"]


@pytest.mark.parametrize("verb", ["simulate", "evaluate"])
def test_wrong_workers_are_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--workers", "0"]) == 2
    assert "pqdetect: --workers 0 is no number of workers" in capsys.readouterr().err
