"""The stream `detector`: every detector's lines within the cell, by time; empty with a reason otherwise."""

from __future__ import annotations

import json
from pathlib import Path

from pqtunnel.agent.verdicts import Verdicts


def write(folder: Path, name: str, file: str, *stamps: int, tail: str = "") -> None:
    (folder / name).mkdir(exist_ok=True)
    rows = (json.dumps({"k": t, "t_ns": t, "detector": name}, separators=(",", ":")) + "\n" for t in stamps)
    (folder / name / file).write_text("".join(rows) + tail)


def test_lines_of_all_detectors_within_the_cell_by_time(tmp_path: Path) -> None:
    write(tmp_path, "xgboost", "verdicts.ndjson.1", 5, 10, 20)
    write(tmp_path, "xgboost", "verdicts.ndjson", 30, 50, tail='{"t_ns":31,"half')
    write(tmp_path, "tst", "verdicts.ndjson", 25, 90)
    rows = [json.loads(line) for line in Verdicts(tmp_path).lines(10, 50)]
    assert [(row["detector"], row["t_ns"]) for row in rows] == [
        ("xgboost", 10),
        ("xgboost", 20),
        ("tst", 25),
        ("xgboost", 30),
        ("xgboost", 50),
    ]


def test_a_line_that_stands_in_both_files_counts_once(tmp_path: Path) -> None:
    write(tmp_path, "xgboost", "verdicts.ndjson.1", 10)
    write(tmp_path, "xgboost", "verdicts.ndjson", 10, 11)
    assert len(Verdicts(tmp_path).lines(0, 99)) == 2


def test_without_a_folder_there_is_a_reason(tmp_path: Path) -> None:
    assert Verdicts(None).lines(0, 99) == []
    assert "PQ_VERDICTS" in Verdicts(None).reason
    assert Verdicts(tmp_path).lines(0, 99) == []
    assert "fell into the cell" in Verdicts(tmp_path).reason
