"""Suites beside the 72 go through record, seal, verify and report as those do; `plain` has facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bad_bundles.forge import edit, finish
from bundle_kit import make_sealed
from fixture_handshake import EXTRA_SUITES

from pqevidence.analysis.load import algorithm_order, suite_facts
from pqevidence.analysis.table import read_rows
from pqevidence.pages import render
from pqevidence.record.context import primitive_sizes, suite_of
from pqevidence.verify import verify_bundle

SUITE_IDS = ("cs-mlkem768-aesgcm-mldsa65", *EXTRA_SUITES)
SLHDSA = {"name": "sig/slhdsa128s", "ok": None, "detail": "unsupported: not in this build"}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("beyond"), suites=SUITE_IDS)


def test_a_bundle_with_extras_passes_every_check(sealed: Path) -> None:
    assert [result for result in verify_bundle(sealed) if result.status != "ok"] == []
    plan = json.loads((sealed / "data" / "plan.json").read_text("utf-8"))
    assert {cell["suite_id"] for cell in plan["cells"]} == set(SUITE_IDS)


def test_facts_and_order_know_extras_and_plain() -> None:
    facts = suite_facts("xs-x25519mlkem768-asconaead128-mldsa65")
    assert facts is not None
    assert (facts.kem_family, facts.sig_family, facts.level) == ("X25519 + ML-KEM", "ML-DSA", 3)
    assert algorithm_order("X25519") > algorithm_order("Classic-McEliece-8192128")
    plain = suite_facts("plain")
    assert plain is not None
    assert (plain.kem, plain.sig, plain.aead, plain.level) == ("none", "none", "none", 0)
    classical = suite_facts("xs-x25519-aesgcm-ed25519")
    assert classical is not None
    assert [f.has_level for f in (facts, classical, plain)] == [True, False, False]
    assert primitive_sizes(suite_of("plain")) == {
        "kem_public_key": 0,
        "kem_ciphertext": 0,
        "sig": 0,
        "shared_secret": 0,
    }


def _with_selftest_item(sealed: Path, folder: Path, change: object) -> dict[str, str]:
    import shutil

    copy = Path(shutil.copytree(sealed, folder / sealed.name))
    for role in ("drone", "gcs"):
        edit(copy / "data" / "hosts" / f"{role}.json", change)  # type: ignore[arg-type]
    finish(copy)
    return {result.name: result.status for result in verify_bundle(copy)}


def test_a_primitive_this_host_lacks_matters_only_where_it_is_used(sealed: Path, tmp_path: Path) -> None:
    def unused(facts: dict[str, dict[str, list[dict[str, object]]]]) -> None:
        facts["selftest"]["items"].append(dict(SLHDSA))

    def used(facts: dict[str, dict[str, list[dict[str, object]]]]) -> None:
        for item in facts["selftest"]["items"]:
            if item["name"] == "kem/x25519":
                item["ok"] = None

    assert _with_selftest_item(sealed, tmp_path / "unused", unused)["selftest"] == "ok"
    assert _with_selftest_item(sealed, tmp_path / "used", used)["selftest"] == "fail"


def test_the_classical_baseline_is_in_no_statistics_of_a_nist_level(sealed: Path) -> None:
    rows = read_rows(sealed / "data" / "analysis" / "by_level.csv")
    assert [(row["level"], row["n_cells"]) for row in rows] == [("3", "2")]


def test_the_report_names_them(sealed: Path, tmp_path: Path) -> None:
    page, _ = render(sealed, tmp_path)
    text = page.read_text("utf-8")
    assert all(suite_id in text for suite_id in SUITE_IDS)
