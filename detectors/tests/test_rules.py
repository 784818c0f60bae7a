"""Trivial rules and the cascade: by hand, and streams against whole recordings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pqdetect.decide import Scores
from pqdetect.features import FEATURE_NAMES, FeatureStream
from pqdetect.model import ModelError, load
from pqdetect.models import card as cards
from pqdetect.models.cascade import Cascade
from pqdetect.models.rules import CUSUM_CEILING, RuleModel, Signal


def rows(**columns: list[float]) -> np.ndarray:
    made = np.zeros((len(next(iter(columns.values()))), len(FEATURE_NAMES)), np.float32)
    for name, values in columns.items():
        made[:, FEATURE_NAMES.index(name)] = values
    return made


def attack(signal: Signal, given: np.ndarray) -> list[float]:
    return RuleModel(signal, signal).many(given)[:, 0].tolist()


def test_level_ewma_and_cusum_by_hand() -> None:
    given = rows(refused=[0, 4, float("nan"), 2])
    assert attack(Signal("level", "refused"), given) == [0, 4, 4, 2]
    assert attack(Signal("ewma", "refused", gain=0.5), given) == [0, 2, 2, 2]
    cusum = Signal("cusum", "refused", drift=1.0, mean=1.0, std=0.5)
    # (4 − 1)/0.5 − 1 = 5, then (2 − 1)/0.5 − 1 = 1 more; what is below the drift takes away, never below 0.
    assert attack(cusum, given) == [0, 5, 5, 6]
    assert attack(cusum, rows(refused=[1000.0])) == [CUSUM_CEILING]


def test_loss_over_three_windows_and_silence() -> None:
    given = rows(missing=[0, 5, 0, 0, 0], authentic=[10, 5, 10, 0, 0])
    assert attack(Signal("loss3"), given) == pytest.approx([0, 0.25, 5 / 30, 0.25, 0])
    quiet = rows(missing=[0, 0, 0, 0], authentic=[3, 0, 0, 0])
    assert attack(Signal("loss3", quiet=True), quiet) == [0, 0, 0, 1]


@pytest.mark.parametrize("method", ["level", "ewma", "cusum", "loss3"])
def test_a_rule_streams_what_it_says_of_a_recording(method: str) -> None:
    rng = np.random.default_rng(3)
    given = rng.poisson(2.0, (40, len(FEATURE_NAMES))).astype(np.float32)
    signal = Signal(method, "" if method == "loss3" else "bad_header", gain=0.3, drift=0.2)
    model, stream = RuleModel(signal, signal), FeatureStream()
    whole = model.many(given)
    model.reset()
    for k, row in enumerate(given):
        stream.push_row(k, row)
        assert tuple(model.step(stream)) == pytest.approx(tuple(whole[k]))


def test_signals_that_watch_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="no feature"):
        Signal("level", "payload_fd")
    with pytest.raises(ValueError, match="method"):
        Signal("guess", "refused")


class Fixed:
    """A stage with given scores, which counts how often it is asked."""

    def __init__(self, values: list[float]) -> None:
        self.values, self.asked = values, 0

    def reset(self) -> None:
        self.asked = 0

    def step(self, stream: FeatureStream) -> Scores:
        self.asked += 1
        assert stream.last_k is not None
        return Scores(self.values[stream.last_k], 0.5)

    def many(self, given: np.ndarray) -> np.ndarray:
        return np.array([[value, 0.5] for value in self.values], np.float32)


@pytest.mark.parametrize(("join", "told"), [("confirm", [0.025, 0.2, 0.6]), ("mean", [0.025, 0.5, 0.75])])
def test_the_second_stage_is_asked_from_the_trigger_on(join: str, told: list[float]) -> None:
    first, second = Fixed([0.1, 0.8, 0.6]), Fixed([0.9, 0.2, 0.9])
    model, stream = Cascade(first, second, 0.3, join), FeatureStream()
    given = np.zeros((3, len(FEATURE_NAMES)), np.float32)
    assert model.many(given)[:, 0].tolist() == pytest.approx(told)
    for k, row in enumerate(given):
        stream.push_row(k, row)
        assert model.step(stream).attack == pytest.approx(told[k])
    assert (first.asked, second.asked) == (3, 2)


def card_of(folder: Path, **changes: object) -> Path:
    rule = {"on": 3.0, "off": 3.0, "need": 1, "among": 1, "hold": 5}
    signal = {"method": "level", "feature": "refused"}
    card = {
        "schema": cards.SCHEMA,
        "name": folder.name,
        "kind": "rule",
        "features": "pqdetect/features/v1",
        "history_windows": 1,
        "first_verdict_windows": 1,
        "rules": {"attack": rule, "degraded": rule},
        "signals": {"attack": signal, "degraded": signal},
    }
    cards.write(folder, card | changes, None)
    return folder


def test_a_rule_is_a_model_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card_of(tmp_path / "simple")
    (tmp_path / "default.json").write_text(json.dumps({"default": "simple"}))
    monkeypatch.setenv("PQ_MODELS", str(tmp_path))
    model, stream = load(), FeatureStream()
    stream.push_row(0, rows(refused=[7])[0])
    assert (model.name, model.step(stream)) == ("simple", Scores(7.0, 7.0))
    assert model.rules["attack"].on == 3.0
    assert len(model.sha256) == 64


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schema": "pqdetect/card/v0"}, "is pqdetect/card/v0"),
        ({"kind": "oracle"}, "of kind oracle"),
        ({"features": "pqdetect/features/v0"}, "was trained on"),
        ({"rules": {"attack": {}, "degraded": {}}}, "is no model card"),
        ({"signals": {"attack": {"method": "level", "feature": "none"}}}, "how to run it"),
        ({"kind": "trees", "sha256": "0"}, "cannot be read"),
    ],
    ids=["schema", "kind", "features", "rules", "signals", "graph"],
)
def test_a_card_that_cannot_be_run_says_why(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        load(card_of(tmp_path / "bad", **changes))


def test_a_graph_that_is_not_the_cards_is_refused(tmp_path: Path) -> None:
    folder = card_of(tmp_path / "trees", kind="trees", sha256="0" * 64)
    (folder / cards.GRAPH).write_bytes(b"another")
    with pytest.raises(ModelError, match="checksum"):
        load(folder)


def test_an_unknown_name_lists_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card_of(tmp_path / "simple")
    monkeypatch.setenv("PQ_MODELS", str(tmp_path))
    with pytest.raises(ModelError, match="simple"):
        load("complex")


@pytest.mark.parametrize(
    "signal", [Signal("ewma", "refused", gain=0.5), Signal("cusum", "refused"), Signal("loss3")]
)
def test_a_rule_and_a_cascade_go_back_to_their_mark(signal: Signal) -> None:
    given = rows(refused=[3.0, 1.0, 90.0, 2.0], missing=[1.0, 0.0, 5.0, 1.0], authentic=[3.0, 4.0, 0.0, 3.0])
    first, second, stream = RuleModel(signal, signal), RuleModel(signal, signal), FeatureStream()
    model = Cascade(first, second, 0.0, "mean")
    for k in (0, 1):
        stream.push_row(k, given[k])
        model.step(stream)
    back = stream.mark(), model.mark()
    stream.push_row(2, given[2])
    model.step(stream)
    for restore in back:
        restore()
    stream.push_row(3, given[3])
    expected = RuleModel(signal, signal).many(given[[0, 1, 3]])[-1, 0]
    assert model.step(stream).attack == pytest.approx(float(expected))
