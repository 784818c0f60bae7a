"""Lets these tests import the helper modules beside them and those of evidence; makes once what is slow.

What these fixtures give is read by several files and changed by none: who changes something copies it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence" / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from all_suites import bundle_of_all_suites
from bundle_kit import make_sealed
from fake_agent import FakeLab

__all__ = ["bundle_of_all_suites"]


@pytest.fixture
def lab(tmp_path: Path) -> FakeLab:
    """Two fake ends, and what a campaign writes of them below `tmp_path`."""
    return FakeLab(tmp_path)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed bundle of synthetic data."""
    return make_sealed(tmp_path_factory.mktemp("sealed"))


@pytest.fixture
def copied(sealed: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(sealed, tmp_path / sealed.name))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose path has a blank and a quote: two scenarios, an overlay, a bundle, a run in work."""
    tree = tmp_path / "the lab's"
    bundle, work = "results/20260101T000000Z-aaaaaa", "results/.work/20260102T000000Z-bbbbbb"
    for name in ("scenarios/overlays", bundle, work):
        (tree / name).mkdir(parents=True)
    for name in ("smoke", "soak", "overlays/rekey-1s"):
        (tree / "scenarios" / f"{name}.yml").touch()
    (tree / "results/latest").symlink_to("20260101T000000Z-aaaaaa")
    (tree / f"{work}.sealing").touch()
    (tree / "pqlab").write_text("#!/bin/sh\n")
    (tree / "pqlab").chmod(0o755)
    (tree / "notes.txt").touch()
    monkeypatch.setattr("pqlab.cli.completion.project_root", lambda: tree)
    return tree


@pytest.fixture(scope="session")
def bench_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A performance folder as `pqtunnel bench` leaves it, with made-up times."""
    import benched_kit

    root = tmp_path_factory.mktemp("bench") / "run"
    benched_kit.performance_tree(root)
    return root


@pytest.fixture(scope="session")
def powered_bench(bench_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its bundle with an energy run of the sensor's model and a board's damaged log."""
    import benched_kit

    return benched_kit.powered_bundle(bench_tree, tmp_path_factory.mktemp("powered"))
