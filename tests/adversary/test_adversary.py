"""Every forgery of the kit against `verify`: which survive docs/WITNESSES.md names, and no more may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from second_verifier import disagreements

from adversary.catalogue import Forgery, forgeries
from adversary.material import MATERIALS
from adversary.run import (
    NAMED,
    NAMED_BEGIN,
    NAMED_END,
    PAGE,
    Outcome,
    attempt,
    named_table,
    table,
    without_numbers,
    written,
)
from pqevidence.verify import CheckResult, verify_bundle

FORGERIES = list(forgeries())
PRINTED = written(PAGE.read_text(encoding="utf-8"))
LISTED = set(re.findall(r"`((?:sim|lab|lossy|watched)-\w+)`", PRINTED))


def seconded(root: Path, results: list[CheckResult]) -> None:
    """The second verifier says the same of every check that both know."""
    assert disagreements(root, results) == []


class Kit:
    """Materials and outcomes, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.materials: dict[str, Path] = {}
        self.outcomes: dict[str, Outcome] = {}

    def material(self, kind: str) -> Path:
        if kind not in self.materials:
            self.materials[kind] = MATERIALS[kind](self.folder / kind)
        return self.materials[kind]

    def outcome(self, forgery: Forgery) -> Outcome:
        if forgery.label not in self.outcomes:
            made = attempt(forgery, self.material(forgery.material), self.folder / "forged", seconded)
            self.outcomes[forgery.label] = made
        return self.outcomes[forgery.label]


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    yield Kit(tmp_path_factory.mktemp("adversary"))


def test_there_are_many_and_each_says_what_a_reader_would_believe() -> None:
    assert len(FORGERIES) >= 120
    assert len({forgery.label for forgery in FORGERIES}) == len(FORGERIES)
    assert len({forgery.klass for forgery in FORGERIES}) >= 14
    assert all(forgery.belief for forgery in FORGERIES)


@pytest.mark.parametrize("kind", MATERIALS)
def test_what_is_forged_was_honest(kit: Kit, kind: str) -> None:
    """Otherwise a forgery would be stopped for what it did not do."""
    failed = [r for r in verify_bundle(kit.material(kind)) if r.status == "fail"]
    assert failed == []


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.label)
def test_survives_where_the_page_says_so_and_nowhere_else(kit: Kit, forgery: Forgery) -> None:
    outcome = kit.outcome(forgery)
    told = forgery.label in LISTED
    assert outcome.survived == told or not forgery.witnessed, (
        f"{forgery.label}: {'stopped' if told else 'passes'}; {outcome.first}; "
        "write the table again: PYTHONPATH=tests python -m adversary.run --write"
    )


def test_the_page_has_the_table_of_these_outcomes(kit: Kit) -> None:
    assert table(kit.outcome(forgery) for forgery in FORGERIES) == PRINTED


def test_the_page_says_which_check_stops_what_anybody_would_try(kit: Kit) -> None:
    """Numbers and digests aside, which differ from build to build."""
    made = named_table(kit.outcome(forgery) for forgery in FORGERIES if forgery.label in NAMED.values())
    printed = written(PAGE.read_text(encoding="utf-8"), NAMED_BEGIN, NAMED_END)
    assert without_numbers(made) == without_numbers(printed)
    assert "| none |" not in printed


def test_a_missing_witness_is_told(kit: Kit, tmp_path: Path) -> None:
    """The kit itself can fail: an honest bundle survives, and is then listed."""
    honest = Forgery("nothing", "nothing", "lab", lambda _bundle: None, "nothing", True, True)
    outcome = attempt(honest, kit.material("lab"), tmp_path)
    assert outcome.survived and "`lab-nothing`" in table([outcome])
