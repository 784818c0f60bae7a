"""The account of searches: hours belong to code, add up, and are written where they are claimed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import engine
import hours
import native


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty account, and parsers in a folder of their own."""
    monkeypatch.setattr(hours, "HERE", tmp_path)
    monkeypatch.setattr(hours, "LEDGER", tmp_path / "hours.json")
    monkeypatch.setattr(native, "ROOT", tmp_path)
    return tmp_path


def test_every_target_names_its_parser() -> None:
    for name, subject in hours.subjects().items():
        assert len(hours.fingerprint(subject.code)) == 12, name


@pytest.mark.parametrize(
    ("name", "before", "same", "other"),
    [
        (
            "p.py",
            'def f(a):\n    """Old."""\n    return a + 1\n',
            '"""New."""\n\n\ndef f(a):  # why\n    return (\n        a + 1\n    )\n',
            "def f(a):\n    return a + 2\n",
        ),
        (
            "p.rs",
            "// old\nfn f() {\n    1\n}\n",
            "/// New.\n#[allow(clippy::all)]\nfn f() {\n1\n}\n",
            "fn f() {\n    2\n}\n",
        ),
        ("p.json", '{"least": 1}\n', '{"least": 1}\n', '{"least": 2}\n'),
    ],
)
def test_a_parser_is_its_code_not_its_words(
    place: Path, name: str, before: str, same: str, other: str
) -> None:
    found = []
    for text in (before, same, other):
        (place / name).write_text(text)
        found.append(hours.fingerprint(("p.*",)))
    assert found[0] == found[1] != found[2]


def test_a_pattern_without_a_file_is_an_error(place: Path) -> None:
    with pytest.raises(ValueError, match=r"gone\.py"):
        hours.fingerprint(("gone.py",))


def test_hours_add_up_for_the_same_code_alone(place: Path) -> None:
    for code, cpu_s, edges in (("aaa", 100.04, 7), ("aaa", 50.0, 9), ("bbb", 30.0, None)):
        result = engine.Result("atheris 3", 1, executions=10, cpu_s=cpu_s, edges=edges)
        result.findings = [{}] if code == "bbb" else []
        hours.add("wire", code, result)
    assert hours.spent_s("wire", "aaa") == 150.0
    assert hours.spent_s("wire", "bbb") == 30.0
    assert hours.spent_s("wire", "ccc") == hours.spent_s("line", "aaa") == 0
    first, second = hours.load()["wire"]
    assert (first["searches"], first["executions"], first["edges"], first["findings"]) == (2, 20, 9, 0)
    assert second["edges"] is None and second["findings"] == 1


def test_the_readme_says_what_the_account_holds() -> None:
    text = hours.README.read_text(encoding="utf-8")
    hint = "write it again: python tests/fuzz/hours.py --document"
    assert hours.documented(text) == text, hint
    assert all(f"| {name} |" in text for name in hours.subjects()), hint
