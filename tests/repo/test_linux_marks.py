"""A test that needs a module of Unix alone says so: the same tests run in Windows' own Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: what `.ci/unit-windows` hands to Windows' Python; the native link's tests are left out there as a folder
FOLDERS = ("base/tests", "tunnel/tests", "sitl/tests", "telemetry/tests")
LINK = ROOT / "tunnel/tests/link"
UNIX = {"fcntl", "grp", "pty", "pwd", "resource", "termios"}


def unmarked(source: str) -> list[str]:
    """Tests that import a module of Unix and are not marked `linux`: name and module of each."""
    found = []
    for test in ast.walk(ast.parse(source)):
        if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
            continue
        if any("mark.linux" in ast.unparse(decorator) for decorator in test.decorator_list):
            continue
        for node in ast.walk(test):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{test.name}: {name}" for name in names if name.partition(".")[0] in UNIX]
    return found


@pytest.mark.parametrize(
    ("mark", "found"), [("", ["test_lock: fcntl"]), ('@pytest.mark.linux("asks for a lock")\n', [])]
)
def test_an_import_without_a_mark_is_seen(mark: str, found: list[str]) -> None:
    assert unmarked(f"{mark}def test_lock():\n    import fcntl\n") == found


def test_every_import_of_a_unix_module_is_marked() -> None:
    files = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("test_*.py") if LINK not in path.parents
    ]
    assert len(files) > 50, "too few files to mean anything"
    wrong = {str(path.relative_to(ROOT)): unmarked(path.read_text(encoding="utf-8")) for path in files}
    assert {path: names for path, names in wrong.items() if names} == {}, "mark each @pytest.mark.linux(why)"
