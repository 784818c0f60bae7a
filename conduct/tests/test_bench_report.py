"""The bench bundle: every published table with its third column, honest about sensors, checked from raw."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from printed_numbers import Printed, lost_numbers
from report_page import Page

from pqbase.stats import median_interval
from pqevidence.analysis.table import read_rows
from pqevidence.errors import LabError
from pqlab.bench import bundle
from pqlab.bench.tree import BenchTreeError
from pqlab.cli.main import main

POWER = re.compile(r"\b[\d.,]+\s*(?:W|J|mW|mJ|µJ|watts?|joules?)\b|\bwatts?\b|\bjoules?\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def made(bench_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "bundle"
    assert all(check.passed for check in bundle.write(bench_tree, None, None, out))
    return out


@pytest.fixture(scope="module")
def tree(bench_tree: Path) -> Path:
    return bench_tree


@pytest.fixture(scope="module")
def powered(powered_bench: Path) -> Path:
    return powered_bench


def page_of(root: Path) -> Page:
    return Page((root / "data" / "report.html").read_text(encoding="utf-8"))


def rows_of(root: Path, name: str) -> list[dict[str, str]]:
    with (root / "data" / "analysis" / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_every_published_table_is_there_with_its_third_column(made: Path) -> None:
    page = page_of(made)
    for table, count in (("bench-kem", 27), ("bench-sig", 24), ("bench-aead", 24), ("bench-suites", 23)):
        rows = page.rows[table][1:]
        assert len(rows) == count, table
        assert all("not in" not in row[2] for row in rows), table
    assert len(page.rows["bench-kem-sizes"]) == 10 and len(page.rows["bench-sig-sizes"]) == 9
    first = next(row for row in page.rows["bench-kem"] if row[0] == "ML-KEM-512 keygen")
    assert first[2] == "0.0817" and first[-2:] == ["lab", "bench-host"]
    order = [row[0] for row in page.rows["ladder-sha"][1:]]
    assert order == [f"hash {64 * 2**k} B" for k in range(10)]
    assert "not inside the timer" in page.text_of["ladder-remarks"]


def test_every_number_of_both_pages_is_in_the_table_it_links(made: Path, powered: Path) -> None:
    for root in (made, powered):
        data = root / "data"
        printed = Printed((data / "report.html").read_text(encoding="utf-8"))
        assert sum(map(len, printed.numbers.values())) > 500

        def content(link: str, data: Path = data) -> str:
            return (data / link).read_text(encoding="utf-8")

        assert lost_numbers(printed, content, 1e6) == []


def test_tables_hold_ring_host_n_and_the_published_value(made: Path) -> None:
    rows = rows_of(made, "times")
    assert len(rows) == 98
    assert all(r["ring"] == "lab" and r["host"] == "bench-host" and r["n"] == "24" for r in rows)
    assert all(r["published_median_ms"] for r in rows)


def test_without_a_sensor_the_page_holds_no_power_and_says_why(made: Path) -> None:
    for name in ("report.html", "report.md"):
        text = (made / "data" / name).read_text(encoding="utf-8")
        body = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)
        assert POWER.findall(re.sub(r"<[^>]+>", " ", body)) == [], name
        assert "no power sensor took part" in text
    assert not (made / "data" / "analysis" / "energy.csv").exists()


def test_a_model_marks_the_page_synthetic_and_recommends_nothing_on_energy(powered: Path) -> None:
    page = page_of(powered)
    rows = {row[0]: row for row in page.rows["energy-kem"][1:]}
    assert rows["ML-KEM-512 keygen"][-2] == "synthetic"
    assert page.rows["energy-aead"][1][1] == "not resolvable"
    text = (powered / "data" / "report.md").read_text(encoding="utf-8")
    assert "Nothing in this section was measured" in text and "takes the least energy" not in text
    (row,) = [r for r in rows_of(powered, "energy") if r["algorithm"] == "AES-256-GCM"]
    assert row["energy_j"] == "" and row["resolvable"] == "false" and "not resolvable" in row["reason"]
    (keygen,) = [r for r in rows_of(powered, "energy") if r["operation"] == "keygen"]
    assert abs(float(keygen["energy_j"]) - 5.1 * 0.3 * 0.02) < 1e-3


def test_the_boards_own_column_stands_beside_the_published_one(powered: Path) -> None:
    page = page_of(powered)
    rows = {row[0]: row for row in page.rows["ladder-sha"][1:]}
    assert rows["hash 64 B"][3] == "14.0" and rows["hash 256 B"][3] == "not measured: not in the log"
    assert "line 2" in page.text_of["ladder-remarks"] and "cut off" in page.text_of["ladder-remarks"]


def test_recommendations_name_only_what_lies_apart(made: Path) -> None:
    text = (made / "data" / "report.md").read_text(encoding="utf-8")
    assert "key exchange, level 1: ML-KEM-512 takes the least time" in text
    assert "AES-NI" not in text and "seal and open of 64 B: AES-256-GCM" in text


def test_equal_folders_give_equal_bytes(tree: Path, made: Path, tmp_path: Path) -> None:
    bundle.write(tree, None, None, tmp_path / "again")
    for path in sorted(p for p in made.rglob("*") if p.is_file()):
        assert (tmp_path / "again" / path.relative_to(made)).read_bytes() == path.read_bytes(), path.name


def failed(root: Path) -> list[str]:
    return [check.name for check in bundle.check(root) if not check.passed]


def test_each_damage_is_found(made: Path, tmp_path: Path) -> None:
    assert failed(made) == []
    sealed = "every file as sealed"

    def damaged(name: str, edit: tuple[str, str]) -> list[str]:
        root = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        shutil.copytree(made, root)
        path = root / "data" / name
        text = path.read_text(encoding="utf-8")
        assert edit[0] in text
        path.write_text(text.replace(*edit, 1), encoding="utf-8")
        return failed(root)

    assert damaged("report.md", ("ML-KEM-512", "ML-KEM-513")) == [
        sealed,
        "tables and page follow from the raw files",
    ]
    raw = "performance/raw/kem/ML_KEM_512_keygen.json"
    assert set(damaged(raw, ('"success": true', '"success": false'))) >= {
        sealed,
        "every iteration succeeded",
        "tables and page follow from the raw files",
    }
    assert "summaries follow from the raw files" in damaged(
        "performance/summary/kem_summary.csv", ("ML-KEM-512", "ML-KEM-513")
    )


def test_the_command_writes_once_and_checks(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "one"
    assert main(["bench-report", str(tree), "--out", str(out)]) == 0
    assert main(["bench-report", str(tree), "--out", str(out)]) == 2
    assert main(["bench-report", str(out), "--check"]) == 0
    (out / "data" / "report.md").write_text("other")
    assert main(["bench-report", str(out), "--check"]) == 5
    assert [p.name for p in tmp_path.iterdir()] == ["one"], "nothing half-made is left"


def test_an_energy_folder_alone_is_a_bundle_too_and_modes_do_not_mix(powered: Path, tmp_path: Path) -> None:
    energy = powered / "data" / "energy"
    assert bundle.write(energy, None, None, tmp_path / "e") == []
    assert "energy-kem" in page_of(tmp_path / "e").rows
    with pytest.raises(LabError, match="both folders"):
        bundle.write(energy, energy, None, tmp_path / "f")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "environment.json").write_text(json.dumps({"mode": "performance"}))
    with pytest.raises(BenchTreeError):
        bundle.write(tmp_path / "x", None, None, tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_the_interval_of_a_median_needs_twenty_values() -> None:
    assert median_interval([float(k) for k in range(19)]) == (None, None)
    assert median_interval([float(k) for k in range(200)]) == (86.0, 114.0)


def test_the_page_begins_with_its_drawing(powered_bench: Path) -> None:
    text = (powered_bench / "data" / "report.html").read_text(encoding="utf-8")
    rows = [
        float(r["median_ms"]) for r in read_rows(powered_bench / "data/analysis/times.csv") if r["median_ms"]
    ]
    assert text.index('id="fig-bench-answer"') < text.index("<nav")
    told = Page(text).text_of["compared"]
    assert f"{len(rows)} operations timed" in told
    shown = [float(word) for word in re.findall(r"(\d+\.\d+) ms", told)]
    assert shown == pytest.approx([min(rows), max(rows)], rel=6e-3)
