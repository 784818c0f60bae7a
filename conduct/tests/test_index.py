"""`pqlab index`: every bundle of a folder with its numbers or its reason, and lines over equal runs alone."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from sim_kit import simulated

from pqevidence.index.alike import apart, lines_of, never_together
from pqevidence.index.entries import Answer, Entry, look_through
from pqevidence.index.machines import machine_of
from pqevidence.report.trends import Trend, trends
from pqlab.cli.main import main

ROLES = ("drone", "gcs")
SUITES = ("cs-mlkem768-aesgcm-mldsa65", "cs-hqc256-ascon128a-falcon1024")
TEXT = """\
schema: pqlab/scenario/v1
name: NAME
seed: SEED
suites: SUITES
handshake: {count: 5, min_count: 5, max_s: 20}
traffic: {session_s: 1}
"""


def run_into(results: Path, name: str, token: str, *, suites: int = 2, seed: int = 1) -> Path:
    """A simulated run of the first suites, sealed."""
    text = TEXT.replace("NAME", name).replace("SUITES", f"[{', '.join(SUITES[:suites])}]")
    return simulated(results.parent, text.replace("SEED", str(seed)), token, results=results)


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
    assert (told["bundles_count"], told["lines_count"], told["refused"]) == (3, 1, [])
    assert told["not_looked_into"] == [
        {"name": "latest", "reason": "a link to 20000101T000000Z-cccccc, not followed"}
    ]
    bundles = rows(out / "index.csv")
    assert [row["scenario"] for row in bundles] == ["equal", "equal", "other"]
    assert {row["checked"] for row in bundles} == {"verified"}
    assert {row["pass_count"] for row in bundles} == {"2"}
    assert bundles[0]["line"] == bundles[1]["line"] != bundles[2]["line"]
    assert bundles[0]["refused_by"] == "" and bundles[0]["release"]
    assert len({row["machine_key"] for row in bundles}) == 1
    medians = {
        (row["bundle"], row["suite_id"]): row["median_ms"] for row in rows(out / "index-handshakes.csv")
    }
    for bundle in bundles:
        for row in rows(made / bundle["bundle"] / "data" / "analysis" / "by_suite.csv"):
            assert medians[bundle["bundle"], row["suite_id"]] == row["median_ms"]
    names = [Path(name).name for name in told["pages"]]
    kinds = [name.split("-")[0] for name in names]
    assert kinds == ["index.html", "machine", "release"]
    pages = [(out / name).read_text(encoding="utf-8") for name in names]
    assert pages[1].count("<polyline") == 2 * 2, "a line a suite, in two layouts"
    for page in pages:
        assert "://" not in page.replace("http://www.w3.org", "")
        for href in re.findall(r'href="([^"#]+)"', page):
            assert (out / href).exists(), href
        for bundle in bundles:
            assert bundle["bundle"] in page


def test_the_same_folder_gives_the_same_bytes_also_where_the_index_lies_in_it(results: Path) -> None:
    assert main(["index", str(results), "--unverified"]) == 0
    names = sorted(path.name for path in results.iterdir() if path.is_file())
    assert {"index.html", "index.csv", "index-handshakes.csv"} < set(names) and len(names) == 5
    first = [(results / name).read_bytes() for name in names]
    assert main(["index", str(results), "--unverified"]) == 0
    assert [(results / name).read_bytes() for name in names] == first
    page = (results / "index.html").read_text(encoding="utf-8")
    assert "NOT VERIFIED" in page and "report.html" not in page, "nobody made that page again"
    assert main(["index", str(results)]) == 0
    assert 'href="20000101T000000Z-aaaaaa/data/report.html"' in (results / "index.html").read_text("utf-8")


def test_a_refused_bundle_is_listed_with_its_check_and_counts_nowhere(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoiled = results / "20000101T000000Z-bbbbbb"
    table = spoiled / "data" / "analysis" / "by_suite.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("1", "2"), encoding="utf-8")
    (results / "empty").mkdir()
    (results / "half" / "data").mkdir(parents=True)
    assert main(["index", str(results)]) == 5
    told = capsys.readouterr().out
    assert "refused: 20000101T000000Z-bbbbbb: verify.manifest_fixity: " in told
    assert "refused: half: sealed: " in told
    by_name = {row["bundle"]: row for row in rows(results / "index.csv")}
    assert by_name[spoiled.name]["refused_by"] == "verify.manifest_fixity"
    assert by_name[spoiled.name]["line"] == by_name[spoiled.name]["pass_count"] == "", "unknown is not zero"
    assert {row["bundle"] for row in rows(results / "index-handshakes.csv")} == {
        "20000101T000000Z-aaaaaa",
        "20000101T000000Z-cccccc",
    }
    page = (results / "index.html").read_text(encoding="utf-8")
    assert "manifest_fixity" in page and "empty: no bundle" in page
    (machine,) = results.glob("machine-*.html")
    assert "<polyline" not in machine.read_text(encoding="utf-8"), "one good run is no line"


def test_a_plan_that_names_no_scenario_is_called_as_its_scenario_is(tmp_path: Path) -> None:
    """Plans of 0.1.0 did not name it."""
    shutil.copy(Path(__file__).parent / "bundles" / "bundle-0.1.0.tar.zst", tmp_path)
    (entry,) = look_through(tmp_path, verify=False).entries
    assert entry.release == "0.1.0" and entry.scenario not in (None, "None", "not named")


def test_pages_that_are_no_more_are_taken_away_and_no_other(results: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert main(["index", str(results), "--out", str(site), "--unverified"]) == 0
    (page,) = site.glob("machine-*.html")
    page.rename(site / "machine-00000000.html")
    (site / "release-notes.html").write_text("mine", encoding="utf-8")
    assert main(["index", str(results), "--out", str(site), "--unverified"]) == 0
    assert page.exists() and not (site / "machine-00000000.html").exists()
    assert (site / "release-notes.html").exists()


@pytest.mark.parametrize("name", ["plan.json", "run.json", "hosts/gcs.json", "analysis/by_suite.csv"])
@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", "a,b\n1,2\n"])
def test_no_damage_stops_the_index(results: Path, name: str, content: str) -> None:
    target = results / "20000101T000000Z-bbbbbb" / "data" / name
    target.write_text(content, encoding="utf-8")
    assert main(["index", str(results), "--unverified"]) in (0, 5)
    assert len(rows(results / "index.csv")) == 3


def test_what_must_not_be_opened_is_not(results: Path) -> None:
    target = results / "20000101T000000Z-bbbbbb" / "data" / "run.json"
    target.unlink()
    target.symlink_to("/etc/hostname")
    (entry,) = look_through(results, verify=False).refused
    assert entry.name == target.parts[-3]
    assert entry.refused is not None and entry.refused.check == "member_kind"


def test_a_folder_without_bundles_is_an_error(tmp_path: Path, results: Path) -> None:
    assert main(["index", str(tmp_path / "none")]) == 4
    (tmp_path / "empty").mkdir()
    assert main(["index", str(tmp_path / "empty")]) == 4
    bundle = results / "20000101T000000Z-aaaaaa"
    assert main(["index", str(results), "--out", str(bundle)]) == 2


HOST = {
    "machine": "aarch64",
    "cpu_model": "Cortex-A72",
    "cpu_count": 4,
    "kernel": "6.12",
    "hostname": "joes-pi",
}


def entry(name: str, medians: dict[str, float], **more: Any) -> Entry:
    """A bundle of two equal boards. more: changes of its host, its facts or the entry itself."""
    host = {**HOST, **more.pop("host", {})}
    ends: dict[str, Any] = {
        role: {"host": host, "dataplane": "native", "sensors": ["steal"]} for role in ROLES
    }
    for role, facts in more.pop("ends", {}).items():
        ends[role] = {**ends[role], **facts}
    ring = more.pop("ring", "lab")
    facts = {
        "hosts": {**ends, "controller": {}},
        "providers": {"drone": {"liboqs": more.get("release")}, "gcs": {}},
        "scenario": {"traffic": more.pop("traffic", {"session_s": 5})},
        "plan": {"conditions": []},
        "run": {"run_id": name, "loadavg_start": more.pop("load", None)},
        "cells": [{"ring": ring, "verdict": "pass", "steal": None}],
    }
    answers = tuple(Answer(suite, "baseline", ring, 3, value) for suite, value in medians.items())
    known = {"scenario": "s", "begun_utc": name, "run_id": name, "release": "1", "machine": machine_of(ends)}
    return Entry(name, "verified", answers=answers, facts=facts, ring=ring, **{**known, **more})


def test_lines_hold_like_runs_over_releases_and_suites_that_two_of_them_measured() -> None:
    entries = [
        entry("1", {"a": 1.0, "b": 2.0}, release="1"),
        entry("2", {"a": 9.0}, host={"cpu_model": "another"}),
        entry("3", {"a": 1.1, "c": 3.0}, release="2"),
        entry("4", {"c": 3.1}, release="3"),
        entry("5", {"a": 7.0}, apart="marked quiet"),
    ]
    one, other = lines_of(entries)
    assert [run.name for run in one.runs] == ["1", "3", "4"]
    assert [suite for suite, _ in one.places] == ["a", "c"]
    assert [run.name for run in other.runs] == ["2"]
    assert one.machine_key != other.machine_key


@pytest.mark.parametrize(
    ("changed", "kind", "what"),
    [
        ({"ring": "hardware"}, "ring", "ring"),
        ({"scenario": "t"}, "setting", "scenario"),
        ({"ends": {"gcs": {"dataplane": "python"}}}, "data plane", "gcs dataplane"),
        ({"ends": {"drone": {"timestamp_source": "virtual"}}}, "data plane", "drone timestamp_source"),
        ({"ends": {"drone": {"sensors": ["power", "steal"]}}}, "sampler", "drone sensors"),
        ({"traffic": {"session_s": 9}}, "setting", "traffic.session_s"),
        ({"host": {"kernel": "6.13"}}, "host", "drone kernel"),
        ({"load": [28.0, 20.0, 10.0]}, "load", "loadavg_start (1 min)"),
    ],
)
def test_what_is_not_alike_stands_apart_and_says_why(changed: dict[str, Any], kind: str, what: str) -> None:
    first, second = entry("1", {"a": 1.0}), entry("2", {"a": 1.1}, **changed)
    found = apart(first, second)
    assert (kind, what) in [(fact.kind, fact.what) for fact in found]
    lines = lines_of([first, second])
    assert [len(line.runs) for line in lines] == [1, 1]
    if kind != "ring" and what != "scenario":
        assert lines[1].unlike[0][0] == "1"
        assert kind in {fact.kind for fact in lines[1].unlike[0][1]}


def test_rings_are_refused_in_the_words_of_compare() -> None:
    a, b = entry("1", {"a": 1.0}), entry("2", {"a": 1.0}, ring="hardware")
    assert "different quantities" in str(never_together([a, b]))
    assert never_together([a, a]) is None


def test_a_machine_is_named_by_its_hardware_and_by_no_name_of_somebody() -> None:
    board = {**HOST, "board_model": "Raspberry Pi 4 Model B"}
    named = machine_of({"drone": {"host": board}, "gcs": {"host": HOST}})
    assert named.name == (
        "drone: Raspberry Pi 4 Model B × 4 cores (aarch64), ground: Cortex-A72 × 4 cores (aarch64)"
    )
    other = {**HOST, "hostname": "another", "boot_id": "x", "kernel": "7"}
    assert machine_of({"drone": {"host": board}, "gcs": {"host": other}}) == named, (
        "names and kernels do not count"
    )
    assert (
        machine_of({"drone": {"host": HOST}, "gcs": {"host": HOST}}).name == "Cortex-A72 × 4 cores (aarch64)"
    )


def test_a_run_without_a_value_breaks_the_line() -> None:
    def lines(*values: float | None) -> int:
        runs = [str(number) for number in range(len(values))]
        return trends("t", "t", runs, [Trend("a", None, values)]).count("<polyline")

    assert lines(1.0, 1.1, 1.2) == 1
    assert lines(1.0, 1.1, None, 1.2, 1.3) == 2
    assert lines(1.0, None, 1.2) == 0
