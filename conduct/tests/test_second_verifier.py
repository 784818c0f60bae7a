"""The second verifier: its lines, exit codes and bounds, and that it finds what it should by itself.

That both agree on every bad bundle and forgery: test_verify_corpus.py and tests/adversary.
"""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import second_verifier
from bad_bundles.forge import (
    Json,
    cells,
    edit,
    finish,
    load,
    load_lines,
    rebag,
    rename_cells,
    save,
    save_lines,
)
from bundle_kit import finish_work, make_ready, make_sealed
from second_verifier import PARTS, ask, disagreements, program
from test_bundle_older import FOLDER

from pqevidence import bundle
from pqevidence.bundle.unpack import unpack
from pqevidence.verify import CHECKS, verify_bundle

PAGE = second_verifier.ROOT / "docs" / "CORE-CHECKS.md"
EXAMPLE = next((second_verifier.ROOT / "docs" / "example").glob("*.tar.zst"))
TWO = (
    {"name": "baseline", "detector": "none", "link": "none"},
    {"name": "again", "detector": "none", "link": "none"},
)


def unpacked(archive: Path, folder: Path) -> Path:
    with archive.open("rb") as content:
        return unpack(content, folder).bundle


def test_a_good_bundle_holds_and_every_check_looked_at_something(sealed: Path) -> None:
    said = ask(sealed)
    assert (said.code, said.failed) == (0, [])
    assert said.last == f"{len(said.checks)} checks: {len(said.checks)} ok, 0 failed"
    # without an A/A twin there is nothing to look at
    nothing = [name for name, (_, told) in said.checks.items() if told.startswith("0 ")]
    assert nothing == ["twins"]


@pytest.mark.parametrize("archive", [EXAMPLE, *sorted(FOLDER.iterdir())], ids=lambda path: path.name)
def test_bundles_that_are_shipped_hold(archive: Path, tmp_path: Path) -> None:
    root = unpacked(archive, tmp_path / "results")
    said = ask(root)
    assert said.failed == [], said.checks
    assert disagreements(root, verify_bundle(root)) == []


def test_names_are_those_of_the_document_in_its_order(sealed: Path) -> None:
    named = [check.name for check in CHECKS]
    theirs = list(ask(sealed).checks)
    whole = [name for name in theirs if name not in PARTS]
    assert whole == [name for name in named if name in whole]
    rules = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.findall(r"^\*\*`(\w+)`\*\*", rules, re.MULTILINE) == theirs, (
        "each has its rule, in the same order"
    )


def test_exit_codes_of_what_is_no_bundle(tmp_path: Path) -> None:
    def code(*words: str) -> tuple[int, str]:
        done = subprocess.run([program(), *words], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stderr

    gone, told = code(str(tmp_path / "gone"))
    assert gone == 4 and told.startswith("error: no bundle ")
    assert code()[0] == code("a", "b")[0] == 2
    assert code("--help") == (0, "")
    said = ask(tmp_path)
    assert (said.code, said.failed) == (5, ["bagit_structure"])


def test_a_cell_that_was_copied_to_another_condition_is_found_by_both(tmp_path: Path) -> None:
    """The same suite, repetition and ids of handshakes: only the folder and its cell's name differ."""
    work = make_ready(tmp_path, suites=("cs-mlkem768-aesgcm-mldsa65",), conditions=TWO, bulk=False)
    rows = load(work / "data" / "plan.json")["cells"]
    first, second = (work / "data" / "cells" / row["cell_id"] for row in rows)
    shift = min(e["t_ns"] for e in load_lines(second / "events.ndjson")) - min(
        e["t_ns"] for e in load_lines(first / "events.ndjson")
    )
    save_lines(
        second / "spans.ndjson",
        [
            {**row, "start_ns": row["start_ns"] + shift, "end_ns": row["end_ns"] + shift}
            for row in load_lines(first / "spans.ndjson")
        ],
    )
    finish_work(work)
    root = bundle.seal(work, tmp_path, [])
    assert "times_once" in ask(root).failed
    assert disagreements(root, verify_bundle(root)) == []


def test_who_made_it_is_a_tag_file_and_two_documents(tmp_path: Path) -> None:
    work = make_ready(tmp_path, suites=("cs-mlkem768-aesgcm-mldsa65",), bulk=False)
    save(
        work / "data" / "attribution.json", {"license": "CC-BY-4.0", "authors": [{"family_names": "Author"}]}
    )
    root = bundle.seal(work, tmp_path, [])
    assert (root / "bag-info.txt").is_file() and (root / "data" / "CITATION.cff").is_file()
    assert ask(root).failed == [] and disagreements(root, verify_bundle(root)) == []

    listed = root / "tagmanifest-sha512.txt"
    whole = listed.read_text(encoding="utf-8")
    lines = [line for line in whole.splitlines(keepends=True) if "bag-info.txt" not in line]
    listed.write_text("".join(lines), encoding="utf-8")
    assert ask(root).failed == ["tagmanifest_fixity"], "it lies there and is not listed"
    listed.write_text(whole, encoding="utf-8")
    (root / "bag-info.txt").unlink()
    assert ask(root).failed == ["tagmanifest_fixity"], "it is listed and does not lie there"
    assert disagreements(root, verify_bundle(root)) == []


@pytest.mark.parametrize(
    ("min_count", "failed"), [(2, []), (4, ["handshake_count"]), (None, ["handshake_count"])]
)
def test_as_many_handshakes_as_the_scenario_asks_for(
    tmp_path: Path, min_count: int | None, failed: list[str]
) -> None:
    """Three are few, and enough where two are asked for; where nothing is said, five are due."""
    root = make_sealed(tmp_path, suites=("cs-mlkem768-aesgcm-mldsa65",), bulk=False, handshakes=3)

    def ask_for(scenario: Json) -> None:
        scenario["handshake"].pop("min_count")
        scenario["handshake"].update({} if min_count is None else {"min_count": min_count})

    edit(root / "data" / "scenario.effective.yml", ask_for)
    rename_cells(root)
    for cell in cells(root):  # of what claims a result alone it is asked
        edit(cell / "record.json", lambda record: record.update(verdict="pass", reason=None))
    finish(root)
    said = ask(root)
    assert [name for name in said.failed if name == "handshake_count"] == failed, said.checks
    assert disagreements(root, verify_bundle(root)) == []


def limited() -> None:
    """Half a gigabyte of memory, more than any bound needs."""
    resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))


