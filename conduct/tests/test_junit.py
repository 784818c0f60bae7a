"""JUnit XML of cells, checks and claims: valid, escaped, the same bytes again, nothing planned left out."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import report_bundle
from bundle_kit import make_sealed
from compare_edits import of_run
from lxml import etree

from pqevidence.exchange.junit import Case, junit_xml, write_junit
from pqevidence.exchange.results import of_cells
from pqevidence.paths import project_root
from pqevidence.verify import CHECKS, CheckResult
from pqevidence.verify.cases import of_checks
from pqlab.cli.main import main

SCHEMA = Path(__file__).with_name("junit.xsd")
SIM = str(project_root() / "ansible" / "inventories" / "sim.ini")
SUITE = "cs-mlkem768-aesgcm-mldsa65"
TEXT = f"""\
schema: pqlab/scenario/v1
name: junit-test
suites: [{SUITE}]
repetitions: 2
handshake: {{count: 5, min_count: 5, max_s: 20}}
traffic: {{session_s: 1}}
"""
OPTIONS: dict[str, Any] = {"repetitions": 4, "bulk": False, "session_s": 0.5, "handshakes": 5}


def read(data: bytes) -> ET.Element:
    """The suite of a valid document whose counts are those of its cases."""
    etree.XMLSchema(etree.parse(str(SCHEMA))).assertValid(etree.fromstring(data))
    (suite,) = ET.fromstring(data)
    cases = suite.findall("testcase")
    assert int(suite.attrib["tests"]) == len(cases)
    for count, name in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[count]) == len([case for case in cases if case.find(name) is not None])
    return suite


def record(verdict: str, **more: Any) -> dict[str, Any]:
    wall = {"start_ns": 1_000_000_000, "end_ns": 3_500_000_000}
    known = {
        "cell_id": "0" * 16,
        "suite_id": SUITE,
        "condition": "baseline",
        "repetition": 1,
        "verdict": verdict,
        "reason": None if verdict == "pass" else f"{verdict}, for a reason",
        "attempts": 1,
        "wall": wall,
    }
    return {**known, **more}


def test_each_verdict_is_seen_as_what_it_is() -> None:
    verdicts = ("pass", "fail", "invalid", "unsupported", "not-run")
    suite = read(junit_xml("s", of_cells([record(verdict) for verdict in verdicts], strict=False), {}))
    outcomes = [[child.tag for child in case] for case in suite.findall("testcase")]
    assert outcomes == [[], ["failure"], ["error"], ["skipped"], ["skipped"]]
    failure = suite.find("testcase/failure")
    assert failure is not None and failure.text is not None
    assert failure.attrib == {"message": "fail, for a reason", "type": "fail"}
    assert "0" * 16 in failure.text
    strict = read(junit_xml("s", of_cells([record("unsupported")], strict=True), {}))
    assert strict.attrib["failures"] == "1"


def test_a_cell_without_a_time_shows_none() -> None:
    carried, never = of_cells([record("pass"), record("not-run", attempts=0, wall={})], strict=False)
    suite = read(junit_xml("s", [carried, never], {}))
    assert [case.get("time") for case in suite.findall("testcase")] == ["2.500", None]


def test_a_repeated_cell_that_passed_says_so() -> None:
    suite = read(junit_xml("s", of_cells([record("pass", attempts=3)], strict=False), {}))
    assert "attempts: 3" in str(suite.findtext("testcase/system-out"))


def test_checks_and_warnings() -> None:
    results = [
        CheckResult("one", "ok", "7 cells", "all"),
        CheckResult("two", "warn", "odd", "even", "more"),
        CheckResult("three", "fail", "broken", "whole", "and this"),
    ]
    suite = read(junit_xml("s", of_checks(results, strict=False), {}))
    assert suite.attrib["failures"] == "1"
    assert "warning: odd; expected even" in str(suite.findtext("testcase[@name='two']/system-out"))
    assert "also: and this" in str(suite.findtext("testcase[@name='three']/failure"))
    assert read(junit_xml("s", of_checks(results, strict=True), {})).attrib["failures"] == "2"


@pytest.mark.parametrize(
    "text",
    [
        "<a href='x'>&\"]]>",
        "\x00\x1b[31mred\x0b",
        "two\nlines\tand a tab",
        "µs × Φ 🚁",
        "\ud800 alone",
        "\ufffe",
    ],
)
def test_no_text_breaks_the_document(text: str, tmp_path: Path) -> None:
    case = Case(text, text, "failure", text, text, text, output=text)
    suite = read(junit_xml(text, [case], {text: text}))
    told = suite.findtext("testcase/failure")
    clean = text.translate(dict.fromkeys((0x00, 0x0B, 0x1B, 0xD800, 0xFFFE), "\ufffd"))
    assert told == clean
    assert suite.attrib["name"] == clean
    write_junit(str(tmp_path / "r.xml"), text, [case], {text: text})
    assert (tmp_path / "r.xml").read_bytes() == junit_xml(text, [case], {text: text})


def test_a_run_and_its_check_write_theirs(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yml"
    scenario.write_text(TEXT, encoding="utf-8")
    words = ["run", str(scenario), "--inventory", SIM, "--out", str(tmp_path / "results")]
    assert main([*words, "--junit", str(tmp_path / "run.xml")]) == 0
    suite = read((tmp_path / "run.xml").read_bytes())
    cases = suite.findall("testcase")
    assert [case.attrib["name"] for case in cases] == [f"{SUITE} #1", f"{SUITE} #2"]
    assert all(list(case) == [] and case.get("time") for case in cases)
    facts = {one.attrib["name"]: one.attrib["value"] for one in suite.findall("properties/property")}
    assert facts["scenario"] == "junit-test" and facts["ring"] == "sim"
    bundle = (tmp_path / "results" / "latest").resolve()
    assert main(["verify", str(bundle), "--junit", str(tmp_path / "verify.xml")]) == 0
    suite = read((tmp_path / "verify.xml").read_bytes())
    assert [case.attrib["name"] for case in suite.findall("testcase")] == [check.name for check in CHECKS]


def test_a_broken_bundle_fails_by_the_check_that_says_so(tmp_path: Path) -> None:
    root = make_sealed(tmp_path)
    (root / "data" / "report.md").write_text("changed")
    assert main(["verify", str(root), "--junit", str(tmp_path / "verify.xml")]) == 5
    suite = read((tmp_path / "verify.xml").read_bytes())
    failed = [case.attrib["name"] for case in suite.findall("testcase") if case.find("failure") is not None]
    assert "manifest_fixity" in failed


def test_a_place_that_cannot_be_written_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    words = ["run", "smoke", "--inventory", SIM, "--out", str(results)]
    for place in (tmp_path / "none" / "run.xml", tmp_path):
        assert main([*words, "--junit", str(place)]) == 2
        assert "cannot be written" in capsys.readouterr().err
    assert not results.exists()


# ---------------------------------------------------------------------- the gate of compare


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run, and one whose handshakes take three times as long."""
    base = tmp_path_factory.mktemp("pair")
    quick = report_bundle.make_bundle(base / "quick", **OPTIONS)
    slow = report_bundle.make_bundle(base / "slow", **OPTIONS, seed=3, edit=report_bundle.stretched(3.0))
    of_run(run_id="20260303T120000Z-ab12cd")(slow)
    return quick, slow


