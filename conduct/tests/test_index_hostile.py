"""Hostile submissions: each is refused by its named check, and the good ones beside them are in the index."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hostile_archives import HOSTILE, good_entries, packed, tar_of
from hostile_submissions import ENTRIES, FOLDERS
from test_index import run_into

from pqevidence.bundle.digest import hash_file
from pqevidence.errors import UsageError
from pqevidence.index import cache, entries
from pqevidence.index import look as looked
from pqevidence.index.cache import Looks
from pqevidence.index.rules import BY_NAME, MARKS, RULES, VERIFY, Rule, Said, plain, required
from pqevidence.index.survey import survey
from pqevidence.index.tables import bundle_table
from pqevidence.kernel.result import CheckResult
from pqevidence.paths import project_root
from pqlab.cli.main import main

GOOD, ARCHIVED = "20000101T000000Z-aaaaaa", "20000101T000000Z-bbbbbb"
DAY = ["--day", "2000-12-31"]


@dataclass
class Indexed:
    """What the command said, and where the pages lie."""

    code: int
    told: dict[str, Any]
    site: Path

    @property
    def refused(self) -> dict[str, tuple[str, str]]:
        return {row["bundle"]: (row["check"], row["reason"]) for row in self.told["refused"]}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with ids of their own, and one more with the id of the first and another seed."""
    base = tmp_path_factory.mktemp("two")
    run_into(base / "results", "equal", "aaaaaa", suites=1)
    run_into(base / "results", "equal", "bbbbbb", suites=1, seed=2)
    run_into(base / "third", "equal", "aaaaaa", suites=1, seed=3)
    return base


