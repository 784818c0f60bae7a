"""What is committed belongs together: models, cards, results, tables and the default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pqdetect import cli
from pqdetect.commands import document
from pqdetect.evaluation import copies, csvfiles, figures, tables
from pqdetect.models import card as cards
from pqdetect.models import vectors
from pqdetect.models.transformer import Shape
from pqdetect.simulate import table_sha256

ROOT = Path(__file__).parents[2]
MODELS, EVALUATION = ROOT / "detectors/models", ROOT / "detectors/evaluation"
LEARNED = ("xgboost-5w", "xgboost", "tst-p8", "tst")
RULES = ("threshold", "ewma", "cusum", "any-auth-fail")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EVALUATION / "results.json").read_text())
    return found


def test_every_card_is_whole_and_its_graph_is_the_one_it_names() -> None:
    # Reading a card holds the graph's checksum against it.
    found = {path.parent.name: cards.read(path.parent) for path in MODELS.glob(f"*/{cards.CARD}")}
    assert set(found) == {*LEARNED, *RULES, "cascade"}
    for name, card in found.items():
        assert card["name"] == name
        assert card["validation"]["attack"]["budget_per_h"] < 0.5
        assert card["training"]["splits_sha256"] == table_sha256()
    assert sum(path.stat().st_size for path in MODELS.rglob("*") if path.is_file()) <= 5_000_000


def test_the_transformers_have_the_published_shape() -> None:
    for name, windows in (("tst", 400), ("tst-p8", 400)):
        given = cards.read(MODELS / name)["shape"]
        shape = Shape(**{**given, "lookback": tuple(given["lookback"])})
        assert (len(shape.lookback), shape.heads, shape.width, shape.history_windows) == (3, 16, 128, windows)


def test_learned_models_carry_the_answers_of_the_trained_ones() -> None:
    for name in LEARNED:
        rows, scores = vectors.read(MODELS / name)
        assert rows.shape[0] == scores.shape[0] == vectors.WINDOWS
        # Both sides of a decision: an agreement on zeros alone would say little.
        assert scores[:, 0][~(scores[:, 0] != scores[:, 0])].max() > 0.5


def test_results_are_of_these_models(results: dict[str, Any]) -> None:
    told = results["provenance"]["models"]
    for name, digest in told.items():
        card = cards.read(MODELS / name)
        assert digest == card.get("sha256", cards.sha256(MODELS / name / cards.CARD)), name
    assert {*LEARNED, *RULES, "cascade"} == set(told)
    assert results["provenance"]["splits_sha256"] == table_sha256()


def test_the_default_is_the_winner_of_the_results(results: dict[str, Any]) -> None:
    assert cards.default_name(MODELS) == results["winner"]["default"]
    assert (MODELS / results["winner"]["default"] / cards.CARD).is_file()


def test_enough_was_measured(results: dict[str, Any]) -> None:
    part = results["sets"]["test"]
    assert part["attack_free_hours"] >= 200
    assert part["episodes_visible"] >= 300
    assert set(part["methods"]) == {*LEARNED, *RULES, "cascade", "random"}
    seeds = results["seeds"]["models"]
    assert all(seeds[name]["n"] >= 5 for name in ("xgboost-5w", "xgboost", "tst-p8"))
    held_out = results["definitions"]["held_out"]
    assert held_out["kinds"]
    assert all(part["methods"]["xgboost"]["by_kind"][kind]["held_out"] for kind in held_out["kinds"])


def test_copies_that_the_way_makes_add_no_false_alarms(results: dict[str, Any]) -> None:
    told = {row["share_pct"]: row["false_alarms_per_h"] for row in results["copies"]}
    assert set(told) == set(copies.SHARES_PCT)
    for share, by_name in told.items():
        assert set(by_name) == {*LEARNED, *RULES, "cascade"}
        for name, one in by_name.items():
            assert one["hours"] >= 25 and one["value"] <= 0.5, (share, name)


def test_shuffled_labels_are_near_chance(results: dict[str, Any]) -> None:
    values = results["shuffled_labels"]["auroc"]
    assert len(values) >= 5
    assert abs(sum(values) / len(values) - 0.5) <= 0.1


def test_the_tables_of_both_pages_are_the_results(results: dict[str, Any]) -> None:
    pages = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in document.PAGES}
    assert {name: tables.insert(page, document.PAGES[name](results)) for name, page in pages.items()} == pages
    changed = json.loads(json.dumps(results))
    for part in ("test", "live"):
        changed["sets"][part]["methods"]["xgboost"]["recall_visible"]["value"] += 0.1
    for name, page in pages.items():
        assert tables.insert(page, document.PAGES[name](changed)) != page, name


def test_document_writes_both_pages_and_tells_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in document.PAGES:
        (tmp_path / name).write_bytes((ROOT / "docs" / name).read_bytes())
    words = ["document", str(EVALUATION / "results.json"), str(tmp_path)]
    live = tmp_path / "DETECTORS-LIVE.md"
    changed = live.read_text(encoding="utf-8").replace("Recordings by run", "By hand")
    live.write_text(changed, encoding="utf-8")
    assert cli.main([*words, "--check"]) == 3
    assert capsys.readouterr().out == f"{live} differs from {EVALUATION / 'results.json'}\n"
    assert cli.main(words) == 0
    assert cli.main([*words, "--check"]) == 0
    assert capsys.readouterr().out == "the tables agree\n"
    for name in document.PAGES:
        assert (tmp_path / name).read_bytes() == (ROOT / "docs" / name).read_bytes(), name


def test_csv_files_and_figures_are_there_and_hold_the_results(results: dict[str, Any]) -> None:
    lines = (EVALUATION / "methods.csv").read_text().splitlines()
    at = lines[0].split(",").index("recall_loss_30pct")
    told = {line.split(",")[1]: line.split(",")[at] for line in lines[1:] if line.startswith("test,")}
    for name, one in results["sets"]["test"]["methods"].items():
        assert told[name] == str(one["recall_loss_30pct"]["value"])
    for figure in ("detection", "delay", "kinds"):
        text = (EVALUATION / f"{figure}-test.svg").read_text()
        assert text.startswith("<svg")
        assert all(f"<title>{name}</title>" in text for name in results["sets"]["test"]["methods"])


def test_csv_files_and_figures_are_drawn_from_the_results(results: dict[str, Any], tmp_path: Path) -> None:
    csvfiles.write_csv(results, tmp_path)
    figures.write_all(results, tmp_path)
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    there = {path.name: path.read_bytes() for path in EVALUATION.iterdir() if path.suffix in (".csv", ".svg")}
    assert set(drawn) == set(there)
    assert [name for name in sorted(drawn) if drawn[name] != there[name]] == []
