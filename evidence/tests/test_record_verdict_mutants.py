"""Mutation test of the verdict: every comparison, connective, limit and grade in it is turned round in its
turn, and the cases of test_record_verdict must notice."""

from __future__ import annotations

import ast
import copy
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_record_verdict import ALLOWED, BROKEN, GOOD

from pqevidence.record import verdict as original

SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
GRADES = {"fail": "invalid", "invalid": "fail"}


def mutations(node: ast.AST) -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """(what, do, undo) for one node."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            swap = SWAPS.get(type(operator))
            if swap is not None:
                yield (
                    f"line {node.lineno}: {type(operator).__name__} → {swap.__name__}",
                    lambda i=index, s=swap: node.ops.__setitem__(i, s()),
                    lambda i=index, o=operator: node.ops.__setitem__(i, o),
                )
    elif isinstance(node, ast.BoolOp):
        before = node.op
        after = ast.Or() if isinstance(before, ast.And) else ast.And()
        yield (
            f"line {node.lineno}: {type(before).__name__} → {type(after).__name__}",
            lambda: setattr(node, "op", after),
            lambda: setattr(node, "op", before),
        )
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        value = node.value
        yield (
            f"line {node.lineno}: {value} → {value * 2 + 1}",
            lambda: setattr(node, "value", value * 2 + 1),
            lambda: setattr(node, "value", value),
        )
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
        grade = node.args[0]
        if isinstance(grade, ast.Constant) and grade.value in GRADES:
            told = grade.value
            yield (
                f"line {node.lineno}: {told} → {GRADES[told]}",
                lambda: setattr(grade, "value", GRADES[told]),
                lambda: setattr(grade, "value", told),
            )


def all_mutants() -> list[tuple[str, ast.Module]]:
    """Every mutant of the functions and limits (defaults of Evidence are data, not rules)."""
    tree = ast.parse(Path(str(original.__file__)).read_text(encoding="utf-8"))
    found = []
    for part in tree.body:
        if isinstance(part, ast.FunctionDef | ast.Assign):
            for node in ast.walk(part):
                for what, do, undo in mutations(node):
                    do()
                    found.append((what, copy.deepcopy(tree)))
                    undo()
    return found


def behaves(module: types.ModuleType) -> bool:
    """Do all cases come out as they should?"""
    if module.decide(GOOD).verdict != "pass":
        return False
    for change, verdict, name in BROKEN:
        found = module.decide(replace(GOOD, **change))
        told = [(finding.grade, finding.name) for finding in found.findings]
        if found.verdict != verdict or told != [(verdict, name)]:
            return False
    return all(module.decide(replace(GOOD, **change)).verdict == "pass" for change in ALLOWED)


def load(tree: ast.Module) -> types.ModuleType:
    module = types.ModuleType("mutant_verdict")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(ast.fix_missing_locations(tree), "mutant", "exec"), module.__dict__)
    return module


def test_the_original_behaves() -> None:
    assert behaves(original)


MUTANTS = all_mutants()


def test_there_are_mutants_to_reject() -> None:
    assert len(MUTANTS) > 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant[0])
def test_mutant_is_noticed(mutant: tuple[str, ast.Module]) -> None:
    try:
        assert not behaves(load(mutant[1]))
    except (TypeError, AttributeError):
        return  # it cannot even run: noticed
