"""`pqlab index`: every bundle of a folder with its numbers or its reason, and lines over equal runs alone."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_agent import QuietReporter

from pqevidence.index.entries import Entry, look_through
from pqevidence.index.tables import lines_of
from pqevidence.paths import project_root
from pqevidence.report.trends import Trend, trends
from pqevidence.scenario import load_scenario
from pqlab import sim
from pqlab.cli.main import main
from pqlab.inventory import load_inventory

SIM = project_root() / "ansible" / "inventories" / "sim.ini"
SUITE = "cs-mlkem768-aesgcm-mldsa65"
TEXT = f"""\
schema: pqlab/scenario/v1
name: NAME
suites: [{SUITE}, cs-hqc256-ascon128a-falcon1024]
handshake: {{count: 5, min_count: 5, max_s: 20}}
traffic: {{session_s: 1}}
"""


def run_into(results: Path, name: str, token: str) -> Path:
    file = results.parent / f"{name}.yml"
    file.write_text(TEXT.replace("NAME", name), encoding="utf-8")
    return sim.carry_out(
        load_scenario(str(file)), load_inventory(str(SIM)), results=results, reporter=QuietReporter(),
        token=lambda: token, command=["pqlab", "run"],
    ).bundle  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one scenario and one of another."""
    results = tmp_path_factory.mktemp("index") / "results"
    for name, token in (("equal", "aaaaaa"), ("equal", "bbbbbb"), ("other", "cccccc")):
        run_into(results, name, token)
    return results


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    copy = tmp_path / "results"
    shutil.copytree(made, copy, symlinks=True)
    return copy


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def test_page_and_tables_of_a_good_folder(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "site"
    assert main(["index", str(made), "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["bundles_count"], told["lines_count"], told["broken"]) == (3, 1, [])
    assert told["not_looked_into"] == [{"name": "latest", "reason": "a link, not followed"}]
    bundles = rows(out / "index.csv")
    assert [row["scenario"] for row in bundles] == ["equal", "equal", "other"]
    assert {row["checked"] for row in bundles} == {"verified"}
    assert {row["pass_count"] for row in bundles} == {"2"}
    assert bundles[0]["line"] == bundles[1]["line"] != bundles[2]["line"]
    assert bundles[0]["broken"] == bundles[0]["busy"] == ""
    medians = {
        (row["bundle"], row["suite_id"]): row["median_ms"] for row in rows(out / "index-handshakes.csv")
    }
    for bundle in bundles:
        for row in rows(made / bundle["bundle"] / "data" / "analysis" / "by_suite.csv"):
            assert medians[bundle["bundle"], row["suite_id"]] == row["median_ms"]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("<polyline") == 2 * 2, "a line a suite, in two layouts"
    assert "://" not in page.replace("http://www.w3.org", "")
    for bundle in bundles:
        href = f"../{made.relative_to(made.parent)}" if made.parent == tmp_path else None
        assert bundle["bundle"] in page and (href is None or href in page)


def test_the_same_folder_gives_the_same_bytes_also_where_the_index_lies_in_it(results: Path) -> None:
    assert main(["index", str(results), "--unverified"]) == 0
    names = ("index.html", "index.csv", "index-handshakes.csv")
    first = [(results / name).read_bytes() for name in names]
    assert b'href="20000101T000000Z-aaaaaa/data/report.html"' in first[0]
    assert main(["index", str(results), "--unverified"]) == 0
    assert [(results / name).read_bytes() for name in names] == first
    assert b"NOT VERIFIED" in first[0]


def test_a_broken_bundle_is_listed_with_its_reason_and_counts_nowhere(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoiled = results / "20000101T000000Z-bbbbbb"
    table = spoiled / "data" / "analysis" / "by_suite.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("1", "2"), encoding="utf-8")
    (results / "empty").mkdir()
    (results / "half" / "data").mkdir(parents=True)
    (results / "old.tar.zst").write_bytes(b"x")
    assert main(["index", str(results)]) == 3
    told = capsys.readouterr().out
    assert "broken: 20000101T000000Z-bbbbbb: " in told and "broken: half: " in told
    by_name = {row["bundle"]: row for row in rows(results / "index.csv")}
    assert "manifest_fixity" in by_name[spoiled.name]["broken"]
    assert by_name[spoiled.name]["line"] == ""
    assert by_name["half"]["pass_count"] == "", "unknown is not zero"
    assert {row["bundle"] for row in rows(results / "index-handshakes.csv")} == {
        "20000101T000000Z-aaaaaa", "20000101T000000Z-cccccc",
    }  # fmt: skip
    page = (results / "index.html").read_text(encoding="utf-8")
    assert "<polyline" not in page, "one good run is no line"
    for said in (
        "bbbbbb: manifest_fixity",
        "broken: verify failed",
        "empty: no bundle",
        "old.tar.zst: an archive",
    ):
        assert said in page


@pytest.mark.parametrize("name", ["plan.json", "run.json", "hosts/gcs.json", "analysis/by_suite.csv"])
@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", "a,b\n1,2\n"])
def test_no_damage_stops_the_index(results: Path, name: str, content: str) -> None:
    target = results / "20000101T000000Z-bbbbbb" / "data" / name
    target.write_text(content, encoding="utf-8")
    assert main(["index", str(results), "--unverified"]) in (0, 3)
    assert len(rows(results / "index.csv")) == 3


def test_what_must_not_be_opened_is_not(results: Path) -> None:
    target = results / "20000101T000000Z-bbbbbb" / "data" / "run.json"
    target.unlink()
    target.symlink_to("/etc/hostname")
    (entry,) = [one for one in look_through(results, verify=False).entries if one.name == target.parts[-3]]
    assert entry.broken is not None and entry.broken.startswith("not opened")


def test_a_folder_without_bundles_is_an_error(tmp_path: Path, results: Path) -> None:
    assert main(["index", str(tmp_path / "none")]) == 4
    (tmp_path / "empty").mkdir()
    assert main(["index", str(tmp_path / "empty")]) == 4
    bundle = results / "20000101T000000Z-aaaaaa"
    assert main(["index", str(results), "--out", str(bundle)]) == 2


def entry(name: str, line: str | None, medians: dict[str, float], **more: Any) -> Entry:
    places = {(suite, "baseline"): value for suite, value in medians.items()}
    known = {"scenario": "s", "ring": "lab", "created_utc": name}
    return Entry(
        name, "verified", line=line, medians_ms=places, cells_counts=dict.fromkeys(places, 3), **known, **more
    )


def test_lines_hold_equal_runs_and_suites_that_two_of_them_measured() -> None:
    entries = [
        entry("1", "x", {"a": 1.0, "b": 2.0}),
        entry("2", "y", {"a": 9.0}),
        entry("3", "x", {"a": 1.1, "c": 3.0}),
        entry("4", "x", {"c": 3.1}),
        entry("5", None, {"a": 7.0}, broken="manifest_fixity"),
    ]
    (line,) = lines_of(entries)
    assert [run.name for run in line.runs] == ["1", "3", "4"]
    assert [suite for suite, _ in line.places] == ["a", "c"]


def test_a_run_without_a_value_breaks_the_line() -> None:
    def lines(*values: float | None) -> int:
        runs = [str(number) for number in range(len(values))]
        return trends("t", "t", runs, [Trend("a", None, values)]).count("<polyline")

    assert lines(1.0, 1.1, 1.2) == 1
    assert lines(1.0, 1.1, None, 1.2, 1.3) == 2
    assert lines(1.0, None, 1.2) == 0
