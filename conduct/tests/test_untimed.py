"""Emulated processors and wine: such hosts' times are in no comparison, and every page says so first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pqevidence.analysis.load import BundleData
from pqevidence.derived import COMPARING, tables_of
from pqevidence.errors import LabError
from pqevidence.measures import MEASURES
from pqevidence.pages import render
from pqevidence.record.untimed import untimed_reasons, untimed_sentence
from pqevidence.tables import analyse
from pqlab.campaign.hosts import check_pair

EMULATED = {"drone": {"emulated": "qemu-user"}, "gcs": {"wine": "10.0"}}


@pytest.fixture(scope="module")
def timed(bundle_of_all_suites: Path) -> Path:
    return bundle_of_all_suites


@pytest.fixture(scope="module")
def untimed(timed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("untimed") / "run"
    shutil.copytree(timed, root)
    for role, told in EMULATED.items():
        path = root / "data" / "hosts" / f"{role}.json"
        facts = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**facts, "host": {**facts["host"], **told}}), encoding="utf-8")
    analyse(root)
    render(root)
    return root


def test_each_host_that_says_so_gives_a_reason() -> None:
    hosts = {role: {"host": told} for role, told in EMULATED.items()}
    assert untimed_reasons(hosts) == (
        "the drone's processor is emulated (qemu-user)",
        "the ground station runs Windows programs under wine 10.0",
    )
    assert untimed_reasons({"drone": {"host": {"cpu_model": "QEMU TCG CPU version 2.5+"}}})
    assert untimed_reasons({"drone": {"host": {"cpu_model": "Cortex-A72"}}, "gcs": {"host": {}}}) == ()
    assert untimed_sentence(()) is None


def test_tables_that_compare_times_are_empty_and_the_others_are_not(timed: Path, untimed: Path) -> None:
    before = {table.name: table for table in tables_of(BundleData(timed))}
    after = {table.name: table for table in tables_of(BundleData(untimed))}
    comparing = COMPARING.union(*(measure.comparing for measure in MEASURES))
    compared = {name for name in comparing & before.keys() if before[name].rows}
    assert {"effects", "pareto"} <= compared
    assert all(after[name].rows == [] for name in compared)
    for name in before.keys() - comparing:
        assert len(after[name].rows) == len(before[name].rows), name
        assert after[name].columns == before[name].columns


def test_the_page_says_it_first_and_marks_every_ring(timed: Path, untimed: Path) -> None:
    sentence = untimed_sentence(untimed_reasons({r: {"host": t} for r, t in EMULATED.items()}))
    assert sentence is not None
    for name in ("report.html", "report.md"):
        plain = (timed / "data" / name).read_text(encoding="utf-8")
        page = (untimed / "data" / name).read_text(encoding="utf-8")
        assert "No time of this run is a claim" not in plain and "times no claim" not in plain
        assert page.index("No time of this run is a claim") < page.index("cells planned")
    page = (untimed / "data" / "report.html").read_text(encoding="utf-8")
    unmarked = page.count('">ring lab</span>')
    # the run's own ring, beside its name, is a fact of the run and no number's
    assert unmarked == 1
    assert page.count("ring lab, times no claim</span>") > 20
    assert (
        "distinguishably"
        not in page.split('id="recommendations"')[1].split("</section>")[0].split("No rec")[0]
    )


def test_ring_hardware_is_refused_before_the_first_cell() -> None:
    facts = {"role": "drone", "ring": "hardware", "host": {"emulated": "qemu-user"}}
    with pytest.raises(LabError, match="emulated qemu-user") as caught:
        check_pair({"drone": facts}, SimpleNamespace(ring="hardware", data={}))  # type: ignore[arg-type]
    assert caught.value.code == "wrong-ring"
