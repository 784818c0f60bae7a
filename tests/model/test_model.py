"""The symbolic models give the verdicts they state; skipped, with the reason, where there is no prover."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "tunnel" / "model"
MODELS = sorted(FOLDER.glob("*.vp"))

pytestmark = pytest.mark.beside_computes


def expected(model: Path) -> str:
    found = re.match(r"// expect: ((?:[caf][01])+)\n", model.read_text(encoding="utf-8"))
    assert found is not None, f"{model.name} does not say what to expect"
    return found[1]


def test_every_model_asks_as_much_as_it_expects() -> None:
    assert MODELS
    for model in MODELS:
        queries = re.findall(r"^\t(confidentiality|authentication|freshness)\?", model.read_text(), re.M)
        assert "".join(q[0] for q in queries) == re.sub(r"\d", "", expected(model)), model.name


def test_the_protocol_holds_and_every_mutant_falls() -> None:
    assert all(set(expected(m)[1::2]) == {"0"} for m in MODELS if m.stem in ("handshake", "rekey"))
    broken = [m for m in MODELS if m.stem.startswith("mutant-") or m.stem == "published"]
    assert len(broken) >= 3 and all("1" in expected(m) for m in broken)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.stem)
def test_the_prover_agrees(model: Path) -> None:
    if shutil.which("docker") is None:
        pytest.skip("no container engine here: run tunnel/model/check.sh on the host")
    done = subprocess.run(
        [str(FOLDER / "check.sh"), model.name], capture_output=True, text=True, timeout=900, check=False
    )
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"[x] {model.name}" in done.stdout