def compared(pair: tuple[Path, Path], *more: str, back: bool = False) -> int:
    a, b = pair[::-1] if back else pair
    return main(["compare", str(a), str(b), "--unverified", *more])


def test_without_a_gate_a_regression_ends_with_0(pair: tuple[Path, Path]) -> None:
    assert compared(pair) == 0


@pytest.mark.parametrize(
    ("gate", "spelled", "there", "back"),
    [
        ("regressed", "regressed", 1, 0), ("improved", "improved", 0, 1), ("any", "any", 1, 1),
        ("regressed:5%", "regressed:5%", 1, 0), ("regressed:5", "regressed:5%", 1, 0),
        ("regressed:1000%", "regressed:1000%", 0, 0), ("any:60.5 %", "any:60.5%", 1, 1),
    ],
)  # fmt: skip
def test_a_gate_bites_what_it_names(
    pair: tuple[Path, Path],
    gate: str,
    spelled: str,
    there: int,
    back: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compared(pair, "--fail-on", gate) == there
    told = capsys.readouterr().out
    assert f"--fail-on {spelled}: " in told
    if there:
        assert "handshake_total_ms of all suites under" in told.split("not passed", 1)[1]
    else:
        assert "passed, no claim is of that kind" in told
    assert compared(pair, "--fail-on", gate, back=True) == back


def test_two_gates_hold_together(pair: tuple[Path, Path]) -> None:
    assert compared(pair, "--fail-on", "improved", "--fail-on", "regressed:5%") == 1


@pytest.mark.parametrize("gate", ["slower", "regressed:", "regressed:-5%", "regressed:5%%", "any:nan", ""])
def test_a_gate_that_says_nothing_is_refused(pair: tuple[Path, Path], gate: str) -> None:
    assert compared(pair, "--fail-on", gate) == 2


def test_a_gate_that_can_judge_nothing_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = {**OPTIONS, "repetitions": 1}
    a = report_bundle.make_bundle(tmp_path / "a", **single)
    b = report_bundle.make_bundle(tmp_path / "b", **single, seed=2)
    of_run(run_id="20260303T120000Z-ab12cd")(b)
    target = tmp_path / "c.xml"
    words = ["compare", str(a), str(b), "--unverified", "--fail-on", "regressed", "--junit", str(target)]
    assert main(words) == 1
    assert "could be judged: too few pairs" in capsys.readouterr().out
    suite = read(target.read_bytes())
    assert suite.find("testcase[@name='something was judged']/error") is not None


def test_the_rows_that_bite_are_failures_and_no_others(pair: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "compare.xml"
    assert compared(pair, "--fail-on", "regressed:5%", "--junit", str(target)) == 1
    suite = read(target.read_bytes())
    failed = {case.attrib["name"] for case in suite.findall("testcase") if case.find("failure") is not None}
    assert "handshake_total_ms all suites" in failed
    assert not any(name.startswith("loss") for name in failed)
    assert "reach" in {one.attrib["name"] for one in suite.findall("properties/property")}
    assert compared(pair, "--junit", str(target)) == 0
    assert read(target.read_bytes()).attrib["failures"] == "0", "without a gate nothing fails"