def deep_plan(root: Path) -> str:
    (root / "data" / "plan.json").write_text("[" * 100_000)
    return "plan_schema"


def plan_of_many_values(root: Path) -> str:
    (root / "data" / "plan.json").write_text('{"cells": [' + "1," * 15_000_000 + "1]}")
    return "plan_schema"


def repetitions_without_end(root: Path) -> str:
    """What the scenario asks for must not be laid out before it was counted."""
    path = root / "data" / "scenario.effective.yml"
    edit(path, lambda scenario: scenario.update(repetitions=1 << 40))
    return "cells_accounted"


def line_without_end(root: Path) -> str:
    with (cells(root)[0] / "events.ndjson").open("r+b") as handle:
        handle.truncate(900 << 20)  # sparse: it takes no space
    return "window_sum"


def document_of_a_gigabyte(root: Path) -> str:
    with (root / "data" / "run.json").open("r+b") as handle:
        handle.truncate(1 << 30)
    return "versions_known"


def ledger_without_end(root: Path) -> str:
    with (cells(root)[0] / "ledger.gcs.csv").open("r+b") as handle:
        handle.truncate(900 << 20)
    return "ledger_join"


def aliases_that_multiply(root: Path) -> str:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    (root / "data" / "scenario.effective.yml").write_text("\n".join(lines) + "\n")
    return "cell_ids"


def not_text(root: Path) -> str:
    (cells(root)[0] / "record.json").write_bytes(b"\xff\xfe{}")
    return "record_medians"


@pytest.mark.parametrize(
    "spoil",
    [
        deep_plan,
        plan_of_many_values,
        repetitions_without_end,
        line_without_end,
        document_of_a_gigabyte,
        ledger_without_end,
        aliases_that_multiply,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_what_is_too_large_is_refused_in_little_memory(copied: Path, spoil: Callable[[Path], str]) -> None:
    named = spoil(copied)
    said = ask(copied, before=limited)
    assert named in said.failed


def test_a_record_that_is_no_text_fails_what_needs_it(copied: Path) -> None:
    not_text(copied)
    said = ask(copied)
    assert {"cells_accounted", "attempts_kept", "tables_core"} <= set(said.failed)
    assert "files_known" not in said.failed


def test_a_file_beyond_the_bound_or_a_link_is_not_opened(copied: Path) -> None:
    (copied / "data" / "hosts" / "third.json").symlink_to("/dev/zero")
    said = ask(copied, before=limited)
    assert (
        list(said.checks) == ["bagit_structure"]
        and "data/hosts/third.json" in said.checks["bagit_structure"][1]
    )
    (copied / "data" / "hosts" / "third.json").unlink()
    with (copied / "data" / "run.json").open("r+b") as handle:
        handle.truncate((1 << 30) + 1)
    assert list(ask(copied).checks) == ["bagit_structure"]


@pytest.mark.parametrize("table", ["handshakes", "by_suite"])
def test_a_figure_of_a_table_that_the_raw_files_do_not_give(copied: Path, table: str) -> None:
    path = copied / "data" / "analysis" / f"{table}.csv"
    text = path.read_text(encoding="utf-8")
    header, first, rest = text.split("\n", 2)
    fields = first.split(",")
    column = header.split(",").index("drone_wall_median_ms" if table == "handshakes" else "min_ms")
    fields[column] = f"{float(fields[column]) * 1.001:.9g}"
    path.write_text("\n".join([header, ",".join(fields), rest]), encoding="utf-8")
    finish(copied)
    assert ask(copied).failed == ["tables_core"]


def test_a_scenario_in_words_that_no_run_writes_is_no_guess(copied: Path) -> None:
    """YAML has more than one way to say a thing; what is not in the document's form fails and is named."""
    path = copied / "data" / "scenario.effective.yml"
    path.write_text("schema: pqlab/scenario/v1\nseed: 0x10\n", encoding="utf-8")
    rebag(copied)
    told = ask(copied).checks
    assert not told["order_drawn"][0] and "line 2" in told["order_drawn"][1]
