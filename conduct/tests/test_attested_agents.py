"""A whole campaign of real agents over RPC: what they swear to is what the raw files of the bundle hold."""

from __future__ import annotations

import base64
import importlib
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeLab

from pqevidence.kernel.view import BundleView
from pqevidence.scenario import load_scenario
from pqevidence.verify import CHECKS
from pqevidence.verify.run import run_checks
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.engine import Campaign
from pqlab.inventory import AgentAddress

pytestmark = pytest.mark.native
TUNNEL = Path(__file__).resolve().parents[2] / "tunnel" / "tests"
Json = dict[str, Any]
TEXT = """\
schema: pqlab/scenario/v1
name: attested
title: Two cells of real agents
suites: [cs-mlkem768-aesgcm-mldsa65]
repetitions: 2
handshake: {count: 6, min_count: 5, max_s: 20}
traffic: {session_s: 1, tlog: true}
bulk: null
"""


class Source:
    """A traffic service that sends datagrams until it is stopped and keeps a log in two pieces."""

    name = "test"

    def __init__(self, side: Any) -> None:
        self._side = side
        self._over = threading.Event()
        self._pieces = [base64.b64encode(piece).decode() for piece in (b"first", b"and second")]

    def facts(self) -> Json:
        return {"available": True}

    def start(self, spec: Json) -> Json:
        self._over.clear()
        threading.Thread(target=self._send, daemon=True).start()
        return {"source": "embedded", "detail": {"rate_hz": 320.0, "share": 1 / 3}}

    def _send(self) -> None:
        while not self._over.wait(0.005):
            self._side.plain.send(b"datagram")

    def stop(self) -> Json:
        self._over.set()
        return {"ok": True, "sent": {"count": 300, "first_ns": 17 * 10**17}, "ratio": 2 / 7}

    def recording(self, since: int) -> Json:
        return {"chunks": self._pieces[since:], "total": len(self._pieces)}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sys.path.insert(0, str(TUNNEL))
    kit = importlib.import_module("endpoint_kit")
    from pqtunnel.keys import provision
    from pqtunnel.primitives import load

    keys, state = tmp_path_factory.mktemp("keys"), tmp_path_factory.mktemp("state")
    provision(keys, load())
    with kit.lab(keys, state) as made:
        for side in (made.drone, made.gcs):
            threading.Thread(target=side.agent.facts._gather, daemon=True).start()
            side.agent.methods._traffic = source = Source(side)
            side.agent.methods._streams.flight_log._traffic = source
        yield made
    sys.path.remove(str(TUNNEL))


@pytest.fixture(scope="module")
def bundle(pair: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    lab = FakeLab(folder)
    file = folder / "attested.yml"
    file.write_text(TEXT, encoding="utf-8")

    def connect(address: AgentAddress) -> Any:
        return (pair.drone if address.role == "drone" else pair.gcs).client()

    around = replace(lab.around(), connect=connect, clock=SystemClock())
    return Campaign.begin(around, load_scenario(str(file))).carry_out().bundle


def test_what_they_handed_out_is_in_the_files(bundle: Path) -> None:
    checks = [check for check in CHECKS if check.name.startswith("attest_")]
    told = {r.name: (r.status, r.observed) for r in run_checks(BundleView(bundle), checks)}
    assert {name: word for name, (word, _) in told.items() if word != "ok"} == {}, told
    assert "unsigned" not in " ".join(observed for _, observed in told.values())


def test_nothing_was_left_out_of_it(bundle: Path) -> None:
    """Every stream that fills a file was sworn to, with records."""
    plan = json.loads((bundle / "data" / "plan.json").read_text())
    assert plan["attestation"] == "pqlab/attestation/v1"
    for role, more in (("drone", set()), ("gcs", {"tlog"})):
        path = bundle / "data" / "attestation" / f"{role}-1.ndjson"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        kinds = [row["entry"] for row in rows]
        assert kinds.count("attempt") == kinds.count("cell") == kinds.count("stop") == len(plan["cells"])
        streams = [row for row in rows if row["entry"] == "stream"]
        filled = {row["stream"] for row in streams if row.get("lines") or row.get("bytes")}
        assert {"spans", "events", "ledger"} | more <= filled
        assert all(set(row["windows_sha256"]) == {"traffic"} for row in rows if row["entry"] == "stop")


def test_one_byte_of_a_time_is_found(bundle: Path) -> None:
    path = next((bundle / "data" / "cells").glob("*/spans.ndjson"))
    kept = path.read_bytes()
    before, found, after = kept.rpartition(b'"start_ns":')
    try:
        path.write_bytes(before + found + (b"8" if after[:1] == b"9" else b"9") + after[1:])
        (check,) = [check for check in CHECKS if check.name == "attest_raw"]
        (told,) = run_checks(BundleView(bundle), [check])
    finally:
        path.write_bytes(kept)
    assert told.status == "fail" and "spans.ndjson: of records" in told.observed
