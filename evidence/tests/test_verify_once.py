"""`verify` reads what a cell left once: whoever comes last gets what the checks before read and said."""

from __future__ import annotations

import importlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_kit import finish_work, make_ready, make_sealed

from pqevidence import bundle
from pqevidence.analysis import fingerprints, handshakes, load, traffic
from pqevidence.bundle.format import data_package
from pqevidence.index import survey
from pqevidence.index.survey import digests_of
from pqevidence.kernel import view
from pqevidence.kernel.view import BundleView
from pqevidence.verify import verify_bundle
from pqevidence.verify.checklist import NEEDED, checklist, rows_of


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("once"))


def counted(monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> Counter[str]:
    """How often a reader was called, by the last two parts of what it was given."""
    calls: Counter[str] = Counter()
    real: Callable[[Path], object] = getattr(place, name)

    def counting(path: Path) -> object:
        calls["/".join(path.parts[-2:])] += 1
        return real(path)

    monkeypatch.setattr(place, name, counting)
    return calls


def test_each_raw_file_is_read_once(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = counted(monkeypatch, view, "load_cell")
    views = counted(monkeypatch, view, "read_record")
    records = counted(monkeypatch, load, "read_json")
    rows = counted(monkeypatch, load, "read_ndjson")
    ledgers = counted(monkeypatch, traffic, "read_ledger")
    results = verify_bundle(sealed)
    assert not [result for result in results if result.status == "fail"]
    ids = {path.name for path in (sealed / "data" / "cells").iterdir()}
    assert cells == {f"cells/{cell_id}": 1 for cell_id in ids}
    assert {views[f"{cell_id}/record.json"] for cell_id in ids} == {1}
    assert not [name for name in records if name.endswith("record.json")]
    assert not [name for name in rows if name.endswith("spans.ndjson")]
    assert len(ledgers) == 0, "the drawing over time reads those of one cell, by a name of its own"


def test_the_checklist_is_not_made_by_running_the_checks_again(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {result.name: result for result in verify_bundle(sealed)}
    view_of = BundleView(sealed.resolve())
    assert rows_of(view_of, [told[name] for name in NEEDED]) == checklist(sealed)

    def again(*_: object) -> object:
        raise AssertionError("checks are run a second time")

    monkeypatch.setattr(importlib.import_module("pqevidence.verify.checklist"), "run_checks", again)
    by_name = {result.name: result for result in verify_bundle(sealed)}
    assert by_name["report_rebuild"].status == "ok"


def test_where_a_check_is_left_out_the_checklist_runs_it(sealed: Path) -> None:
    told = {result.name: result for result in verify_bundle(sealed, skip=["span_coverage"])}
    assert "span_coverage" not in told and told["report_rebuild"].status == "ok"


def test_tables_of_what_was_read_are_those_of_the_files(sealed: Path) -> None:
    """What the view keeps of a cell is what the tables would read."""
    seen = BundleView(sealed.resolve())
    for cell in seen.cells:
        cell.keep()
        cell.release()
    for ours, theirs in zip(
        load.BundleData(sealed, seen.known).cells, load.BundleData(sealed).cells, strict=True
    ):
        assert ours.known.handshakes is not None and theirs.known.handshakes is None
        for mode in handshakes.MODES:
            assert handshakes.handshakes_of(ours, mode) == handshakes.handshakes_of(theirs, mode)
        kept, read = traffic.join_ledgers(ours), traffic.join_ledgers(theirs)
        assert kept is not None and read is not None and kept.keys() == read.keys()
        for place, joined in kept.items():
            assert joined.sent == read[place].sent
            assert sorted(joined.delays_ms) == sorted(read[place].delays_ms)


def test_a_ledger_that_says_something_twice_is_read_by_the_tables_themselves(tmp_path: Path) -> None:
    work = make_ready(tmp_path)
    ledger = next(work.glob("data/cells/*/ledger.gcs.csv"))
    rows = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join([*rows, next(row for row in rows if row.startswith("rx"))]))
    finish_work(work)
    root = bundle.seal(work, tmp_path, [])
    told = {result.name: result for result in verify_bundle(root)}
    seen = BundleView(root.resolve())
    for cell in seen.cells:
        cell.keep()
    read_again = [cell_id for cell_id, known in seen.known.items() if known.joined is None]
    assert read_again == [ledger.parent.name]
    assert told["report_rebuild"].status == "ok", "tables and pages are those that the files give"


def test_of_a_ledger_only_the_first_rows_are_looked_at(sealed: Path, tmp_path: Path) -> None:
    root = tmp_path / sealed.name
    shutil.copytree(sealed, root)
    for ledger in root.glob("data/cells/*/ledger.*.csv"):
        with ledger.open("ab") as handle:
            handle.write(b"\xff\xfe is no text\n" * 20_000)
    assert data_package(root / "data") == json.loads(
        (sealed / "data" / "datapackage.json").read_text(encoding="utf-8")
    )


def test_times_of_one_part_of_a_merge_are_no_other_parts(sealed: Path) -> None:
    seen: dict[bytes, str] = {}
    first = {r.name: r.status for r in verify_bundle(sealed, seen_times=seen)}
    second = {r.name: r.status for r in verify_bundle(sealed, seen_times=seen)}
    assert (first["times_once"], second["times_once"]) == ("ok", "fail")
    assert {name for name in first if first[name] != second[name]} == {"times_once"}


def test_hashes_that_somebody_has_are_used_and_what_was_read_is_handed_on(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = digests_of(sealed)
    known: dict[str, load.Known] = {}
    read = counted(monkeypatch, fingerprints, "hash_file")
    results = {each.name: each for each in verify_bundle(sealed, known=known, hashed=files)}
    assert results["raw_fingerprints"].status == "ok"
    assert not [name for name in read if name.endswith((".ndjson", ".csv", ".lp"))], "no file of a cell again"
    again = counted(monkeypatch, load, "read_json")
    data = load.BundleData(sealed, known)
    assert data.cells and not [name for name in again if name.endswith("record.json")]


def test_a_hash_that_is_not_the_files_is_found(sealed: Path) -> None:
    files = digests_of(sealed)
    name = next(name for name in files if name.endswith("spans.ndjson"))
    files[name] = files[name]._replace(sha256=bytes(32))
    results = {each.name: each.status for each in verify_bundle(sealed, hashed=files)}
    assert results["raw_fingerprints"] == "fail"


def test_bytes_that_somebody_has_read_are_those_that_are_looked_at(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = survey.surveyed(sealed)
    assert {name: (sealed / name).read_bytes() for name in seen.files} == seen.contents
    looked = {each.name: each.status for each in verify_bundle(sealed, contents=seen.contents)}
    assert (looked["manifest_fixity"], looked["no_secrets"]) == ("ok", "ok")
    other = {**seen.contents, "data/report.md": b"AKIA" + b"ABCDEFGHIJKLMNOP"}
    looked = {each.name: each.status for each in verify_bundle(sealed, contents=other)}
    assert (looked["manifest_fixity"], looked["no_secrets"]) == ("fail", "fail")
    monkeypatch.setattr(survey, "_MOST_KEPT_BYTES", 10_000)
    monkeypatch.setattr(survey, "_KEPT_FILE_BYTES", 3_000)
    few = survey.surveyed(sealed)
    assert few.files == seen.files and few.contents.items() <= seen.contents.items()
    assert 0 < sum(map(len, few.contents.values())) <= 10_000
    assert max(map(len, few.contents.values())) <= 3_000
