"""The link in the record: an honest one is accepted, and each dishonest change is a finding."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fixtures_make
import pytest
from bundle_kit import finish_work
from measures.link.bad_bundles import condition_link, lossy_link

from pqevidence import bundle
from pqevidence.measures.link.record import link_problems
from pqevidence.measures.link.section import set_text
from pqevidence.record.raw import RawCell
from pqevidence.verify import verify_bundle

Json = dict[str, Any]
CONDITION: Json = {"name": "lossy", "link": condition_link()}


def problems(document: Json | None, condition: Json = CONDITION) -> list[str]:
    return link_problems(RawCell(Path("cell"), link=document), condition)


def test_an_honest_link_is_accepted() -> None:
    assert problems(lossy_link()) == []


def test_a_direct_cell_has_no_link_to_prove() -> None:
    assert problems(None, {"name": "baseline", "link": "none"}) == []


def test_a_control_without_probes_is_accepted() -> None:
    document = lossy_link(0.0)
    document["probes"] = None
    block = {**condition_link(0.0), "probe": None}
    assert problems(document, {"name": "link-0", "link": block}) == []


CHANGES: dict[str, Callable[[Json], Any]] = {
    "no router counts": lambda d: d.update(router=None),
    "lapsed": lambda d: d.update(lapsed="gone"),
    "no probes": lambda d: d.update(probes=None),
    "other setting": lambda d: d["set"].update(up={**d["set"]["up"], "delay_ms": 1.0}),
    "packets unaccounted": lambda d: d["router"]["up"].update(delivered=4000),
    "delay": lambda d: d["probes"]["udp"]["up"].update(delay_mean_ms=20.0, delay_max_ms=25.0),
    "jitter": lambda d: d["probes"]["udp"]["down"].update(delay_sd_ms=8.0),
    "udp loss": lambda d: d["probes"]["udp"].update(up=lossy_link(9.0)["probes"]["udp"]["up"]),
    "tcp loss": lambda d: d["probes"].update(tcp=lossy_link(9.0)["probes"]["tcp"]),
    "tcp delay": lambda d: d["probes"]["tcp"].update(rtt_mean_ms=9.0, rtt_max_ms=9.5),
    "mean beyond the greatest": lambda d: d["probes"]["udp"]["up"].update(delay_max_ms=0.01),
    "negative": lambda d: d["probes"]["udp"]["up"].update(lost=-1, n=3799),
    "chain": lambda d: d["probes"]["udp"].update(sent=5000),
    "a word for a number": lambda d: d["probes"]["udp"]["up"].update(n="many"),
    "a missing key": lambda d: d.pop("set"),
    "a list": lambda d: d["probes"].update(udp=[]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_found(name: str) -> None:
    document = copy.deepcopy(lossy_link())
    CHANGES[name](document)
    assert problems(document) != []


def test_a_routed_bundle_verifies_and_its_record_tells(tmp_path: Path) -> None:
    condition = {"name": "lossy", "detector": "none", "link": condition_link()}
    work = fixtures_make.make_work_dir(tmp_path / ".work" / fixtures_make.RUN_ID, conditions=(condition,))
    for cell in (work / "data" / "cells").iterdir():
        (cell / "link.json").write_text(json.dumps({**lossy_link(), "cell_id": cell.name}))
    finish_work(work)
    root = bundle.seal(work, tmp_path, [])
    assert [(r.name, r.observed) for r in verify_bundle(root) if r.status == "fail"] == []
    record = json.loads(next((root / "data" / "cells").glob("*/record.json")).read_text())
    fields = record["categories"]["T"]
    assert record["verdict"] == "pass", record["reason"]
    assert fields["link_loss_up_pct"]["value"] == 5.0
    assert fields["link_loss_up_pct"]["n"] == 4000
    assert fields["link_rtt_tcp_mean_ms"]["value"] == 0.3
    assert fields["link_dropped_up_count"]["value"] == 250
    assert fields["link_late_mean_up_ms"]["value"] == 0.02
    page = (root / "data" / "report.md").read_text(encoding="utf-8")
    assert "## Link: set and achieved" in page and "| drone → GCS | loss 5 % | 4,000 |" in page
    assert "the link router where the condition has one" in page


@pytest.mark.parametrize(
    ("side", "text"),
    [
        ({}, "nothing"),
        ({"delay_ms": 50.0, "jitter_ms": 0.0, "loss_pct": 0.1}, "loss 0.1 %; delay 50 ms"),
        (
            {"delay_ms": 65.5, "jitter_ms": 65.5, "distribution": "uniform", "rate_kbps": 32.0},
            "32 kbit/s; delay 65.5 ± 65.5 ms, uniform",
        ),
        (
            {"burst_loss": {"p_enter_pct": 1, "p_exit_pct": 25, "loss_pct": 90}, "duplicate_pct": 2},
            "bursts losing 90 % (in 1 %, out 25 %); doubled 2 %",
        ),
    ],
)
def test_settings_as_the_report_tells_them(side: Json, text: str) -> None:
    assert set_text(side) == text
