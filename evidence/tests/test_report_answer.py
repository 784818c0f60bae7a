"""What a report says first: numbers from the raw files, oddities in sentences, words explained."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import pytest
import report_bundle
from report_page import Page

from pqevidence.pages import build, render
from pqevidence.report.blocks import Figure, Paragraphs, Section, Table
from pqevidence.report.ranks import Rank, Ranking, narrow, wide
from pqevidence.report.sections.answer import MOST_ROWS
from pqevidence.report.source import Source
from pqevidence.report.words import GLOSSARY, with_words

CLOSE = 6e-3  # what is printed has three digits


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_bundle.make_bundle(tmp_path_factory.mktemp("answer") / "run", repetitions=3)


def figure_of(root: Path) -> Figure:
    answer = build(Source(root)).answer
    assert answer is not None
    (found,) = [block for block in answer.blocks if isinstance(block, Figure)]
    return found


def sentences(root: Path, block_id: str) -> tuple[str, ...]:
    answer = build(Source(root)).answer
    assert answer is not None
    (found,) = [b for b in answer.blocks if isinstance(b, Paragraphs) and b.id == block_id]
    return found.sentences


def lines_of(drawing: str) -> list[list[str]]:
    """Texts of each row that leads to a cell."""
    root = ElementTree.fromstring(drawing)
    return [[text.text or "" for text in row.iter("text")] for row in root.iter("a")]


def test_each_row_recomputes_from_the_raw_files(smoke: Path) -> None:
    walls: dict[str, list[float]] = {}
    late: dict[str, list[float]] = {}
    for cell in report_bundle.plan_cells(smoke):
        folder = smoke / "data" / "cells" / cell["cell_id"]
        spans = [json.loads(line) for line in (folder / "spans.ndjson").read_text().splitlines()]
        own = [
            (s["end_ns"] - s["start_ns"]) / 1e6
            for s in spans
            if (s["step"], s["host"]) == ("handshake", "drone")
        ]
        walls.setdefault(cell["suite_id"], []).append(median(own))
        rows = {}
        for end in ("drone", "gcs"):
            with (folder / f"ledger.{end}.csv").open(newline="") as handle:
                rows[end] = list(csv.DictReader(handle))
        came = {r["sequence"]: int(r["t_out_ns"]) for r in rows["gcs"] if r["direction"] == "rx"}
        delays = [
            (came[r["sequence"]] - int(r["t_in_ns"])) / 1e6
            for r in rows["drone"]
            if (r["direction"], r["window"]) == ("tx", "traffic")
        ]
        late.setdefault(cell["suite_id"], []).append(median(delays))
    rows = lines_of(figure_of(smoke).svg)
    due = {suite.removeprefix("cs-"): median(values) for suite, values in walls.items()}
    assert [row[0] for row in rows] == sorted(due, key=lambda name: due[name])
    for name, time, lost, p50, p99 in rows:
        assert float(time) == pytest.approx(due[name], rel=CLOSE)
        assert float(p50) == pytest.approx(median(late[f"cs-{name}"]), rel=CLOSE)
        assert lost == "0 %" and float(p99) > float(p50)


def test_the_answer_stands_before_everything_else(smoke: Path) -> None:
    page = render(smoke)[0].read_text(encoding="utf-8")
    begin = page.index('id="answer"')
    assert begin < page.index("<nav") < page.index('id="findings"')
    assert page.index('id="run-facts"') > page.index('id="cell-list"'), "what ran where comes last"
    parsed = Page(page)
    assert (
        "3 suites under condition baseline, 3 times each: 9 of 9 cells passed." in parsed.text_of["compared"]
    )
    assert parsed.text_of["odd"].startswith("Nothing odd")
    assert parsed.ids.index("fig-answer") < parsed.ids.index("findings-list")


def test_lost_datagrams_are_a_share_of_those_sent(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", bulk=False)
    source = Source(root)
    row = next(r for r in source.rows("traffic") if r["direction"] == "down")
    row["lost_count"], row["latency_p99_ms"] = "8", ""  # read once, and kept
    sent = sum(int(r["sent_count"]) for r in source.rows("traffic") if r["suite_id"] == row["suite_id"])
    answer = build(source).answer
    assert answer is not None
    (figure,) = [block for block in answer.blocks if isinstance(block, Figure)]
    (line,) = [li for li in lines_of(figure.svg) if li[0] == row["suite_id"].removeprefix("cs-")]
    assert float(line[2].removesuffix(" %")) == pytest.approx(100 * 8 / sent, rel=CLOSE)
    assert line[4] == "n too small"


def test_the_sentence_names_the_shortest_and_the_longest(smoke: Path) -> None:
    source = Source(smoke)
    source.rows("by_suite").reverse()  # read once, and kept
    source.rows("by_suite")[1]["median_ms"] = "0.0125"
    answer = build(source).answer
    assert answer is not None and isinstance(answer.blocks[0], Paragraphs)
    values = {float(row["median_ms"]): row["suite_id"] for row in source.rows("by_suite")}
    names = [values[end].removeprefix("cs-") for end in (min(values), max(values))]
    (told,) = answer.blocks[0].sentences
    assert f"is 0.0125 ms, of {names[0]}; the longest is" in told and f"ms, of {names[1]} (medians)." in told


def test_the_way_up_and_cells_that_failed_are_not_beside(tmp_path: Path) -> None:
    source = Source(report_bundle.make_bundle(tmp_path / "run", bulk=False))

    def drawn() -> str:
        answer = build(source).answer
        assert answer is not None
        (figure,) = [block for block in answer.blocks if isinstance(block, Figure)]
        return figure.svg

    before = drawn()
    for row in source.rows("traffic"):
        if row["direction"] == "up":
            row["latency_p50_ms"] = row["latency_p99_ms"] = "99"
    failed = {**source.rows("handshakes")[0], "verdict": "fail", "drone_wall_min_ms": "0.0001"}
    source.rows("handshakes").append(failed)
    lost = {**source.rows("traffic")[0], "verdict": "invalid", "lost_count": "7"}
    source.rows("traffic").append(lost)
    assert drawn() == before


def test_few_cells_have_a_range_and_no_interval(tmp_path: Path, smoke: Path) -> None:
    once = figure_of(report_bundle.make_bundle(tmp_path / "run", bulk=False))
    assert "single values from" in once.svg and "interval of the mean" not in once.svg
    assert 'class="spread' in once.svg and 'class="interval' not in once.svg
    thrice = figure_of(smoke)
    assert 'class="interval' in thrice.svg and 'class="spread' not in thrice.svg


def test_a_narrow_window_has_the_same_rows(smoke: Path) -> None:
    figure = figure_of(smoke)
    texts = [line[0] for line in lines_of(figure.svg.narrow)]
    assert texts == [line[0] for line in lines_of(figure.svg)]
    for few, many in zip(lines_of(figure.svg.narrow), lines_of(figure.svg), strict=True):
        assert few[1] == f"{many[1]} ms"
        assert few[2] == f"lost {many[2]}, p50 {many[3]}, p99 {many[4]}"


def test_of_many_suites_the_fastest_and_the_slowest_are_shown(bundle_of_all_suites: Path) -> None:
    figure = figure_of(bundle_of_all_suites)
    for drawing in (figure.svg, figure.svg.narrow):
        assert len(lines_of(drawing)) == MOST_ROWS
        assert f"{72 - MOST_ROWS} suites between them" in drawing
    source = Source(bundle_of_all_suites)
    ordered = sorted(source.rows("by_suite"), key=lambda r: (float(r["median_ms"]), r["suite_id"]))
    names = [row["suite_id"].removeprefix("cs-") for row in ordered]
    shown = [line[0] for line in lines_of(figure.svg)]
    assert shown[:9] == names[:9] and shown[9:] == names[-5:]


def test_what_is_odd_is_told_in_sentences(tmp_path: Path) -> None:
    def spoil(root: Path) -> None:
        first, second, _ = report_bundle.plan_cells(root)
        path = root / "data" / "cells" / first["cell_id"] / "counters.json"
        counters = json.loads(path.read_text(encoding="utf-8"))
        counters["gcs"]["windows"]["traffic"]["digest_rx"] = "0" * 16
        path.write_text(json.dumps(counters), encoding="utf-8")
        again = root / "data" / "cells" / second["cell_id"] / "attempt-1"
        again.mkdir()
        (again / "record.json").write_text(json.dumps({"verdict": "invalid", "reason": "steal was 9 %"}))
        path = root / "data" / "run.json"
        run = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**run, "warnings": ["the database had fewer points"]}), encoding="utf-8")

    root = report_bundle.make_bundle(tmp_path / "run", edit=spoil, bulk=False)
    told = sentences(root, "odd")
    failed, repeated, warned = told
    assert failed.startswith("1 cell failed (")
    assert repeated.startswith("1 cell was measured again (") and repeated.endswith("steal was 9 %")
    assert warned == "The database had fewer points."
    assert "2 of 3 cells passed" in sentences(root, "compared")[0]


def test_where_nothing_passed_it_says_so(tmp_path: Path) -> None:
    def forget(root: Path) -> None:
        for cell in report_bundle.plan_cells(root):
            folder = root / "data" / "cells" / cell["cell_id"]
            row = json.loads((folder / "events.ndjson").read_text(encoding="utf-8").splitlines()[0])
            shutil.rmtree(folder)
            folder.mkdir()
            row.update(event="not-run", reason="the run was stopped", host="controller")
            (folder / "events.ndjson").write_text(json.dumps(row) + "\n", encoding="utf-8")

    root = report_bundle.make_bundle(tmp_path / "run", edit=forget)
    page = Page(render(root)[0].read_text(encoding="utf-8"))
    assert "0 of 3 cells passed. There is no time to show." in page.text_of["compared"]
    assert "fig-answer" not in page.ids
    assert "3 cells did not run" in page.text_of["odd"] and "the run was stopped" in page.text_of["odd"]


def test_times_that_are_no_claim_are_not_ranked(smoke: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(smoke, root)
    path = root / "data" / "hosts" / "drone.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**facts, "host": {**facts["host"], "emulated": "qemu-user"}}))
    report_bundle.analyse(root)
    page = Page(render(root)[0].read_text(encoding="utf-8"))
    assert "fig-answer" not in page.ids
    assert "no claim, so suites are not ranked" in page.text_of["compared"]
    assert " ms" not in page.text_of["compared"]


def test_one_is_singular(tmp_path: Path) -> None:
    suite = ("cs-mlkem768-aesgcm-mldsa65",)
    root = report_bundle.make_bundle(tmp_path / "run", suites=suite, repetitions=2, bulk=False)
    for path in render(root):
        text = re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]+>", " ", path.read_text(), flags=re.S)
        wrong = re.findall(
            r"(?<![\d.,/])1 (?:suites|cells|rows|curves|lines|groups|conditions|panels)\b", text
        )
        assert wrong == []


# ---------------------------------------------------------------------- words


def test_a_word_is_explained_where_it_is_first_used(smoke: Path) -> None:
    told = [term for section in build(Source(smoke)).parts for term, _ in section.words]
    assert len(told) == len(set(told))
    assert {"suite", "cell", "ring", "span cover", "Φ(R)"} <= set(told)
    assert {term for term, _ in build(Source(smoke)).parts[0].words} >= {"suite", "cell", "ring"}


def test_words_come_once_and_only_where_they_are_used() -> None:
    table = Table("t", "A table", (), (), "lab", note="Beyond the noise floor.")
    first, second, third = with_words(
        [
            Section("a", "Of cells", ()),
            Section("b", "Of a cell", (table,)),
            Section("c", "Excellent", (), "A canary sang."),
        ]
    )
    assert [term for term, _ in first.words] == ["cell"]
    assert [term for term, _ in second.words] == ["ring", "noise floor"]
    assert [term for term, _ in third.words] == ["canary"]
    assert third.words[0][1] == GLOSSARY["canary"][1]


# ---------------------------------------------------------------------- questions, folds


def test_sections_stand_under_questions_and_tables_under_their_drawing(smoke: Path) -> None:
    report = build(Source(smoke))
    questions = [question for question, _ in report.chapters]
    assert all(question.endswith("?") for question in questions)
    assert questions.index("How long until a link?") < questions.index("What does a packet cost?")
    assert questions[-1] == "Where do these numbers come from?"
    for section in report.sections:
        drawn = any(isinstance(block, Figure) for block in section.blocks)
        for block in section.blocks:
            if isinstance(block, Table) and drawn:
                assert block.collapsed, block.id


def test_rows_are_drawn_to_scale() -> None:
    rows = (
        Rank("a", "ML-KEM", 1.0, (0.5, 2.0), None, ("0 %",), "#a"),
        Rank("b", None, 100.0, None, (10.0, 100.0), ("–",), "#b"),
    )
    ranking = Ranking(rows, ("lost",), "ms", omitted=(1, 3))
    for draw in (wide, narrow):
        root = ElementTree.fromstring(draw("f", "title", ranking))
        dots = [float(one.attrib["cx"]) for one in root.iter("circle")]
        spans = {
            one.attrib["class"].split()[0]: (float(one.attrib["x1"]), float(one.attrib["x2"]))
            for one in root.iter("line")
            if one.attrib["class"].split()[0] in ("interval", "spread")
        }
        decade = (dots[1] - dots[0]) / 2
        assert spans["spread"] == pytest.approx((dots[1] - decade, dots[1]), abs=0.1)
        assert sum(spans["interval"]) / 2 == pytest.approx(dots[0], abs=0.1)
        assert "3 suites between them" in "".join(text.text or "" for text in root.iter("text"))
