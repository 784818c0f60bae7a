"""Every table, figure and checklist of the published reports has a filled element in a report of its kind."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import benched_kit
import pytest
import rekey_bundle
import report_bundle
from measures.power import power_bundle
from report_page import Page

from pqevidence.pages import render

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "suites-2026-01", "primitives-2026-01", "esp32c6-ladder", "power-2026-01", "pqc-mav-2026-02",
    "published-72-suites", "handshake-floor-x86", "published-figures",
}  # fmt: skip
CONDITIONS = tuple({"name": name, "detector": "none", "link": "none"} for name in ("baseline", "other"))


def rows() -> list[dict[str, str]]:
    path = ROOT / "results" / "reference" / "coverage.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def page_of(root: Path) -> Page:
    return Page(render(root)[0].read_text(encoding="utf-8"))


def run(folder: Path) -> Page:
    return page_of(report_bundle.make_bundle(folder / "run", repetitions=3))


def conditions(folder: Path) -> Page:
    return page_of(
        report_bundle.make_bundle(folder / "run", repetitions=3, conditions=CONDITIONS, bulk=False)
    )


def rekeys(folder: Path) -> Page:
    return page_of(rekey_bundle.make(folder / "run"))


def power(folder: Path) -> Page:
    return page_of(power_bundle.make(folder / "run"))


def bench(folder: Path, tree: Path) -> Page:
    root = benched_kit.bundle_of(tree, folder / "bundle")
    return Page((root / "data" / "report.html").read_text(encoding="utf-8"))


def detector(folder: Path) -> Page:
    import detector_bundle

    return page_of(detector_bundle.make(folder / "run"))


#: `compare` has its own page and its own test (test_compare.py)
MAKERS: dict[str, Callable[[Path], Page]] = {
    one.__name__: one for one in (run, conditions, rekeys, power, detector)
}
#: made once for several files (conftest.py)
SHARED = {"suites": "bundle_of_all_suites", "energy": "powered_bench"}


@pytest.mark.parametrize("kind", sorted({row["bundle"] for row in rows()} - {"", "compare"}))
def test_every_covered_item_is_there_and_holds_values(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind in SHARED:
        root: Path = request.getfixturevalue(SHARED[kind])
        page = Page((root / "data" / "report.html").read_text(encoding="utf-8"))
    elif kind == "bench":
        page = bench(tmp_path, request.getfixturevalue("bench_tree"))
    else:
        page = MAKERS[kind](tmp_path)
    wanted = [row for row in rows() if row["bundle"] == kind]
    assert wanted
    empty = [
        f"{row['source']}: {row['item']} → {row['element']}: {why}"
        for row in wanted
        if (why := page.why_empty(row["element"])) is not None
    ]
    assert empty == []


def test_the_table_says_something_of_every_source() -> None:
    table = rows()
    assert {row["source"] for row in table} == SOURCES
    assert len(table) > 180
    assert len({(row["source"], row["item"]) for row in table}) == len(table)
    for row in table:
        assert bool(row["element"]) != bool(row["reason"]), row["item"]
        assert bool(row["element"]) == bool(row["bundle"]), row["item"]
        assert row["bundle"] in {*MAKERS, *SHARED, "bench", "", "compare"}, row["item"]


def test_all_ten_drawings_of_the_power_report_are_listed() -> None:
    group = [row["item"] for row in rows() if row["item"].startswith("group 3: ")]
    assert len(group) == 10


def test_an_empty_element_is_noticed() -> None:
    page = Page(
        '<table id="t"><tr><th scope="col">a</th></tr><tr><th>x</th><td>not measured: why</td></tr></table>'
        '<figure id="f"><svg><line x1="0"/><text>9</text></svg></figure><p id="p"> </p><p id="q">1</p>'
    )
    assert page.why_empty("t") == "a table without a value"
    assert page.why_empty("f") == "a drawing without a mark"
    assert page.why_empty("p") == "no text"
    assert page.why_empty("none") == "no such element"
    assert page.why_empty("q") is None
