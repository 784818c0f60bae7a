"""What holds of every measure, and that a new one is a folder and a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import pqevidence
from pqevidence.derived import COMPARING
from pqevidence.measures import MEASURES
from pqevidence.measures.measure import Measure
from pqevidence.measures.place import placed
from pqevidence.pages import CHAPTERS
from pqevidence.verify import CHECKS

PACKAGE = Path(pqevidence.__file__).parent
TESTS = Path(__file__).resolve().parents[1]


def test_every_folder_is_in_the_tuple_under_its_own_name() -> None:
    folders = {path.parent.name for path in (PACKAGE / "measures").glob("*/__init__.py")}
    assert Counter(measure.name for measure in MEASURES) == Counter(folders)


def test_fields_are_those_of_a_measure_that_fills_them() -> None:
    with_fields = {path.parent.name for path in (PACKAGE / "measures").glob("*/fields.yml")}
    assert with_fields == {measure.name for measure in MEASURES if measure.fill is not None}


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_what_a_measure_declares_fits_together(measure: Measure) -> None:
    assert {part.question for part in measure.parts} <= {question for question, _ in CHAPTERS}
    assert measure.comparing <= set(measure.columns) and not measure.comparing & COMPARING
    assert bool(measure.columns) == (measure.make_tables is not None)
    for table, columns in measure.columns.items():
        assert all(column.doc for column in columns), table
        assert len({column.name for column in columns}) == len(columns), table
    assert {judged.check.name for judged in measure.checks} <= {check.name for check in CHECKS}


def test_a_thing_is_put_after_the_one_it_names_or_at_the_end() -> None:
    assert placed("abc", [("a", "x"), ("x", "y"), ("", "z"), (None, "w")], str) == tuple("waxybcz")
    with pytest.raises(ValueError, match="not in"):
        placed("abc", [("d", "x")], str)


CARRIED_OUT = """
import sys
from pathlib import Path
import report_bundle
from pqevidence import semantics
from pqevidence.pages import render
from pqevidence.verify import verify_bundle

root = report_bundle.make_bundle(Path(sys.argv[1]), repetitions=1, bulk=False, session_s=1.0)
page = render(root)[1].read_text(encoding="utf-8")
print((root / "data" / "analysis" / "tiny.csv").read_text().splitlines()[0])
print("Cells of each suite" in page, "### tiny.csv (tiny)" in semantics.markdown())
print([result.status for result in verify_bundle(root) if result.name == "tiny_check"])
"""


def test_a_new_measure_is_one_folder_and_one_line(tmp_path: Path) -> None:
    """The folder beside the others and its line in the tuple: table, page, documents and checks have it."""
    package = tmp_path / "src" / "pqevidence"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(__file__).parent / "tiny_measure", package / "measures" / "tiny")
    entry = package / "measures" / "__init__.py"
    before = entry.read_text(encoding="utf-8")
    after = before.replace(")  # fmt: skip\n", '    "tiny",\n)  # fmt: skip\n')
    assert len(after.splitlines()) == len(before.splitlines()) + 1
    entry.write_text(after, encoding="utf-8")
    path = os.pathsep.join([str(package.parent), str(TESTS), *filter(None, sys.path)])
    told = subprocess.run(
        [sys.executable, "-c", CARRIED_OUT, str(tmp_path / "bundle")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == ["suite_id,cells_count", "True True", "['ok']"]
