"""The fuzzer of single fields: the same seed makes the same trials, what is witnessed is stopped, and the
page lists fields that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adversary.fuzz import BEGIN, END, Field, Ground, changed, fuzz, leaves, read, write
from adversary.material import MATERIALS
from adversary.run import PAGE

SIZE = Field("ledger.<end>.csv", "size_bytes")
OPENSSL = Field("providers.json", "<end>.openssl")
PRINTED = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground("lab", MATERIALS["lab"](tmp_path_factory.mktemp("ground")))


def test_what_is_read_is_written_again(ground: Ground, tmp_path: Path) -> None:
    """Otherwise a trial would be stopped for what the fuzzer broke."""
    for names in ground.places.values():
        source = ground.root / "data" / names[0]
        copy = tmp_path / source.name
        copy.write_bytes(source.read_bytes())
        rows = read(copy)
        write(copy, rows)
        assert read(copy) == rows, source.name


def test_one_field_is_changed_and_no_other() -> None:
    document = {"drone": {"a_ms": 4, "b": [1, None, ""]}, "gcs": {"a_ms": 6}}
    assert changed(document, "<end>.a_ms", lambda value: value * 2) == {
        "drone": {"a_ms": 8, "b": [1, None, ""]},
        "gcs": {"a_ms": 12},
    }
    assert list(leaves(document)) == [("<end>.a_ms", 4), ("<end>.b[]", 1), ("<end>.a_ms", 6)]


def test_the_same_seed_makes_the_same_trials(ground: Ground, tmp_path: Path) -> None:
    first = fuzz([ground], tmp_path, seed=3, trials=1, most=3)
    assert first == fuzz([ground], tmp_path, seed=3, trials=1, most=3)
    assert {trial.field for trial in first} <= set(ground.places)


def test_a_witnessed_field_is_stopped_and_another_is_told(ground: Ground, tmp_path: Path) -> None:
    """Sizes are in counters, too; which OpenSSL both ends had, nobody says but they."""
    size, openssl = (ground.attempt(field, 0, 1, tmp_path) for field in (SIZE, OPENSSL))
    assert size is not None and size.stopped_by
    assert openssl is not None and not openssl.stopped_by


def test_the_page_lists_fields_that_there_are(ground: Ground) -> None:
    files = {field.file for field in ground.places}
    listed = [
        (cells[1].strip("` "), path)
        for line in PRINTED.splitlines()[2:]
        if len(cells := line.split("|")) > 5
        for path in re.findall(r"`([^`]+)`", cells[5])
    ]
    assert listed
    for file, path in listed:
        # what only campaigns with detectors have is of another ground
        if file in files and not path.startswith("detectors."):
            assert {Field(file, path), Field(file, f"row.{path}")} & set(ground.places), (file, path)
