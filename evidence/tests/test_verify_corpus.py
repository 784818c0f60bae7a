"""The corpus of bad bundles: each rejected by the check it names, and by no accident (mutation test)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alone_kit import Alone
from bad_bundles import BadBundle, corpus, published
from bad_bundles.campaigns import take_over_first_cell
from bad_bundles.hosts import many_refused
from bundle_kit import make_sealed
from second_verifier import disagreements

from pqevidence.errors import EXIT_CHECK, EXIT_WARNING
from pqevidence.verify import CHECKS, CheckResult, exit_code, verify_bundle

CORPUS = list(corpus())
ROOT = Path(__file__).resolve().parents[2]
PUBLISHED_TABLE = ROOT / "results" / "reference" / "published-72-suites.csv"
PACKAGE = ROOT / "evidence" / "src" / "pqevidence"
#: not rejected, but never without a word: exit 3
DOUBTFUL = BadBundle("many_refused", "refused_datagrams", many_refused, many_refused.__doc__ or "")
#: they make record, tables and pages again, so they find most forgeries too; each has bundles of its own
CATCH_ALL = ("record_rebuild", "report_rebuild")


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("good"))


Verdicts = Callable[[BadBundle], list[CheckResult]]


@pytest.fixture(scope="session")
def verdicts(good: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verdicts]:
    """A bad bundle → what we say of it, which the checker that stands alone must say too, and the second
    verifier by its own code of every check that both know.

    Each is made and verified when a test first asks for it, so that no test waits for all of them. Checks do
    not see one another: leaving one out can be read off.
    """
    known: dict[str, list[CheckResult]] = {}
    with Alone(tmp_path_factory.mktemp("alone")) as alone:

        def verdict(bad: BadBundle) -> list[CheckResult]:
            if bad.name not in known:
                root = tmp_path_factory.mktemp("bad") / good.name
                shutil.copytree(good, root)
                bad.spoil(root)
                alone.ask(root)
                ours, theirs = verify_bundle(root), alone.answer()
                assert theirs == ours, f"{bad.name}: the checker that stands alone says something else"
                assert disagreements(root, ours) == [], f"{bad.name}: the second verifier says something else"
                known[bad.name] = ours
                shutil.rmtree(root)
            return known[bad.name]

        yield verdict


def test_corpus_is_large_and_documented() -> None:
    assert len(CORPUS) >= 40
    assert all(bad.why for bad in CORPUS)
    assert len({bad.name for bad in CORPUS}) == len(CORPUS)


def test_every_check_has_a_bad_bundle() -> None:
    assert {check.name for check in CHECKS} == {bad.check for bad in (*CORPUS, DOUBTFUL)}


@pytest.mark.parametrize("bad", CORPUS, ids=lambda bad: bad.name)
def test_rejected_by_the_named_check(bad: BadBundle, verdicts: Verdicts) -> None:
    """By us, and word for word by the checker that stands alone."""
    results = verdicts(bad)
    failed = {result.name: result for result in results if result.status == "fail"}
    assert bad.check in failed, [f"{r.name}: {r.observed}" for r in failed.values()]
    assert exit_code(results) == EXIT_CHECK
    assert failed[bad.check].observed and failed[bad.check].expected


@pytest.mark.parametrize("check", [check.name for check in CHECKS])
def test_without_the_check_some_bad_bundle_would_pass(check: str, verdicts: Verdicts) -> None:
    """No check is there only because another one works: a verify without it lets something by."""
    for bad in (*CORPUS, DOUBTFUL):
        if bad.check != check:
            continue
        results = [result for result in verdicts(bad) if result.name == check or result.name not in CATCH_ALL]
        without = [result for result in results if result.name != check]
        if exit_code(without) < exit_code(results):
            return
    pytest.fail(f"no bad bundle needs {check}; add one to evidence/tests/bad_bundles")


def test_leaving_a_check_out_leaves_the_others_as_they_are(good: Path, tmp_path: Path) -> None:
    """What the mutation test above rests on."""
    root = tmp_path / good.name
    shutil.copytree(good, root)
    next(bad for bad in CORPUS if bad.name == "a_fortieth_of_the_packets").spoil(root)
    whole = verify_bundle(root)
    for name in ("rate_time_packets", *CATCH_ALL, "manifest_fixity"):
        assert verify_bundle(root, skip={name}) == [result for result in whole if result.name != name]


def test_refused_datagrams_warn(verdicts: Verdicts) -> None:
    results = [result for result in verdicts(DOUBTFUL) if result.name not in CATCH_ALL]
    assert [r.name for r in results if r.status == "warn"] == ["refused_datagrams"]
    assert exit_code(results) == EXIT_WARNING


def test_cells_taken_over_from_an_earlier_run_are_no_fault(good: Path, tmp_path: Path) -> None:
    """What the bundles spoiled under `lineage` were before."""
    root = tmp_path / good.name
    shutil.copytree(good, root)
    take_over_first_cell(root)
    results = verify_bundle(root, skip={"report_rebuild"})  # the page was made before
    assert [(r.name, r.observed) for r in results if r.status != "ok"] == []


def test_published_numbers_are_rejected(tmp_path: Path) -> None:
    """110 s claimed and 15 s spent a suite, 900 of 35,200 packets, n = 1, 0.0 W: each has its check."""
    root = published.make(tmp_path / published.RUN_ID, PUBLISHED_TABLE, PACKAGE)
    results = {result.name: result for result in verify_bundle(root)}
    failed = {name for name, result in results.items() if result.status == "fail"}
    assert set(published.REJECTED_BY) <= failed
    assert "0.0 W" in results["power_claims"].observed
    # Fixity and schema are in order: it is the numbers that do not hold.
    for name in (
        "bagit_structure",
        "manifest_fixity",
        "ro_crate",
        "plan_schema",
        "record_schema",
        "cell_ids",
    ):
        assert results[name].status == "ok", results[name]
    assert len(list((root / "data" / "cells").iterdir())) == 72
