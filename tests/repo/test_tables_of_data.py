"""`# fmt: skip` stands behind tables of data alone: rows that a reader compares, several on a line."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "# fmt: " + "skip"
TABLES = (ast.Tuple, ast.List, ast.Set, ast.Dict)


def marked(text: str) -> list[int]:
    """Lines that end with the mark."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.start[0] for token in tokens if token.type == tokenize.COMMENT and token.string == MARK]


def is_table(value: ast.expr | None) -> bool:
    """A literal of several rows, also one that a call takes (`frozenset({…})`, `parametrize("…", […])`)."""
    if isinstance(value, ast.Call):
        return any(isinstance(argument, TABLES) for argument in value.args)
    if isinstance(value, ast.BinOp):
        return is_table(value.left) and is_table(value.right)
    return isinstance(value, TABLES)


def other_than_tables(text: str) -> list[int]:
    """Marked lines that do not end a table: of an assignment, or of a decorator."""
    ends = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_table(node.value):
            ends.add(node.end_lineno)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            ends |= {each.end_lineno for each in node.decorator_list if is_table(each)}
    return [line for line in marked(text) if line not in ends]


def sources() -> list[Path]:
    """All Python files of the tree."""
    return [path for path in ROOT.rglob("*.py") if not any(part.startswith(".") for part in path.parts)]


def test_the_mark_stands_behind_tables_alone() -> None:
    found = {
        str(path.relative_to(ROOT)): odd
        for path in sources()
        if MARK in (text := path.read_text("utf-8")) and (odd := other_than_tables(text))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        (f"A = (1,\n     2)  {MARK}\n", []),
        (f"A = frozenset({{1,\n 2}})  {MARK}\n", []),
        (f"@mark('a', [1,\n 2])  {MARK}\ndef f(): ...\n", []),
        (f"a = f(1,\n      2)  {MARK}\n", [2]),
        (f"if (a and\n        b):  {MARK}\n    pass\n", [2]),
        (f"return_(\n 'x')  {MARK}\n", [2]),
    ],
)
def test_what_a_table_is(text: str, odd: list[int]) -> None:
    assert other_than_tables(text) == odd
