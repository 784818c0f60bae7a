"""The detectors are trained and judged in their image, one small command each: what is committed stays."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any
from xml.etree import ElementTree

import pytest

from .conftest import ROOT, Finished, run

pytestmark = [pytest.mark.e2e, pytest.mark.beside_computes]

TINY = ROOT / ".state/detectors/tiny"
STALE = TINY / "stale"
LEARNED = {"xgboost-5w", "xgboost", "tst-p8", "tst"}
COMMITTED = ("detectors/models", "detectors/evaluation", "docs/DETECTORS.md", "docs/DETECTORS-LIVE.md")

CALM_HOUR = """
import sys
from pqdetect.compare import rows_of
from pqdetect.decide import decide
from pqdetect.model import load
from pqdetect.simulate import AttackSpec, GroundSpec, LinkSpec, Spec, simulate

attack = AttackSpec("replay", 1800.0, 30.0, 500.0, 100, through_link=False)
for what, attacks in (("calm", ()), ("attacked", (attack,))):
    ground, link = GroundSpec(rekey_every_s=1e6), LinkSpec(duplicate_pct=20.0)
    spec = Spec(what, 1, "none", "plain", "direct", 3600.0, ground=ground, link=link, attacks=attacks)
    rows = rows_of(simulate(spec))
    for name in sys.argv[1:]:
        model = load(name)
        scores = model.many(rows).astype(float)
        starts = [place == 0 for place in range(len(rows))]
        print(what, name, int(decide(scores[:, 0], starts, model.rules["attack"]).sum()))
"""
"""One hour in which the way doubles a fifth of the packets, and the same with an attack: windows in alarm."""


def committed() -> dict[str, tuple[str, int]]:
    """Checksum and owner of every file that a whole training run would write again."""
    found = {}
    for name in COMMITTED:
        top = ROOT / name
        for path in [top, *top.rglob("*")]:
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(ROOT))] = (hashlib.sha256(content).hexdigest(), path.stat().st_uid)
    return found


@pytest.fixture(scope="module")
def image() -> None:
    # Beside its own packages it comes from the base image alone.
    done = run("./images/build.sh", "base", "detector-train", "detector-tst", timeout_s=900)
    assert done.code == 0, done.text[-3000:]


@pytest.fixture(scope="module")
def before(image: None) -> dict[str, tuple[str, int]]:
    return committed()


@pytest.fixture(scope="module")
def trained(before: dict[str, tuple[str, int]]) -> Finished:
    TINY.mkdir(parents=True, exist_ok=True)
    STALE.write_text("of an earlier check")
    done = run("./pqdetect", "train", "--tiny")
    assert done.code == 0, done.text[-3000:]
    return done


@pytest.fixture(scope="module")
def judged(trained: Finished) -> Finished:
    done = run("./pqdetect", "evaluate", "--tiny")
    assert done.code == 0, done.text[-3000:]
    return done


@pytest.fixture(scope="module")
def results(judged: Finished) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TINY / "evaluation/results.json").read_text())
    return found


def test_it_says_where_the_models_are(trained: Finished) -> None:
    last = trained.err.rstrip().splitlines()[-1]
    told = [ROOT / word.rstrip(",") for word in last.split("done: ")[1].split()]
    assert told == [TINY / "models", TINY / "evaluation/training.json"]
    assert all(path.exists() for path in told)
    assert {path.parent.name for path in (TINY / "models").glob("*/model.onnx")} == LEARNED


@pytest.mark.parametrize("where", ["training", "flying"])
def test_the_models_say_what_the_trained_ones_said(trained: Finished, where: str) -> None:
    models = TINY / "models"
    if where == "training":
        done = run("./pqdetect", "selftest", "--models", str(models))
    else:
        done = run(
            "docker",
            "run",
            "--rm",
            "--network",
            "none",
            "--read-only",
            "--cap-drop",
            "ALL",
            "--tmpfs",
            "/tmp",
            "--user",
            f"{models.stat().st_uid}:{os.getgid()}",
            "-v",
            f"{models}:/models:ro",
            "pqlab/detector-tst:dev",
            "selftest",
        )
    assert done.code == 0, done.text
    assert {line.split()[1].rstrip(":") for line in done.out.splitlines() if line[:3] == "[x]"} == LEARNED


def test_every_model_was_judged_on_flights_it_had_not_seen(results: dict[str, Any]) -> None:
    told = {path.parent.name for path in (TINY / "models").glob("*/card.json")}
    assert set(results["sets"]["test"]["methods"]) == told | {"random"}
    assert set(results["seeds"]["models"]) == LEARNED
    trained_on = json.loads((TINY / "evaluation/training.json").read_text())["provenance"]["data_sha256"]
    assert results["provenance"]["data_sha256"] not in trained_on.values()
    # Trees of twelve rounds find an attack that chance does not.
    methods = results["sets"]["test"]["methods"]
    assert methods["xgboost"]["window_auroc"] > 0.8 > 0.6 > methods["random"]["window_auroc"]


def test_shuffled_labels_left_nothing_to_learn(judged: Finished, results: dict[str, Any]) -> None:
    values = results["shuffled_labels"]["auroc"]
    assert len(values) == 20
    assert abs(sum(values) / len(values) - 0.5) <= 0.1
    assert "shuffled labels: mean AUROC" in judged.out and "NOT chance" not in judged.out


def test_its_drawings_are_whole(results: dict[str, Any]) -> None:
    drawn = {path.name for path in (TINY / "evaluation").glob("*.svg")}
    assert drawn == {"detection-test.svg", "delay-test.svg", "kinds-test.svg", "degraded-test.svg"}
    for name in drawn:
        root = ElementTree.parse(TINY / "evaluation" / name).getroot()
        marks = [item for item in root.iter() if item.tag.endswith(("polyline", "circle"))]
        assert len(marks) >= 4, name
        points = " ".join(mark.get("points", "") for mark in marks).replace(",", " ").split()
        assert all(0 <= float(number) <= 760 for number in points), name


def test_what_is_committed_stays_as_it_was(before: dict[str, tuple[str, int]], judged: Finished) -> None:
    assert committed() == before


def test_a_check_takes_nothing_from_an_earlier_one(trained: Finished) -> None:
    assert not STALE.exists()
    assert "kept from an earlier run" not in trained.err


def test_copies_that_the_way_makes_raise_no_alarm_of_a_learned_model(image: None) -> None:
    tree = ["-v", f"{ROOT}:/src:ro", "-w", "/src", "-e", "PQ_MODELS=/src/detectors/models"]
    hardened = ["--network", "none", "--read-only", "--cap-drop", "ALL", "--user", "10001:10001"]
    python = ["--entrypoint", "/opt/venv/bin/python", "pqlab/detector-train:dev", "-c", CALM_HOUR]
    done = run("docker", "run", "--rm", *hardened, *tree, *python, *sorted(LEARNED))
    assert done.code == 0, done.text[-3000:]
    told = {(what, name): int(windows) for what, name, windows in map(str.split, done.out.splitlines())}
    assert {told[("calm", name)] for name in LEARNED} == {0}
    assert all(told[("attacked", name)] > 0 for name in LEARNED), "who never raises an alarm proves nothing"
