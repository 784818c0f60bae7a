"""The lines a campaign ends with: the report's own figures, ten lines at most, 80 columns at most."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_bundle import make_bundle

from pqevidence.pages import render
from pqevidence.paths import project_root
from pqevidence.summary import closing_lines
from pqlab.campaign.engine import Result
from pqlab.cli.main import main
from pqlab.cli.run import report_result
from pqlab.progress import coloured

NAMES = ("baseline", "lossy")
SIM = str(project_root() / "ansible" / "inventories" / "sim.ini")
SUITE = "cs-mlkem768-aesgcm-mldsa65"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_bundle(tmp_path_factory.mktemp("summary") / "run", repetitions=3, bulk=False)
    render(root)
    return root


@pytest.fixture
def copy(smoke: Path, tmp_path: Path) -> Path:
    shutil.copytree(smoke, tmp_path / "run")
    return tmp_path / "run"


def lines_of(root: Path) -> list[str]:
    lines = closing_lines(root)
    assert len(lines) <= 10
    assert [line for line in lines if len(line) > 80] == []
    return lines


def records(root: Path) -> list[Path]:
    return sorted((root / "data" / "cells").glob("*/record.json"))


def edit_json(path: Path, **values: Any) -> dict[str, Any]:
    document: dict[str, Any] = {**json.loads(path.read_text(encoding="utf-8")), **values}
    path.write_text(json.dumps(document), encoding="utf-8")
    return document


def edit_table(root: Path, name: str, change: Callable[[dict[str, str]], None]) -> None:
    path = root / "data" / "analysis" / f"{name}.csv"
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    for row in rows:
        change(row)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def test_a_small_run_names_every_suite_loss_latency_and_that_nothing_is_odd(smoke: Path) -> None:
    lines = lines_of(smoke)
    assert lines[0] == "cold handshake, ms: median of 3 cells, 95 % interval of the mean"
    suites = [line.split()[0] for line in lines if line.startswith("  ")]
    with (smoke / "data/analysis/by_suite.csv").open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: float(row["median_ms"]))
    assert suites == [row["suite_id"].removeprefix("cs-") for row in rows]
    told = [line.partition(": ")[0] for line in lines if not line.startswith("  ")]
    assert told == [
        "cold handshake, ms",
        "lost",
        "latency drone → GCS",
        "latency GCS → drone",
        "odd",
    ]
    assert lines[-1] == "odd: nothing; no cell failed, was invalid or was measured again"


def test_every_figure_is_one_that_the_report_prints(smoke: Path) -> None:
    page = re.sub(r"<[^>]+>", " ", (smoke / "data/report.html").read_text(encoding="utf-8"))
    printed = set(re.findall(r"\d[\d,]*\.\d+", page))
    figures = [
        figure
        for line in lines_of(smoke)
        if line.startswith(("  ", "latency"))
        for figure in re.findall(r"(?<![\w.])\d[\d,]*\.\d+", line)
    ]
    assert len(figures) > 10
    assert [figure for figure in figures if figure not in printed] == []


def test_a_tail_that_too_few_datagrams_carry_is_not_told(smoke: Path) -> None:
    down, up = (line for line in lines_of(smoke) if line.startswith("latency"))
    assert re.search(r"p99 [\d.]+–[\d.]+ ms$", down)
    assert up.endswith("p99 n too small")


def test_of_many_suites_the_fastest_and_the_slowest_are_told(bundle_of_all_suites: Path) -> None:
    lines = lines_of(bundle_of_all_suites)
    with (bundle_of_all_suites / "data/analysis/by_suite.csv").open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: float(row["median_ms"]))
    assert len(rows) == 72
    names = [row["suite_id"].removeprefix("cs-") for row in rows]
    suites = [line.split()[0] for line in lines if line.startswith("  ")]
    place = suites.index("…")
    assert place >= 2 and len(suites) - place - 1 >= 2
    assert suites[:place] == names[:place]
    assert suites[place + 1 :] == names[-(len(suites) - place - 1) :]
    assert f"  … {72 - len(suites) + 1} suites between them" in lines
    assert "(n too small)" in lines[1], "one cell a suite has no interval"


def test_a_run_of_several_conditions_says_which_one_its_suites_are_of(tmp_path: Path) -> None:
    conditions = tuple({"name": name, "detector": "none", "link": "none"} for name in NAMES)
    root = make_bundle(tmp_path / "run", repetitions=3, conditions=conditions, bulk=False)
    edit_table(
        root,
        "traffic",
        lambda row: row.update(lost_count="3", loss_pct="1.5") if row["condition"] == "lossy" else None,
    )
    lines = lines_of(root)
    assert lines[0].startswith("cold handshake, ms, condition baseline: median of 3 cells")
    (lost,) = (line for line in lines if line.startswith("lost"))
    assert re.fullmatch(r"lost: 54 of [\d,]+ datagrams; at most 1\.50 % \(lossy\)", lost)
    assert all("condition baseline" in line for line in lines if line.startswith("latency"))


def test_what_is_odd_is_told_gravest_first(copy: Path) -> None:
    first, second, third, fourth, *_ = records(copy)
    edit_json(first, verdict="fail", reason="no handshake completed")
    edit_json(second, verdict="invalid", reason="rate 12 % off")
    edit_json(third, verdict="invalid", reason="rate 13 % off")
    earlier = fourth.parent / "attempt-1"
    earlier.mkdir()
    (earlier / "record.json").write_text('{"verdict": "invalid", "reason": "datagram 7 was lost"}')
    lines = lines_of(copy)
    odd = [line for line in lines if line.startswith("odd: ")]
    assert re.fullmatch(r"odd: 1 cell failed: no handshake completed \(\S+", odd[0])
    assert re.fullmatch(r"odd: 2 cells invalid, the first: rate 1[23] % off \(\S+", odd[1])
    assert re.fullmatch(r"odd: 1 cell measured again: datagram 7 was lost \(\S+", odd[2])
    assert len(odd) == 3 and len(lines) == 10
    edit_json(copy / "data/run.json", warnings=["InfluxDB shows other points", "image x was replaced"])
    odd = [line for line in lines_of(copy) if line.startswith("odd: ")]
    assert len(odd) == 4 and odd[-1] == "odd: 2 more, see the report"


def test_no_time_is_told_where_none_is_a_claim(copy: Path) -> None:
    path = copy / "data/hosts/drone.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    edit_json(path, host={**facts["host"], "emulated": "qemu-user"})
    lines = lines_of(copy)
    assert [line.split(":")[0] for line in lines] == ["lost", "odd"]
    assert lines[1] == "odd: no time counts: the drone's processor is emulated (qemu-user)"


def test_a_bundle_without_tables_has_no_such_lines(tmp_path: Path) -> None:
    assert closing_lines(tmp_path) == []


def test_a_long_reason_is_cut_and_a_figure_never(copy: Path) -> None:
    edit_json(records(copy)[0], verdict="invalid", reason="x" * 200)
    (odd,) = (line for line in lines_of(copy) if line.startswith("odd: "))
    assert len(odd) == 80 and odd.endswith("…")


# ---------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("simulated")


@pytest.mark.parametrize("json_output", [False, True])
def test_a_run_ends_with_them_and_the_report_last(
    simulated: Path, capsys: pytest.CaptureFixture[str], json_output: bool
) -> None:
    out = simulated / str(json_output)
    words = ["run", "smoke", "--inventory", SIM, "--out", str(out), "--suites", SUITE, "--session-s", "2"]
    assert main([*words, *(["--json"] if json_output else [])]) == 0
    caught = capsys.readouterr()
    lines = (caught.err if json_output else caught.out).splitlines()
    bundle = (out / "latest").resolve()
    assert lines[-1].endswith(f"{bundle.name}/data/report.html")
    assert lines[-2].endswith(f"{bundle.name}: 3 pass")
    told = closing_lines(bundle)
    assert lines[-2 - len(told) : -2] == told
    assert 5 <= len(told) <= 10
    assert told[0].startswith("cold handshake, ms (synthetic): ")
    if json_output:
        assert json.loads(caught.out)["verdict_counts"] == {"pass": 3}


def test_a_bundle_that_cannot_be_summed_up_is_still_a_sealed_run(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "data/analysis/traffic.csv").unlink()
    result = Result(copy, {"pass": 3}, [], 0)
    assert report_result(argparse.Namespace(json=False, junit=None), result) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("no summary: ") and lines[-1].endswith("report.html") and len(lines) == 3


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_verdicts_have_colour_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("15 pass", "pass", Terminal()) == "\x1b[32m15 pass\x1b[0m"
    assert coloured("1 fail", "fail", Terminal()) == "\x1b[31m1 fail\x1b[0m"
    assert coloured("15 pass", "pass", io.StringIO()) == "15 pass"
    assert coloured("15 sealed", "sealed", Terminal()) == "15 sealed"
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("15 pass", "pass", Terminal()) == "15 pass"
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert coloured("15 pass", "pass", Terminal()) == "15 pass"
