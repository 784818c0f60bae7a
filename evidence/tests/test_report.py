"""The report: same bytes anywhere, nothing fetched or invented, hostile text harmless, numbers traceable."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import report_bundle
import yaml
from measures.power import power_bundle
from report_page import Page

from pqevidence.errors import LabError
from pqevidence.pages import render
from pqevidence.report import blocks
from pqevidence.report.sections import context, suites
from pqevidence.report.source import Source


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = report_bundle.make_bundle(tmp_path_factory.mktemp("report") / "run", repetitions=3)
    render(root)
    return root


@pytest.fixture(scope="module")
def page(smoke: Path) -> str:
    return (smoke / "data" / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def all_page(bundle_of_all_suites: Path) -> str:
    return (bundle_of_all_suites / "data" / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def all_parsed(all_page: str) -> Page:
    return Page(all_page)


@pytest.fixture(scope="module")
def parsed(page: str) -> Page:
    return Page(page)


def test_same_bytes_in_another_folder_zone_and_language(smoke: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "Ünusual folder" / "moved"
    shutil.copytree(smoke, elsewhere)
    code = (
        "import sys; from pathlib import Path; from pqevidence.pages import render; "
        "render(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    for number, (zone, language) in enumerate(
        (("Pacific/Kiritimati", "C"), ("America/St_Johns", "de_DE.UTF-8"))
    ):
        out = tmp_path / f"out{number}"
        environment = {
            **os.environ,
            "TZ": zone,
            "LANG": language,
            "LC_ALL": language,
            "PYTHONHASHSEED": str(number),
        }
        subprocess.run(
            [sys.executable, "-c", code, str(elsewhere), str(out)],
            check=True,
            env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=tmp_path,
            timeout=60,
        )
        for name in ("report.html", "report.md"):
            assert (out / name).read_bytes() == (smoke / "data" / name).read_bytes(), (name, zone)


def test_nothing_is_fetched(page: str) -> None:
    assert "http:" not in page
    assert "https:" not in page
    assert "//" not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    for tag, values in Page(page).tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in values
    assert "@import" not in page
    assert "url(" not in page


def test_page_nests_and_ids_are_unique(parsed: Page, all_parsed: Page, all_page: str) -> None:
    for tree in (parsed, all_parsed):
        assert len(tree.ids) == len(set(tree.ids))
        anchors = [link[1:] for link in tree.links if link.startswith("#")]
        assert anchors
        assert set(anchors) <= set(tree.ids)
    assert len(all_page.encode()) < 10_000_000


def test_links_lead_to_files_of_the_bundle(parsed: Page, smoke: Path) -> None:
    files = {link for link in parsed.links if not link.startswith("#")}
    assert any(link.endswith("spans.ndjson") for link in files)
    for link in files:
        assert (smoke / "data" / link).is_file(), link


def test_tables_have_captions_scopes_and_units(parsed: Page) -> None:
    tables = sum(1 for tag, _ in parsed.tags if tag == "table")
    captions = sum(1 for tag, _ in parsed.tags if tag == "caption")
    assert tables == captions > 15
    assert all(values.get("scope") for tag, values in parsed.tags if tag == "th")
    svgs = [values for tag, values in parsed.tags if tag == "svg"]
    assert len(svgs) >= 4
    for values in svgs:
        for name in str(values["aria-labelledby"]).split():
            assert parsed.text_of[name].strip()
    heads = parsed.rows["handshake-table"][0]
    assert [head.split()[-1] for head in heads if head.startswith(("wall drone", "p95", "crypto"))] == [
        "ms"
    ] * 3


def test_summary_numbers_recompute_from_raw_spans(parsed: Page, smoke: Path) -> None:
    rows = {row[0].strip(): row for row in parsed.rows["suite-summary"][1:]}
    by_suite: dict[str, list[float]] = {}
    crypto_of: dict[str, list[float]] = {}
    for cell in report_bundle.plan_cells(smoke):
        walls: list[float] = []
        crypto: dict[str, float] = {}
        path = smoke / "data" / "cells" / cell["cell_id"] / "spans.ndjson"
        for line in path.read_text(encoding="utf-8").splitlines():
            span = json.loads(line)
            length_ms = (span["end_ns"] - span["start_ns"]) / 1e6
            if span["step"] == "handshake" and span["host"] == "drone":
                walls.append(length_ms)
            elif span["kind"] == "crypto":
                crypto[span["handshake_id"]] = crypto.get(span["handshake_id"], 0.0) + length_ms
        by_suite.setdefault(cell["suite_id"], []).append(statistics.median(walls))
        crypto_of.setdefault(cell["suite_id"], []).append(statistics.median(crypto.values()))
    assert set(rows) == set(by_suite)
    for suite, values in by_suite.items():
        assert rows[suite][1] == "3"
        assert float(rows[suite][2]) == pytest.approx(statistics.median(values), rel=6e-3)
        assert float(rows[suite][3]) == pytest.approx(statistics.median(crypto_of[suite]), rel=6e-3)
        assert float(rows[suite][4]) == pytest.approx(600 * 1200 * 8 / 1e6, rel=6e-3)


def test_missing_prints_its_reason_and_never_a_number(page: str) -> None:
    parsed = Page(page)
    for row in parsed.rows["suite-detail"][1:]:
        assert "not measured: no thermal zone" in row
    for row in parsed.rows["cpu-table"][1:]:
        assert any(cell == "not measured: no thermal zone" for cell in row)
    empty = [
        row for name, rows in parsed.rows.items() for row in rows if any(not cell.strip() for cell in row)
    ]
    assert all(len(row) > 3 for row in empty), "only the matrix may leave a field empty"
    assert "None" not in re.sub(r"<style>.*?</style>|<script>.*?</script>", "", page, flags=re.S)
    assert ">nan<" not in page


def test_a_bundle_without_telemetry_prints_no_zero(tmp_path: Path) -> None:
    def strip(root: Path) -> None:
        for path in root.glob("data/cells/*/telemetry.*.lp"):
            path.unlink()

    root = report_bundle.make_bundle(tmp_path / "run", edit=strip, bulk=False, handshakes=5)
    parsed = Page(render(root)[0].read_text(encoding="utf-8"))
    assert "no telemetry" in parsed.text_of["cell-list"]
    for row in parsed.rows["cpu-table"][1:]:
        assert not any(cell in {"0", "0.0", "0.00"} for cell in row[2:])
        assert any("not measured: no telemetry in this cell" in cell for cell in row)


def test_a_bundle_without_bulk_says_so(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", bulk=False, handshakes=5)
    parsed = Page(render(root)[0].read_text(encoding="utf-8"))
    assert "throughput-table" not in parsed.ids
    for row in parsed.rows["suite-summary"][1:]:
        assert "not measured: no bulk window" in row


def test_no_supply_figures_in_ring_lab(page: str, all_page: str) -> None:
    for text in (page, all_page):
        words = re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]+>", " ", text, flags=re.S)
        assert not re.search(r"\d\s*(?:[mµ]?[WJ])\b", words)
        assert not re.search(r"\b(?:watts?|joules?)\b", words, re.I)
        assert "Power and energy columns are left out" in words


def test_every_number_group_names_its_ring(page: str) -> None:
    assert page.count("<caption>") + page.count("<figcaption>") == len(
        re.findall(r"<(?:fig)?caption>(?:(?!</(?:fig)?caption>).)*ring lab", page, flags=re.S)
    )


def test_unsupported_and_unrun_cells_are_named_and_have_no_number(tmp_path: Path) -> None:
    def take_away(root: Path) -> None:
        first, second, _ = report_bundle.plan_cells(root)
        for cell, event in ((first, "unsupported"), (second, "not-run")):
            folder = root / "data" / "cells" / cell["cell_id"]
            row = json.loads((folder / "events.ndjson").read_text(encoding="utf-8").splitlines()[0])
            shutil.rmtree(folder)
            folder.mkdir()
            row.update(event=event, reason=f"why it is {event}", host="controller")
            (folder / "events.ndjson").write_text(json.dumps(row) + "\n", encoding="utf-8")

    root = report_bundle.make_bundle(tmp_path / "run", edit=take_away, handshakes=5)
    tree = Page(render(root)[0].read_text(encoding="utf-8"))
    counts = dict(re.findall(r"(\d+)\s+([a-z-]+)", tree.text_of["verdict-counts"]))
    assert sorted(re.findall(r"\d+", tree.text_of["verdict-counts"])) == ["0", "0", "1", "1", "1"], counts
    findings = tree.text_of["findings-list"]
    assert "why it is unsupported" in findings
    assert "why it is not-run" in findings
    verdict = next(i for i, head in enumerate(tree.rows["suite-summary"][0]) if head.startswith("verdict"))
    for row in tree.rows["suite-summary"][1:]:
        if row[verdict] != "pass":
            assert row[1] == "0"
            assert all(cell.startswith("not measured: ") for cell in row[2:verdict]), row
    assert len([row for row in tree.rows["matrix"] if {"U", "–"} & set(row)]) == 2


def test_reasons_that_recur_move_below_the_table() -> None:
    long = "this is a rather long reason that would make every row of the table tall"
    cells = tuple((blocks.label(str(i)), blocks.missing(long)) for i in range(3))
    table = blocks.Table("t", "c", (blocks.Column("a"), blocks.Column("b")), cells, "lab", note="Note.")
    small = blocks.compact(table)
    assert [row[1].text for row in small.rows] == ["not measured: reason a"] * 3
    assert small.note == f"Note. Reason a: {long}."
    assert blocks.compact(blocks.Table("t", "c", table.columns, cells[:2], "lab")).rows == cells[:2]


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)> & | [x](javascript:alert(3))'


def test_hostile_strings_stay_text(tmp_path: Path) -> None:
    def poison(root: Path) -> None:
        data = root / "data"
        scenario = yaml.safe_load((data / "scenario.effective.yml").read_text(encoding="utf-8"))
        scenario["title"] = HOSTILE
        scenario["conditions"][0]["name"] = HOSTILE
        (data / "scenario.effective.yml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
        providers = json.loads((data / "providers.json").read_text(encoding="utf-8"))
        providers["images"] = {HOSTILE: HOSTILE}
        providers["drone"]["openssl"] = HOSTILE
        (data / "providers.json").write_text(json.dumps(providers), encoding="utf-8")
        for role in ("drone", "gcs", "controller"):
            path = data / "hosts" / f"{role}.json"
            host = json.loads(path.read_text(encoding="utf-8"))
            host["host"]["cpu_model"] = HOSTILE
            for sensor in host.get("sensors", []):
                sensor["reason"] = HOSTILE
            path.write_text(json.dumps(host), encoding="utf-8")
        for path in data.glob("cells/*/events.ndjson"):
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            rows.insert(-1, {**rows[-1], "event": "error", "reason": HOSTILE})
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    root = report_bundle.make_bundle(tmp_path / "run", edit=poison, bulk=False, handshakes=5)
    html, markdown = render(root)
    text = html.read_text(encoding="utf-8")
    parsed = Page(text)
    assert text.count("<script>") == 1
    assert not [tag for tag, _ in parsed.tags if tag == "img"]
    assert not [link for link in parsed.links if link.startswith("javascript")]
    assert not [name for _, values in parsed.tags for name in values if name.startswith("on")]
    assert "<script>" not in markdown.read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)\]\(javascript", markdown.read_text(encoding="utf-8"))
    assert "fail" in parsed.text_of["findings-list"]


def test_findings_are_silent_where_nothing_is_distinguishable(parsed: Page) -> None:
    text = parsed.text_of["findings-list"]
    assert "9 of 9 cells passed" in text
    assert "in place of" not in text


def test_findings_name_effect_n_ring_and_cells(all_parsed: Page) -> None:
    text = " ".join(all_parsed.text_of["findings-list"].split())
    assert "With SPHINCS+ in place of ML-DSA" in text
    assert "n = 27 pairs of suites, 27 of cells" in text
    assert "AES-256-GCM" not in text, "AEADs differ by nothing here"
    assert len(all_parsed.rows["handshake-table"]) == 73


def test_verdict_counts_sum_to_the_plan(parsed: Page, smoke: Path) -> None:
    counts = [int(n) for n in re.findall(r"\d+", parsed.text_of["verdict-counts"])]
    assert sum(counts) == len(report_bundle.plan_cells(smoke)) == 9


def add_rungs(root: Path) -> None:
    """Turn the one bulk window into a ladder of three whose last rung loses a tenth."""
    for folder in (root / "data" / "cells").iterdir():
        traffic = json.loads((folder / "traffic.json").read_text(encoding="utf-8"))
        counters = json.loads((folder / "counters.json").read_text(encoding="utf-8"))
        for factor in (2, 4):
            name = f"bulk-{600 * factor}"
            report = json.loads(json.dumps(traffic["windows"]["bulk-600"]))
            report["spec"]["rate_hz"] = 600 * factor
            traffic["windows"][name] = report
            for role in ("drone", "gcs"):
                row = dict(counters[role]["windows"]["bulk-600"])
                row = {k: v * factor if isinstance(v, int) else v for k, v in row.items()}
                if factor == 4 and role == "gcs":
                    row["plaintext_out"] = row["plaintext_out"] * 9 // 10
                    row["plaintext_out_bytes"] = row["plaintext_out_bytes"] * 9 // 10
                counters[role]["windows"][name] = row
        (folder / "traffic.json").write_text(json.dumps(traffic), encoding="utf-8")
        (folder / "counters.json").write_text(json.dumps(counters), encoding="utf-8")


def test_ladder_draws_goodput_and_marks_the_knee(smoke: Path, tmp_path: Path) -> None:
    root = tmp_path / "ladder"
    shutil.copytree(smoke, root)
    add_rungs(root)
    report_bundle.analyse(root)
    parsed = Page(render(root)[0].read_text(encoding="utf-8"))
    assert "fig-throughput" in parsed.ids
    knees = [row for row in parsed.rows["throughput-table"][1:] if "knee" in row]
    assert len(knees) == 9
    assert all("1,200" in row for row in knees)


def test_one_mark_a_suite_takes_nothing_from_a_second_condition(tmp_path: Path) -> None:
    conditions = tuple({"name": name, "detector": "none", "link": "none"} for name in ("base", "other"))
    root = power_bundle.make(tmp_path / "run", repetitions=1, bulk=True, conditions=conditions)
    add_rungs(root)

    def shown() -> tuple[dict[str, str], str]:
        report_bundle.analyse(root)
        text = render(root)[0].read_text(encoding="utf-8")
        page = Page(text)
        drawn = dict(re.findall(r'<figure id="([\w-]+)">(.*?)</figure>', text, re.S))
        picked = {name: drawn[name] for name in ("fig-throughput", "fig-supply")}
        assert all("condition base" in figure for figure in picked.values())
        averages = page.text_of["supply-averages"]
        assert "passed, condition base" in averages
        return {**picked, "averages": averages}, page.text_of["throughput-table"]

    before, table = shown()
    for cell in report_bundle.plan_cells(root):
        if cell["condition"] == "other":
            folder = root / "data" / "cells" / cell["cell_id"]
            counters = json.loads((folder / "counters.json").read_text(encoding="utf-8"))
            for name, row in counters["gcs"]["windows"].items():
                if name.startswith("bulk"):
                    row["plaintext_out_bytes"] //= 2
            (folder / "counters.json").write_text(json.dumps(counters), encoding="utf-8")
            record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
            for name in ("power_mean_w", "energy_gross_j"):
                record["categories"]["P"][name]["value"] *= 2
            (folder / "record.json").write_text(json.dumps(record), encoding="utf-8")
    after, other_table = shown()
    assert table != other_table
    assert before == after


def test_a_bundle_that_was_not_analysed_says_what_to_do(smoke: Path, tmp_path: Path) -> None:
    root = tmp_path / "bare"
    shutil.copytree(smoke, root)
    shutil.rmtree(root / "data" / "analysis")
    with pytest.raises(LabError) as error:
        render(root)
    assert error.value.code == "no-analysis"
    assert "pqlab" in error.value.hint


def test_markdown_holds_the_same_summary(parsed: Page, smoke: Path) -> None:
    text = (smoke / "data" / "report.md").read_text(encoding="utf-8")
    for row in parsed.rows["suite-summary"][1:]:
        assert any(all(cell in line for cell in row[1:5]) for line in text.splitlines() if row[0] in line)


def test_averages_stay_within_their_condition(tmp_path: Path) -> None:
    names = ("baseline", "other")
    conditions = tuple({"name": name, "detector": "none", "link": "none"} for name in names)
    root = report_bundle.make_bundle(tmp_path / "run", repetitions=3, conditions=conditions)
    source = Source(root)
    section = suites.suite_benchmark(source)
    sentences = next(b for b in section.blocks if isinstance(b, blocks.Paragraphs)).sentences
    for name in names:
        begins = f"Average handshake of the cells that passed under {name}:"
        told = [sentence for sentence in sentences if sentence.startswith(begins)]
        passed = [c for c in source.bundle.cells if c.condition == name and c.verdict == "pass"]
        assert len(told) == 1 and f"n = {len(passed)} cells" in told[0]


def test_a_page_is_made_where_no_cell_of_the_first_condition_has_a_value(tmp_path: Path) -> None:
    def without_spans(root: Path) -> None:
        plan = json.loads((root / "data" / "plan.json").read_text(encoding="utf-8"))
        for row in plan["cells"]:
            if row["condition"] == "baseline":
                (root / "data" / "cells" / row["cell_id"] / "spans.ndjson").write_text("", encoding="utf-8")

    conditions = tuple({"name": name, "detector": "none", "link": "none"} for name in ("baseline", "other"))
    root = report_bundle.make_bundle(
        tmp_path / "run", repetitions=3, conditions=conditions, bulk=False, edit=without_spans
    )
    kept, words = Source(root).of_one_condition(Source(root).rows("phi"))
    assert {row["condition"] for row in kept} == {"other"} and "other" in words
    render(root)
    assert (root / "data" / "report.html").is_file()


def test_the_model_of_rekeys_says_whether_there_were_any(smoke: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(smoke, root)
    assert context.rekeys_told(Source(root)) == "no rekey was performed"
    (root / "data" / "analysis" / "rekeys.csv").touch()
    assert "section on rekeys" in context.rekeys_told(Source(root))
