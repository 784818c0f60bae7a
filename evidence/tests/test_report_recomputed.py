"""A page's figures worked out a second time from the raw files, by code that is nobody's but this test's.

test_report_numbers holds every printed number against tables made again by the lab's own analysis; a mistake
of that analysis would agree with itself. Here only json, csv and statistics are used, over two conditions.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import report_bundle
from report_page import Page

from pqevidence.pages import render

CONDITIONS = tuple({"name": name, "detector": "none", "link": "none"} for name in ("baseline", "other"))
STEPS = {"keygen": "gcs", "sign": "gcs", "verify": "drone", "encaps": "drone", "decaps": "gcs"}
#: groups of the published statistics whose suites the bundle holds, and what their names have in common
GROUPS = {"L3": "mlkem768", "ML-KEM": "-mlkem", "Classic-McEliece": "-classicmceliece"}
CLOSE = 6e-3  # what is printed has three digits
Values = dict[str, float]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # `other` takes half as long again, so that conditions cannot be mixed unseen
    slow_other = report_bundle.stretched(1.5, lambda row: row["condition"] == "other")
    made = report_bundle.make_bundle(
        tmp_path_factory.mktemp("again") / "run", repetitions=3, conditions=CONDITIONS, edit=slow_other
    )
    render(made)
    return made


@pytest.fixture(scope="module")
def page(root: Path) -> Page:
    return Page((root / "data" / "report.html").read_text(encoding="utf-8"))


def of_cell(folder: Path) -> Values:
    """Figures of one cell from its raw files."""
    length: dict[tuple[str, str, str], float] = {}
    for line in (folder / "spans.ndjson").read_text(encoding="utf-8").splitlines():
        span = json.loads(line)
        assert span["mode"] == "cold"
        length[span["handshake_id"], span["host"], span["step"]] = (span["end_ns"] - span["start_ns"]) / 1e6
    shakes = sorted({key[0] for key in length})
    found = {
        "n": float(len(shakes)),
        "drone": median(length[shake, "drone", "handshake"] for shake in shakes),
        "gcs": median(length[shake, "gcs", "handshake"] for shake in shakes),
        "min": min(length[shake, "drone", "handshake"] for shake in shakes),
        "max": max(length[shake, "drone", "handshake"] for shake in shakes),
        "crypto": median(sum(length[shake, STEPS[step], step] for step in STEPS) for shake in shakes),
        **{step: median(length[shake, host, step] for shake in shakes) for step, host in STEPS.items()},
    }
    rows: dict[str, list[dict[str, str]]] = {}
    for end in ("drone", "gcs"):
        with (folder / f"ledger.{end}.csv").open(newline="", encoding="ascii") as handle:
            rows[end] = list(csv.DictReader(handle))
    for way, (source, sink) in {"down": ("drone", "gcs"), "up": ("gcs", "drone")}.items():
        sent = {
            (r["epoch"], r["sequence"]): int(r["t_in_ns"])
            for r in rows[source]
            if r["direction"] == "tx" and r["window"] == "traffic"
        }
        got = {(r["epoch"], r["sequence"]): int(r["t_out_ns"]) for r in rows[sink] if r["direction"] == "rx"}
        found[f"{way} sent"], found[f"{way} lost"] = float(len(sent)), float(len(set(sent) - set(got)))
        found[f"{way} p50"] = median((got[key] - at) / 1e6 for key, at in sent.items() if key in got)
    return found


@pytest.fixture(scope="module")
def cells(root: Path) -> list[tuple[dict[str, Any], Values]]:
    folder = root / "data" / "cells"
    return [(row, of_cell(folder / row["cell_id"])) for row in report_bundle.plan_cells(root)]


@pytest.fixture(scope="module")
def groups(cells: list[tuple[dict[str, Any], Values]]) -> dict[tuple[str, str], Values]:
    """(suite, condition) → medians over its cells."""
    found: dict[tuple[str, str], list[Values]] = defaultdict(list)
    for row, values in cells:
        found[row["suite_id"], row["condition"]].append(values)
    return {key: {name: median(v[name] for v in many) for name in many[0]} for key, many in found.items()}


def table(page: Page, name: str) -> list[dict[str, str]]:
    """Rows by the first word of each head; a head that comes twice keeps its first column."""
    heads = [head.strip() for head in page.rows[name][0]]
    return [dict(zip(reversed(heads), reversed(row), strict=True)) for row in page.rows[name][1:]]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_every_suite_and_condition(page: Page, groups: dict[tuple[str, str], Values]) -> None:
    rows = table(page, "suite-summary")
    assert {(row["suite"], row["condition"]) for row in rows} == set(groups)
    for row in rows:
        due = groups[row["suite"], row["condition"]]
        assert row["cells passed n"] == "3"
        assert number(row["handshake, total ms"]) == pytest.approx(due["drone"], rel=CLOSE)
        assert number(row["of which primitives ms"]) == pytest.approx(due["crypto"], rel=CLOSE)


def test_every_cell(page: Page, cells: list[tuple[dict[str, Any], Values]]) -> None:
    due = {(r["suite_id"], r["condition"], str(r["repetition"] + 1)): values for r, values in cells}
    rows = table(page, "handshake-table")
    assert {(row["suite"], row["condition"], row["rep"]) for row in rows} == set(due)
    for row in rows:
        values = due[row["suite"], row["condition"], row["rep"]]
        assert number(row["n"]) == values["n"]
        told = ("wall drone, median ms", "min ms", "max ms", "wall GCS, median ms", "crypto sum ms")
        for head, name in zip(told, ("drone", "min", "max", "gcs", "crypto"), strict=True):
            assert number(row[head]) == pytest.approx(values[name], rel=CLOSE), (row, head)


def test_two_suites_side_by_side(page: Page, groups: dict[tuple[str, str], Values]) -> None:
    """Each condition has its own primitives: those of the last one used to stand in every row."""
    rows = table(page, "side-by-side")
    assert len(rows) == len(groups)
    for row in rows:
        due = groups[row["suite"].partition(",")[0], row["condition"]]
        assert number(row["handshake ms"]) == pytest.approx(due["drone"], rel=CLOSE)
        for way in ("down", "up"):
            assert number(row[f"latency {way}, p50 ms"]) == pytest.approx(due[f"{way} p50"], rel=CLOSE)
        assert number(row["lost datagrams"]) == due["down lost"] + due["up lost"] == 0
    walls = {(row["suite"].partition(",")[0], row["condition"]): row for row in rows}
    for suite, condition in groups:
        if condition == "other":
            for step in STEPS:
                here, there = (number(walls[suite, name][f"{step} ms"]) for name in ("other", "baseline"))
                assert here / there == pytest.approx(1.5, rel=0.15), (suite, step)


def test_the_traffic_of_every_cell(page: Page, cells: list[tuple[dict[str, Any], Values]]) -> None:
    sent = sorted(number(row["sent datagrams"]) for row in table(page, "traffic-table"))
    assert sent == sorted(values[f"{way} sent"] for _, values in cells for way in ("down", "up"))
    assert {row["lost datagrams"] for row in table(page, "traffic-table")} == {"0"}


def test_drawings_show_one_condition_and_its_numbers(
    page: Page, groups: dict[tuple[str, str], Values]
) -> None:
    """A mark a suite cannot stand for two conditions at once."""
    for name in ("fig-handshake-suites", "fig-handshake-groups", "fig-pareto"):
        assert "condition baseline" in page.text_of[name], name
    bars = page.text_of["fig-handshake-suites"]
    for (suite, condition), values in groups.items():
        at = bars.index(suite.removeprefix("cs-"))
        told = [float(text) for text in re.findall(r"\d+(?:\.\d+)?", bars[at + len(suite) - 3 :])]
        close = any(value == pytest.approx(values["drone"], rel=CLOSE) for value in told)
        assert close == (condition == "baseline"), (suite, condition, told)
    phi = page.text_of["fig-phi"]
    assert "condition baseline" in phi
    assert "Classic-McEliece, fastest" in phi
    assert "Classic-McEliece, slowest" not in phi, "two curves of one suite"


def test_published_values_stand_beside_the_first_condition(
    root: Path, cells: list[tuple[dict[str, Any], Values]], groups: dict[tuple[str, str], Values]
) -> None:
    path = root / "data" / "analysis" / "comparison.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    of_suites = {"handshake, total": "drone", "handshake, baseline": "drone", "crypto sum, floor": "crypto"}
    seen = set()
    for row in rows:
        if row["quantity"] in of_suites:
            due = groups[row["subject"], "baseline"][of_suites[row["quantity"]]]
            assert float(row["measured"]) == pytest.approx(due, rel=1e-6), row
            assert row["measured_n"] == "3"
            seen.add(row["quantity"])
        elif row["quantity"] == "handshake by group, median" and row["subject"] in GROUPS:
            part = GROUPS[row["subject"]]
            walls = [v["drone"] for r, v in cells if r["condition"] == "baseline" and part in r["suite_id"]]
            assert float(row["measured"]) == pytest.approx(median(walls), rel=1e-6), row
            assert row["measured_n"] == str(len(walls))
            seen.add(row["subject"])
    assert seen == {*of_suites, *GROUPS}


def plain(part: str) -> str:
    """A field of a pipe table without link, escapes and entities."""
    return html.unescape(re.sub(r"\\(.)", r"\1", re.sub(r"\[(.*?)\]\([^)]*\)", r"\1", part))).strip()


def test_markdown_prints_the_same_tables(page: Page, root: Path) -> None:
    """Every table of the page with an id, cell by cell."""
    text = (root / "data" / "report.md").read_text(encoding="utf-8")
    lines = [
        [plain(part) for part in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    known = {tuple(line) for line in lines}
    seen = 0
    for name, rows in page.rows.items():
        if name.startswith("cell-") or name == "matrix":
            continue
        for row in rows[1:]:
            seen += 1
            assert tuple(cell.strip() for cell in row) in known, (name, row)
    assert seen > 100
