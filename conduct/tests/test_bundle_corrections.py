"""Corrections end to end: command, new bundle, verify, report, compare; and what a correction may not do."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from bundle_kit import last_json
from report_page import Page

from pqevidence.analysis.load import BundleData
from pqevidence.bundle.archive import archive
from pqevidence.bundle.corrections import load_corrections
from pqevidence.bundle.unpack import unpack
from pqevidence.verify import CHECKS, verify_bundle
from pqlab.cli.main import main

WHY = "a backup ran on the machine during this cell"


def bytes_of(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def correct(root: Path, out: Path, *argv: str) -> int:
    return main(["correct", str(root), "--out", str(out), *argv])


def a_cell(root: Path) -> str:
    return sorted(path.name for path in (root / "data" / "cells").iterdir())[0]


@pytest.fixture(scope="module")
def corrected(sealed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    before = bytes_of(sealed)
    assert correct(sealed, out, "--withdraw", a_cell(sealed)[:6], "--reason", WHY) == 0
    assert bytes_of(sealed) == before, "the sealed bundle has changed"
    return (out / "latest").resolve()


def test_it_verifies_and_holds_every_cell_byte_for_byte(sealed: Path, corrected: Path) -> None:
    results = verify_bundle(corrected)
    assert [(r.name, r.observed) for r in results if r.status != "ok"] == []
    assert len(results) == len(CHECKS)
    assert {r.name: r for r in results}["corrections"].observed == "1 layers, 1 corrections"
    before, after = bytes_of(sealed / "data" / "cells"), bytes_of(corrected / "data" / "cells")
    assert before == after
    assert corrected.name != sealed.name


def test_the_result_is_gone_from_every_statistic_and_the_record_stays(sealed: Path, corrected: Path) -> None:
    cell_id = a_cell(sealed)
    record = json.loads((corrected / "data" / "cells" / cell_id / "record.json").read_text())
    assert record["verdict"] == "pass"
    cells = {cell.cell_id: cell for cell in BundleData(corrected).cells}
    assert (cells[cell_id].verdict, cells[cell_id].record["reason"]) == (
        "invalid",
        f"withdrawn by correction 1: {WHY}",
    )
    with (corrected / "data" / "analysis" / "by_suite.csv").open(encoding="utf-8", newline="") as handle:
        by_suite = {row["suite_id"]: row for row in csv.DictReader(handle)}
    gone = by_suite.get(cells[cell_id].suite_id, {"n_cells": "0"})
    assert gone["n_cells"] == "0"


def test_the_report_shows_the_layer(sealed: Path, corrected: Path) -> None:
    page = Page((corrected / "data" / "report.html").read_text(encoding="utf-8"))
    (head, row) = page.rows["corrections-table"]
    suites = {cell.cell_id: cell.suite_id for cell in BundleData(sealed).cells}
    assert [cell.strip() for cell in row][2:] == [
        "result withdrawn",
        suites[a_cell(sealed)],
        a_cell(sealed)[:8],
        WHY,
        "corrections/1.json",
    ]
    assert head[0] == "correction" and row[0].strip() == "1"
    assert f"withdrawn by correction 1: {WHY}" in page.text_of["findings-list"]
    assert f"run {sealed.name}" in page.text_of["run-facts"]
    assert "I" in {cell.strip() for cells in page.rows["matrix"] for cell in cells}
    # started and load are those of the run that measured, not of the command that corrected it
    assert "2026-03-01" in page.text_of["run-facts"]
    assert "corrections" not in Page((sealed / "data" / "report.html").read_text(encoding="utf-8")).ids


def test_a_second_layer_on_the_first(
    corrected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert correct(corrected, tmp_path, "--remark", "--reason", "the room was at 31 °C", "--json") == 0
    again = Path(last_json(capsys)["bundle"]).resolve()
    layers = load_corrections(again / "data")
    assert [(layer.number, layer.action, layer.of_run) for layer in layers] == [
        (1, "withdraw", layers[0].of_run),
        (2, "remark", corrected.name),
    ]
    assert [(r.name, r.observed) for r in verify_bundle(again) if r.status != "ok"] == []
    # an earlier layer is sealed as everything else is
    first = again / "data" / "corrections" / "1.json"
    first.write_text(first.read_text().replace("backup", "update"))
    failed = {r.name for r in verify_bundle(again) if r.status == "fail"}
    assert {"manifest_fixity", "lineage"} <= failed


def test_it_travels(corrected: Path, tmp_path: Path) -> None:
    done = archive(corrected, tmp_path / "sent.tar.zst")
    with done.file.open("rb") as content:
        there = unpack(content, tmp_path / "there").bundle
    assert bytes_of(there) == bytes_of(corrected)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--withdraw", "ffff", "--reason", WHY], "no cells"),
        (["--withdraw", "0", "--reason", WHY], "hex digits"),
        (["--withdraw", "CELL", "--reason", "oops"], "characters"),
        (
            ["--withdraw", "CELL", "--reason", "the log is in /home" + "/ann/notes of that day"],
            "a machine path",
        ),
        (["--reason", WHY], "either --withdraw or --remark"),
        (["--withdraw", "CELL", "--remark", "--reason", WHY], "either --withdraw or --remark"),
    ],
)
def test_what_is_refused_leaves_nothing(
    sealed: Path, tmp_path: Path, argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    assert correct(sealed, out, *[a_cell(sealed) if word == "CELL" else word for word in argv]) == 2
    told = capsys.readouterr().err
    assert says in told and "\n  next: " in told
    assert not out.exists() or not [path for path in out.rglob("*") if path.is_file()]


def test_what_was_withdrawn_cannot_be_withdrawn_again(
    sealed: Path, corrected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert correct(corrected, tmp_path, "--withdraw", a_cell(sealed), "--reason", WHY) == 2
    assert "withdrawn by correction 1" in capsys.readouterr().err


def test_a_damaged_bundle_is_not_corrected(
    sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "damaged" / sealed.name
    shutil.copytree(sealed, root)
    (root / "data" / "report.md").write_text("better")
    assert correct(root, tmp_path / "out", "--remark", "--reason", WHY) == 5
    assert "not as it was sealed" in capsys.readouterr().err
