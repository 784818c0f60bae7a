"""The board's serial log: whole, cut off, damaged. A number counts only with its size and its whole unit."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pqevidence.errors import LabError
from pqlab.bench.board import parse, read_log
from pqlab.cli.main import main

SIZES = ("64 bytes", "128 bytes", "256 bytes", "512 bytes", "1 KB", "2 KB", "4 KB", "8 KB", "16 KB", "32 KB")
AES = (4.37, 7.57, 11.74, 16.28, 20.27, 23.01, 24.70, 25.58, 26.06, 26.32)
WHOLE = "".join(
    ["ESP-ROM:esp32c6-20220919\r\n", "\x1b[32mINFO - AES-256-CTR benchmark\x1b[0m\r\n"]
    + [f"INFO - {size}: {rate} MB/s\r\n" for size, rate in zip(SIZES, AES, strict=True)]
    + [f"INFO - SHA-256 | {size} | 14 μs |\r\n" for size in SIZES]
    + ["INFO - RSA-2048 modular exponentiation: 219 ms\r\n"]
)


def test_a_whole_log_gives_all_steps(tmp_path: Path) -> None:
    log = parse(WHOLE.encode())
    assert log.refused == ()
    rows = log.table().rows
    assert len(rows) == 21 and all(row["reason"] is None and row["n"] == 1 for row in rows)
    assert [row["throughput_mbs"] for row in rows[:10]] == list(AES)
    assert all(row["time_us"] == 14.0 and row["throughput_mbs"] is None for row in rows[10:20])
    assert rows[20]["time_us"] == 219_000.0


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_log_cut_anywhere_in_its_last_lines_never_gives_a_wrong_number(cut: int) -> None:
    whole = parse(WHOLE.encode()).values
    log = parse(WHOLE.encode()[:-cut])
    assert all(whole[key] == values for key, values in log.values.items())
    assert ("RSA-2048", 256) not in log.values
    rows = log.table().rows
    assert rows[20]["reason"] == "not in the log" and rows[20]["time_us"] is None and rows[20]["n"] == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"SHA-256 512 bytes: 15", "whole unit"),
        (b"SHA-256 512 bytes: 15 \xce", "no text"),
        (b"SHA-256 512 by", "whole unit"),
        (b"SHA-256 100 bytes: 15 us", "no step"),
        (b"SHA-256: 15 us", "no buffer size"),
        (b"SHA-256 512 bytes: 15 MB/s", "no result of SHA-256"),
        (b"SHA-256 512 bytes: 0 us", "no result of SHA-256"),
        (b"AES 512 bytes: 16.28 MB/", "whole unit"),
        (b"AES 512 bytes: 16.2", "whole unit"),
        (b"RSA-2048: 219 m", "whole unit"),
    ],
)
def test_a_damaged_line_is_refused_with_its_reason(line: bytes, reason: str) -> None:
    log = parse(line + b"\nSHA-256 64 bytes: 14 us\n")
    assert log.values == {("SHA-256", 64): [14.0]}
    assert [one.line for one in log.refused] == [1] and reason in log.refused[0].reason


def test_a_repeated_step_gives_its_median() -> None:
    log = parse(b"SHA-256 64 bytes: 14 us\nSHA-256 64 bytes: 20 us\nSHA-256 64 bytes: 15 us\n")
    row = log.table().rows[10]
    assert (row["time_us"], row["n"]) == (15.0, 3)


def test_the_command_writes_the_table_and_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "serial.log", tmp_path / "ladder.csv"
    log.write_bytes(WHOLE.encode()[:-3])
    assert main(["import-ladder", str(log), "--out", str(out)]) == 3
    with out.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 21 and rows[20]["time_us"] == "" and rows[20]["reason"] == "not in the log"
    assert "cut off" in capsys.readouterr().err
    log.write_bytes(WHOLE.encode())
    assert main(["import-ladder", str(log)]) == 0


def test_a_file_without_any_result_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "boot.log"
    log.write_text("ESP-ROM:esp32c6\nboot: 12 ms\n")
    with pytest.raises(LabError, match="no result of the ladder"):
        read_log(log)
