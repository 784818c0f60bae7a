"""The images that fly hold the models that were trained: each says what the trained one said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from .conftest import ROOT, Finished, run

pytestmark = [pytest.mark.e2e, pytest.mark.beside_computes]

MODELS = ROOT / "detectors/models"
HELD = {
    "detector-xgboost": {"xgboost-5w", "xgboost"},
    "detector-tst": {"xgboost-5w", "xgboost", "tst-p8", "tst"},
}


def selftest(image: str, *options: str) -> Finished:
    user = f"{os.getuid()}:{os.getgid()}"  # it must reach the files of this test
    hardened = ["--network", "none", "--read-only", "--cap-drop", "ALL", "--user", user]
    return run("docker", "run", "--rm", *hardened, *options, f"pqlab/{image}:dev", "selftest")


@pytest.fixture(scope="module", autouse=True)
def images() -> None:
    done = run("./images/build.sh", "base", *HELD)
    assert done.code == 0, done.text[-2000:]


@pytest.mark.parametrize("image", sorted(HELD))
def test_deployed_models_say_what_the_trained_ones_said(image: str) -> None:
    done = selftest(image)
    assert done.code == 0, done.text
    told = {line.split()[1].rstrip(":") for line in done.out.splitlines() if line.startswith("[x]")}
    assert told == HELD[image]


def test_a_model_that_says_something_else_fails(tmp_path: Path) -> None:
    shutil.copytree(MODELS, tmp_path / "models")
    path = tmp_path / "models/tst-p8/vectors.json"
    vectors = json.loads(path.read_text())
    for pair in vectors["scores"]:
        pair[0] = None if pair[0] is None else 1 - pair[0]
    path.write_text(json.dumps(vectors))
    done = selftest("detector-tst", "-v", f"{tmp_path / 'models'}:/models:ro")
    assert done.code == 3
    assert "[ ] tst-p8" in done.out


def test_a_graph_that_was_tampered_with_is_not_loaded(tmp_path: Path) -> None:
    shutil.copytree(MODELS, tmp_path / "models")
    graph = tmp_path / "models/xgboost/model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"\0")
    done = selftest("detector-xgboost", "-v", f"{tmp_path / 'models'}:/models:ro")
    assert done.code == 4
    assert "checksum" in done.err
