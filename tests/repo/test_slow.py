"""The fast ring's list: it names tests that there are, and leaves nothing else out."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("slow", ROOT / "tests" / "slow.py")
assert _SPEC is not None and _SPEC.loader is not None
slow = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(slow)


def functions(path: Path) -> set[str]:
    """Functions of a file, those of its classes after their class."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        above = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {f"{above}{each.name}" for each in inner if isinstance(each, ast.FunctionDef)}
    return found


def test_every_name_on_the_list_is_a_test() -> None:
    names = slow.listed()
    files = {name.partition("::")[0] for name in names}
    there = {file: functions(ROOT / file) for file in files if (ROOT / file).is_file()}
    gone = {n for n in names if n.partition("::")[2] not in there.get(n.partition("::")[0], set())}
    assert gone == set(), "write the list again: tests/slow.py says how"


def test_what_is_kept_is_there_and_never_on_the_list() -> None:
    for name in slow.KEPT:
        file, _, function = name.partition("::")
        assert function in functions(ROOT / file)
        assert slow.slow(f"9.00s call     {name}\n") == {}
    assert slow.listed().isdisjoint(slow.KEPT)


def test_a_case_or_all_cases_together_make_a_function_slow() -> None:
    output = """
1.20s call     a/test_a.py::test_long
0.10s setup    a/test_a.py::test_short
0.10s call     a/test_a.py::test_short
0.20s setup    a/test_a.py::test_both
0.20s call     a/test_a.py::test_both
""" + "".join(f"0.20s call     a/test_a.py::test_many[{n}]\n" for n in range(11))
    again = "== again, alone: 1\n9.00s call     a/test_a.py::test_short\n"
    found = {
        name.partition("::")[2]: round(seconds, 1) for name, seconds in slow.slow(output + again).items()
    }
    assert found == {"test_long": 1.2, "test_both": 0.4, "test_many": 2.2}
