"""The section "If your radio is …": from the pooled medians of measured cells alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fixture_handshake
import pytest
from advise_bundle import link_of
from measures.link.bad_bundles import lossy_link
from report_bundle import make_bundle

from pqevidence.advise.radio import Radio
from pqevidence.report.blocks import Section, Table
from pqevidence.report.sections.radios import radios
from pqevidence.report.source import Source
from pqlink.settings import Side

Json = dict[str, Any]
SUITES = tuple(f"cs-mlkem768-{aead}-mldsa65" for aead in ("aesgcm", "chacha20poly1305", "ascon128a"))
RADIO: Json = {"name": "slow", "link": link_of(Radio(800, 60, 0)), "detector": "none"}
DIRECT: Json = {"name": "baseline", "link": "none", "detector": "none"}


@pytest.fixture(autouse=True)
def _times(monkeypatch: pytest.MonkeyPatch) -> None:
    for suite_id in SUITES:
        monkeypatch.setitem(fixture_handshake.TIMES, suite_id, (0.031, 0.110, 0.045, 0.033, 0.036))


def _through_the_router(root: Path) -> None:
    """link.json of every cell of condition `slow`, without probes."""
    plan = json.loads((root / "data" / "plan.json").read_text())
    for cell in plan["cells"]:
        if cell["condition"] == "slow":
            side = Side.parse(RADIO["link"]["up"]).as_dict()
            told = {**lossy_link(0.0), "cell_id": cell["cell_id"], "probes": None}
            told["set"] = {"up": side, "down": side}
            (root / "data" / "cells" / cell["cell_id"] / "link.json").write_text(json.dumps(told))


def made(root: Path, *conditions: Json) -> Section | None:
    return radios(
        Source(make_bundle(root, edit=_through_the_router, suites=SUITES, conditions=conditions, bulk=False))
    )


def test_a_run_without_a_radio_has_no_such_section(tmp_path: Path) -> None:
    assert made(tmp_path, DIRECT) is None


def test_suites_that_differ_in_aead_are_one_line(tmp_path: Path) -> None:
    section = made(tmp_path, DIRECT, RADIO)
    assert section is not None and section.title == "If your radio is …"
    (table,) = section.blocks
    assert isinstance(table, Table)
    (line,) = [[cell.text for cell in row] for row in table.rows]
    assert line[0] == "slow: 800 kbit/s, 60 ms one way, no loss, MTU 1500"
    assert line[2:4] == ["ML-KEM-768", "ML-DSA-65"]
    assert line[7:9] == [str(len(SUITES)), "1 of 1"]