@pytest.fixture(scope="module")
def indexed(two: Path, tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    """All hostile submissions in one folder with a good bundle and a good archive."""
    base = tmp_path_factory.mktemp("hostile")
    folder = base / "submissions"
    folder.mkdir()
    good = two / "results" / GOOD
    shutil.copytree(good, folder / GOOD)
    archived = good_entries(two / "results" / ARCHIVED)
    (folder / f"{ARCHIVED}.tar.zst").write_bytes(packed(tar_of(archived)))
    (folder / "again.tar.zst").write_bytes(packed(tar_of(archived)))
    shutil.copytree(two / "third" / GOOD, folder / "same-run-id")
    for name, (_, spoil) in FOLDERS.items():
        spoil(shutil.copytree(good, folder / name))
    for _, place in ENTRIES.values():
        place(folder, good)
    for name, (_, make) in HOSTILE.items():
        make(good, folder / f"archive-{name}.tar.zst")
    (base / "outside").mkdir()
    site = base / "site"
    code, told = index(folder, "--out", str(site), *DAY)
    return Indexed(code, told, site)


def index(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the JSON document of the command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["index", str(folder), *options, "--json"])
    return code, json.loads(out.getvalue().splitlines()[-1])


EXPECTED = {
    **{name: check for name, (check, _) in FOLDERS.items()},
    **{plain(name, 90): check for name, (check, _) in ENTRIES.items()},
    **{f"archive-{name}.tar.zst": check.replace("-", "_") for name, (check, _) in HOSTILE.items()},
    "again.tar.zst": "bundle_once",
    "same-run-id": "run_once",
}


def test_there_are_enough_of_them() -> None:
    assert len(EXPECTED) >= 100
    of_rules = {rule.name for rule in RULES if not rule.marks} - set(EXPECTED.values())
    assert of_rules == {VERIFY + "*", "unchanged", "looked_through", "not_later"}, (
        "each has a test of its own"
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_each_is_refused_by_its_named_check(indexed: Indexed, name: str) -> None:
    check, why = indexed.refused[name]
    assert check == EXPECTED[name], why
    assert why and why.isascii() and why.isprintable()


def test_the_good_ones_beside_them_are_in_the_index(indexed: Indexed) -> None:
    assert indexed.code == 5
    assert set(indexed.refused) == set(EXPECTED)
    assert indexed.told["bundles_count"] == 2
    page = (indexed.site / "index.html").read_text(encoding="utf-8")
    assert GOOD in page and f"{ARCHIVED}.tar.zst" in page


def test_no_text_of_a_submission_is_markup(indexed: Indexed) -> None:
    for name in indexed.told["pages"]:
        page = (indexed.site / Path(name).name).read_text(encoding="utf-8")
        assert page.count("<script") == 1, "the page's own"
        assert "<svg onload" not in page and "<img" not in page
        assert "\u202e" not in page and "\u0441" not in page and "\u200b" not in page
        assert "://" not in page.replace("http://www.w3.org", "")
        assert re.search(r"192\.168|/home/|simulated</", page.split("refused-section")[0]) is None


def test_a_refused_number_is_nowhere(indexed: Indexed) -> None:
    table = (indexed.site / "index-handshakes.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert {line.split(",")[0] for line in table} == {GOOD, f"{ARCHIVED}.tar.zst"}
    assert ",0.5," not in "".join(table), "the better median of a forged table"


def test_a_run_that_is_yet_to_come_is_refused(two: Path, tmp_path: Path) -> None:
    code, told = index(two / "results", "--out", str(tmp_path), "--day", "1999-12-31")
    assert code == 5 and {row["check"] for row in told["refused"]} == {"not_later"}
    assert index(two / "results", "--out", str(tmp_path), "--day", "2000-01-01")[0] == 0


@pytest.mark.parametrize("rule", ["licensed", "attested"])
def test_what_is_required_refuses_what_it_would_mark(two: Path, tmp_path: Path, rule: str) -> None:
    code, told = index(two / "results", "--out", str(tmp_path), "--unverified", *DAY)
    assert code == 0 and rule in {row["check"] for row in told["marked"]}
    code, told = index(two / "results", "--out", str(tmp_path), "--unverified", "--require", rule, *DAY)
    assert code == 5 and {row["check"] for row in told["refused"]} == {rule}


def test_only_a_mark_can_be_required() -> None:
    assert required(list(MARKS)) == set(MARKS)
    with pytest.raises(UsageError, match="no rule"):
        required(["sealed"])


def test_what_is_written_to_while_it_is_looked_at_is_refused(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "submissions"
    target = shutil.copytree(two / "results" / GOOD, folder / GOOD)

    def verified(root: Path, **_: object) -> list[Any]:
        (target / "data" / "report.md").write_text("other", encoding="utf-8")
        return []

    monkeypatch.setattr(looked, "verify_bundle", verified)
    code, told = index(folder, "--out", str(tmp_path / "site"), *DAY)
    assert code == 5 and told["refused"][0]["check"] == "unchanged"


def test_a_look_that_dies_refuses_one_submission_alone(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(path: Path, looks: Looks, *, verify: bool) -> entries.Look:
        if path.name == GOOD:
            os._exit(9)
        return entries.Look({"path": path.name})

    monkeypatch.setattr(entries, "look", look)
    found = entries._all_looks([two / GOOD, two / ARCHIVED], Looks(None), True, 2)
    assert found[0].refused is not None and found[0].refused.check == "looked_through"
    assert found[1].found == {"path": ARCHIVED}


def test_a_look_without_end_refuses_one_submission_alone(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what reads it catches whatever it takes for damage and goes on."""
    verified = looked.verify_bundle

    def verify(root: Path, **told: Any) -> list[Any]:
        while root.name == GOOD:
            with contextlib.suppress(Exception):
                sum(range(1000))
        return verified(root, **told)

    monkeypatch.setattr(looked, "verify_bundle", verify)
    monkeypatch.setattr(looked, "LOOK_S", 3.0)
    code, told = index(two / "results", "--out", str(tmp_path / "site"), "--jobs", "1", *DAY)
    (refused,) = told["refused"]
    assert (code, refused["bundle"], refused["check"]) == (5, GOOD, "looked_through")
    assert "processor time" in refused["reason"] and told["bundles_count"] == 1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_look_that_takes_too_much_memory_refuses_one_submission_alone(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    verified = looked.verify_bundle

    def verify(root: Path, **told: Any) -> list[Any]:
        taken = bytearray(entries._LOOK_BYTES if root.name == GOOD else 1)
        return verified(root, **told) if len(taken) == 1 else []

    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(looked, "verify_bundle", verify)
    code, told = index(two / "results", "--out", str(tmp_path / "site"), "--jobs", jobs, *DAY)
    assert (code, told["bundles_count"]) == (5, 1)
    assert [(row["bundle"], row["check"]) for row in told["refused"]] == [(GOOD, "looked_through")]
    assert resource.getrlimit(resource.RLIMIT_AS) == before, "the index itself is not bounded"


def test_a_corrected_run_is_marked_and_taken_out_where_that_is_asked_for(two: Path, tmp_path: Path) -> None:
    folder, site = tmp_path / "submissions", tmp_path / "site"
    shutil.copytree(two / "results" / GOOD, folder / GOOD)
    cell_id = next((folder / GOOD / "data" / "cells").iterdir()).name
    why = "a backup ran on the machine during this cell"
    with contextlib.redirect_stdout(io.StringIO()):
        argv = ["--out", str(folder), "--withdraw", cell_id, "--reason", why]
        assert main(["correct", str(folder / GOOD), *argv]) == 0
    corrected = (folder / "latest").resolve().name
    code, told = index(folder, "--out", str(site))
    assert (code, told["refused"]) == (3, [])
    marks = {(row["bundle"], row["check"]): row["reason"] for row in told["marked"]}
    assert marks[GOOD, "current"] == f"corrected by {corrected}"
    assert GOOD in marks[corrected, "own_cells"] and (corrected, "current") not in marks
    code, told = index(folder, "--out", str(site), "--require", "current")
    assert (code, told["bundles_count"]) == (5, 1)
    assert [(row["bundle"], row["check"]) for row in told["refused"]] == [(GOOD, "current")]


def test_the_parts_of_a_merge_are_submissions_of_their_own(two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "submissions"
    merge = folder / "20000101T000000Z-cccccc" / "data"
    shutil.copytree(two / "results" / GOOD, merge / "parts" / GOOD)
    (merge / "merge.json").write_text("{}", encoding="utf-8")
    code, told = index(folder, "--out", str(tmp_path / "site"), *DAY)
    assert (code, [row["check"] for row in told["refused"]]) == (5, ["one_run"])
    assert "data/parts" in told["refused"][0]["reason"]
    shutil.copytree(merge / "parts" / GOOD, folder / GOOD)
    code, told = index(folder, "--out", str(tmp_path / "site"), *DAY)
    assert (code, told["bundles_count"]) == (5, 1)


def test_a_table_that_verify_did_not_make_again_is_not_read(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle of an older version could say anything in its tables."""
    target = shutil.copytree(two / "results" / GOOD, tmp_path / GOOD)
    FOLDERS["table-better"][1](target)
    told = CheckResult("report_rebuild", "warn", "of an older version", "")
    monkeypatch.setattr(looked, "verify_bundle", lambda root, **_: [told])
    found = looked.look(target, Looks(None), verify=True).found
    assert found is not None and found["answers"]
    assert all(answer["median_ms"] != 0.5 for answer in found["answers"])


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0"])
def test_a_time_that_is_none_is_not_taken(text: str) -> None:
    row = {"suite_id": "a", "condition": "b", "ring": "lab", "n_cells": "3", "median_ms": text}
    with pytest.raises(ValueError, match="a time of"):
        looked._answers([row])


def test_no_text_of_a_submission_is_a_formula() -> None:
    entry = entries.Entry("x", "refused", refused=Said("looked_through", "=1+1"))
    (row,) = bundle_table(entries.Folder([], [entry], []), []).rows
    assert row["refused_why"] == "'=1+1"


# ------------------------------------------------------------------ what is kept


def test_an_archive_of_what_a_folder_is_digested_from_is_not_that_folder(two: Path, tmp_path: Path) -> None:
    good, looks = two / "results" / GOOD, Looks(tmp_path / "kept")
    assert looked.look(good, looks, verify=True).found is not None
    parts = [part for name in survey(good) for part in (name.encode(), hash_file(good / name).sha256)]
    content = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert looks.get(hashlib.sha256(content).hexdigest()) is not None
    (tmp_path / "other.tar.zst").write_bytes(content)
    assert looked.look(tmp_path / "other.tar.zst", looks, verify=True).found is None


def test_what_was_verified_is_taken_from_the_index_folder(two: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    first = index(two / "results", "--out", str(site), *DAY)
    pages = {path.name: path.read_bytes() for path in site.iterdir() if path.is_file()}
    second = index(two / "results", "--out", str(site), *DAY)
    assert (first[1]["kept_count"], second[1]["kept_count"]) == (0, 2)
    assert {path.name: path.read_bytes() for path in site.iterdir() if path.is_file()} == pages


def test_one_changed_byte_or_another_program_is_looked_at_again(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, site = tmp_path / "submissions", tmp_path / "site"
    shutil.copytree(two / "results" / GOOD, folder / GOOD)
    assert index(folder, "--out", str(site), *DAY)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_program", lambda: "another")
        assert index(folder, "--out", str(site), *DAY)[1]["kept_count"] == 0
    table = folder / GOOD / "data" / "analysis" / "by_suite.csv"
    table.write_bytes(table.read_bytes() + b"\n")
    code, told = index(folder, "--out", str(site), *DAY)
    assert code == 5 and told["refused"][0]["check"] == "verify.manifest_fixity"


@pytest.mark.parametrize("where", [".", "site"])
def test_a_submission_cannot_forge_what_was_verified(two: Path, tmp_path: Path, where: str) -> None:
    """An index within the folder of submissions keeps nothing and asks for nothing that is kept there."""
    folder, site = tmp_path / "submissions", tmp_path / "elsewhere"
    shutil.copytree(two / "results" / GOOD, folder / GOOD)
    index(folder, "--out", str(site), *DAY)
    planted = folder / where / "looked-at"
    shutil.copytree(site / "looked-at", planted)
    for file in planted.iterdir():
        file.write_text(file.read_text(encoding="utf-8").replace('"pass":1', '"pass":99'), encoding="utf-8")
    code, told = index(folder, "--out", str(folder / where), *DAY)
    assert (code, told["kept_count"], told["bundles_count"]) == (0, 0, 1)
    assert ",99," not in (folder / where / "index.csv").read_text(encoding="utf-8")


def test_a_torn_look_is_made_again(two: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    index(two / "results", "--out", str(site), *DAY)
    for file in (site / "looked-at").iterdir():
        file.write_text(file.read_text(encoding="utf-8")[:100], encoding="utf-8")
    assert index(two / "results", "--out", str(site), *DAY)[1]["kept_count"] == 0


def test_a_link_in_the_place_of_a_page_is_not_written_through(two: Path, tmp_path: Path) -> None:
    folder, victim = tmp_path / "submissions", tmp_path / "victim.txt"
    shutil.copytree(two / "results" / GOOD, folder / GOOD)
    victim.write_text("mine", encoding="utf-8")
    (folder / "index.html").symlink_to(victim)
    (folder / "index.csv").symlink_to(victim)
    assert index(folder, *DAY)[0] == 0
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not (folder / "index.html").is_symlink()


# ------------------------------------------------------------------ the table of rules


def test_the_documented_table_is_that_of_the_code() -> None:
    text = (project_root() / "docs" / "INDEX.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_.*]+)` \| (.+) \| (refused|marked)[^|]* \|$", text, re.MULTILINE)
    assert [(name, asks) for name, asks, _ in rows] == [(rule.name, rule.asks) for rule in RULES]
    assert [else_ == "marked" for _, _, else_ in rows] == [rule.marks for rule in RULES]
    assert len(BY_NAME) == len(RULES)


@pytest.mark.parametrize("text", ["a\nb", "\u0441", "\x1b[31m", "x" * 900, "\\", "<b>"])
def test_shown_text_is_plain(text: str) -> None:
    shown = plain(text)
    assert shown.isascii() and shown.isprintable() and len(shown) <= 160


def test_a_rule_says_one_thing() -> None:
    assert all(isinstance(rule, Rule) and rule.marks >= rule.warns for rule in RULES)
