"""Counting false alarms: an honest bundle has none, a spoiled one is counted, another build's stand apart."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bundle_kit import make_sealed

from adversary.honest import Seen, bundles, look, main, tables


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("honest"))


def test_an_honest_bundle_is_counted_once_and_has_no_alarm(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (good.parent / "latest").resolve() == good
    assert list(bundles([good.parent, good])) == [good]
    assert main([str(good.parent), "--this-tree"]) == 0
    cells = len(list((good / "data" / "cells").iterdir()))
    assert f"| all | | 1 | {cells} | 0 |" in capsys.readouterr().out


def test_a_failed_check_is_a_false_alarm(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / good.name
    shutil.copytree(good, root)
    with (root / "data" / "run.json").open("a") as file:
        file.write(" ")
    seen = look(root)
    assert any(alarm.startswith("manifest_fixity: ") for alarm in seen.alarms)
    assert main([str(tmp_path)]) == 1
    assert "manifest_fixity" in capsys.readouterr().out


def test_what_the_tree_makes_again_stands_apart(good: Path, tmp_path: Path) -> None:
    root = tmp_path / good.name
    shutil.copytree(good, root)
    page = root / "data" / "report.md"
    page.write_text(page.read_text() + "\nanother build's words\n")
    assert "report_rebuild" in look(root).apart
    assert any(alarm.startswith("report_rebuild") for alarm in look(root, this_tree=True).alarms)


def test_nothing_found_is_no_success(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1


def test_the_table_sums() -> None:
    rows = [
        Seen("a", "smoke", "lab", 15, 1.0, (), ("report_rebuild",), ()),
        Seen("b", "smoke", "lab", 2, 1.0, ("clocks_steady: x",), (), ()),
        Seen("c", "smoke", "sim", 15, 1.0, (), (), ()),
    ]
    text = tables(rows)
    assert "| lab | smoke | 2 | 17 | 1 |" in text and "| sim | smoke | 1 | 15 | 0 |" in text
    assert "| all | | 3 | 32 | 1 |" in text and "- `report_rebuild`: 1" in text
