"""Ring sim: a run in virtual time from the seed, the same every time, and a bundle that verifies."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from sim_kit import SIM, simulated

from pqevidence.analysis.claims import NAME, NOT_DISTINGUISHABLE
from pqevidence.analysis.table import read_rows
from pqevidence.errors import LabError, UsageError
from pqevidence.paths import project_root
from pqevidence.verify import verify_bundle
from pqlab.cli.main import main
from pqlab.inventory import AgentAddress
from pqlab.sim.agent import SimLab
from pqlab.sim.clock import START_NS, VirtualClock
from pqlab.sim.primitives import SimPrimitives
from pqlab.sim.run import GAP_NS
from pqlab.sim.same import WALL_CLOCK, comparable, differences
from pqtunnel.suites import AEADS, KEMS, SIGS, SUITES

SUITE = "cs-mlkem768-aesgcm-mldsa65"
TEXT = f"""\
schema: pqlab/scenario/v1
name: sim-test
title: Two suites in virtual time
seed: {{seed}}
suites: [{SUITE}, cs-hqc256-ascon128a-falcon1024]
repetitions: 2
handshake: {{{{count: 6, min_count: 5, max_s: 20}}}}
traffic: {{{{session_s: 1}}}}
bulk: {{{{rates_pps: [200], step_s: 0.5}}}}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("sim") / "first", TEXT.format(seed=7))


def record(cell: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((cell / "record.json").read_text(encoding="utf-8"))
    return loaded


def test_one_seed_gives_one_bundle(bundle: Path, tmp_path: Path) -> None:
    again = simulated(tmp_path / "again", TEXT.format(seed=7), token="fedcba")
    assert again.name != bundle.name
    assert differences(bundle, again) == []
    assert len(comparable(bundle)) > 60


def test_another_seed_gives_another(bundle: Path, tmp_path: Path) -> None:
    other = simulated(tmp_path / "other", TEXT.format(seed=8))
    differing = differences(bundle, other)
    assert {"data/plan.json", "data/report.html", "data/analysis/handshakes.csv"} <= set(differing)
    assert any(name.endswith("spans.ndjson") for name in differing)


def test_one_changed_byte_is_a_difference(bundle: Path, tmp_path: Path) -> None:
    again = simulated(tmp_path / "again", TEXT.format(seed=7))
    ledger = next(again.glob("data/cells/*/ledger.drone.csv"))
    ledger.write_bytes(ledger.read_bytes().replace(b"tx", b"ty", 1))
    assert differences(bundle, again) == [ledger.relative_to(again).as_posix()]


def test_the_bundle_verifies(bundle: Path) -> None:
    results = verify_bundle(bundle)
    assert [result for result in results if result.status != "ok"] == []
    observed = {result.name: result.observed for result in results}
    assert observed["influx_reconcile"] == "0 series, virtual time has no view"


def test_a_bundle_is_added_to_and_that_again(bundle: Path, tmp_path: Path) -> None:
    """Virtual time begins anew with each process; the runs of one bundle follow one another all the same."""
    text, whole = TEXT.format(seed=7), bundle
    for repetitions, token in ((3, "fedcba"), (4, "012345")):
        more = text.replace("repetitions: 2", f"repetitions: {repetitions}")
        whole = simulated(tmp_path / token, more, token=token, into=whole)
        assert [result for result in verify_bundle(whole) if result.status != "ok"] == []
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in whole.glob("data/lineage/*/run.json")]
    runs.append(json.loads((whole / "data" / "run.json").read_text(encoding="utf-8")))
    spans = sorted((run["started_ns"], run["ended_ns"]) for run in runs)
    assert spans[0][0] == START_NS
    assert [after[0] - before[1] for before, after in itertools.pairwise(spans)] == [GAP_NS, GAP_NS]
    assert len(list(whole.glob("data/cells/*/record.json"))) == 8


def test_what_cannot_be_added_to_says_why(bundle: Path, tmp_path: Path) -> None:
    more = TEXT.format(seed=7).replace("repetitions: 2", "repetitions: 3")
    with pytest.raises(LabError) as refused:
        simulated(tmp_path / "empty", more, into=tmp_path)
    assert refused.value.code == "not-sealed"
    with pytest.raises(LabError) as refused:
        simulated(tmp_path / "seed", more.replace("seed: 7", "seed: 8"), into=bundle)
    assert refused.value.code == "other-seed"


def test_every_number_says_sim_and_none_is_physical(bundle: Path) -> None:
    cells = [path for path in (bundle / "data" / "cells").iterdir() if path.is_dir()]
    assert len(cells) == 4
    for cell in cells:
        told = record(cell)
        assert (told["ring"], told["verdict"]) == ("sim", "pass")
        for fields in told["categories"].values():
            assert all(f["value"] is None for f in fields.values() if f["unit"] in ("W", "J", "V", "A", "°C"))
    words = (bundle / "data" / "report.md").read_text(encoding="utf-8")
    assert "Ring sim: virtual time, no physical claim at all." in words
    assert "ring lab" not in words.lower()
    origin = (bundle / "data" / "scenario.effective.yml").read_text(encoding="utf-8")
    assert "ring: sim" in origin
    assert "--inventory" in origin


def test_nothing_of_this_machine_is_in_it(bundle: Path) -> None:
    run = json.loads((bundle / "data" / "run.json").read_text(encoding="utf-8"))
    assert run["loadavg_start"] is None
    assert run["started_ns"] == START_NS
    hosts = [json.loads(path.read_text(encoding="utf-8")) for path in (bundle / "data" / "hosts").iterdir()]
    assert {host["host"]["machine"] for host in hosts} == {"simulated"}


def test_twins_are_not_distinguished(tmp_path: Path) -> None:
    text = TEXT.format(seed=3).replace("repetitions: 2", "repetitions: 5").replace("bulk:", "# bulk:")
    text = text.replace("traffic:", "# traffic:") + (
        "conditions:\n  - {name: baseline}\n  - {name: again, aa_of: baseline}\n"
    )
    done = simulated(tmp_path / "twins", text)
    rows = read_rows(done / "data" / "analysis" / f"{NAME}.csv")
    assert {row["ring"] for row in rows} == {"sim"}
    assert {row["kind"] for row in rows} == {"A/A"}
    walls = [row for row in rows if row["metric"] == "handshake_total_ms"]
    assert {row["verdict"] for row in walls} == {NOT_DISTINGUISHABLE}
    assert {(row["floor_method"], row["floor_pairs"]) for row in walls} == {("measured", "10")}
    assert not [r for r in verify_bundle(done) if r.status == "fail"]


@pytest.mark.parametrize("order", list(itertools.permutations(("drone", "gcs"))))
def test_the_order_of_threads_does_not_show(order: tuple[str, str]) -> None:
    seen = {}
    for roles in (order, ("drone", "gcs")):
        lab = SimLab(5, tuple(SUITES))
        ends = {role: lab.connect(AgentAddress(role, role, "", 1)) for role in ("drone", "gcs")}
        cell = {"cell_id": "c1"}
        prepare = {**cell, "suite_id": SUITE, "min_level": 3, "ledger": True, "seed": 9, "allow_plain": False}
        for method, params in (("hello", {}), ("prepare", prepare), ("start", cell)):
            for role in roles:
                ends[role].call(method, params)
        block = {**cell, "kind": "handshake_block", "count": 5, "min_count": 5, "max_s": 20}
        ends["drone"].call("event", block)
        for role in roles:
            ends[role].call("stop", cell)
        seen[roles] = [
            ends[role].call("fetch", {**cell, "stream": stream, "since": 0, "limit": 10_000})["lines"]
            for role in ("drone", "gcs")
            for stream in ("spans", "events", "telemetry", "log")
        ]
    assert all(lines == seen["drone", "gcs"] for lines in seen.values())


def test_what_is_not_simulated_is_refused(tmp_path: Path) -> None:
    text = TEXT.format(seed=1) + "conditions:\n  - {name: lossy, link: {up: {loss_pct: 5}}}\n"
    with pytest.raises(UsageError) as refused:
        simulated(tmp_path / "lossy", text)
    assert refused.value.code == "not-simulated"
    assert "link" in refused.value.why or "link" in refused.value.what


def test_the_command_line_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yml"
    file.write_text(TEXT.format(seed=2), encoding="utf-8")
    options = ["--inventory", str(SIM), "--out", str(tmp_path / "results")]
    assert main(["run", str(file), *options, "--reps", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert told["verdict_counts"] == {"pass": 2}
    assert main(["run", str(file), *options, "--reps", "2", "--into", "latest", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert told["verdict_counts"] == {"pass": 4}
    assert main(["verify", "--out", str(tmp_path / "results")]) == 0
    assert " 0 warnings, 0 failed" in capsys.readouterr().out


def test_the_page_lists_what_may_differ() -> None:
    page = (project_root() / "docs" / "DETERMINISM.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("| ")]
    due = [f"| {where} | {what} | {why} |" for where, what, why in WALL_CLOCK]
    assert table[1:] == due


# ---------------------------------------------------------------------- parts


def test_virtual_time_moves_only_forward() -> None:
    clock = VirtualClock()
    assert clock.realtime_ns() == clock.realtime_ns() == START_NS
    clock.sleep(1.5)
    clock.advance_to(1)
    assert clock.mono_ns() == 1_500_000_000
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


def test_stand_ins_have_the_registry_s_sizes_and_refuse_what_is_wrong() -> None:
    spent: list[int] = []
    primitives = SimPrimitives(random.Random(1), spent.append)
    for token, facts in KEMS.items():
        kem = primitives.kem(token)
        pair = kem.generate()
        ciphertext, secret = kem.encapsulate(pair.public)
        sizes = (facts.public_key_bytes, facts.ciphertext_bytes, facts.shared_secret_bytes)
        assert (len(pair.public), len(ciphertext), len(secret)) == sizes
        assert kem.decapsulate(pair, ciphertext) == secret
        assert kem.decapsulate(pair, bytes(len(ciphertext))) != secret
    for token, scheme in SIGS.items():
        sig = primitives.sig(token)
        public, private = sig.generate()
        signature = sig.sign(private, b"m")
        assert (len(public), len(private)) == (scheme.public_key_bytes, scheme.secret_key_bytes)
        assert 0 < len(signature) <= scheme.signature_bytes
        assert sig.verify(public, b"m", signature)
        assert not sig.verify(public, b"n", signature)
    assert min(spent) > 0
    for token, aead in AEADS.items():
        key = primitives.aead(token).new(token.encode().ljust(aead.key_bytes))
        sealed = key.seal(bytes(aead.nonce_bytes), b"text", b"head")
        assert len(sealed) == 4 + aead.tag_bytes
        assert key.open(bytes(aead.nonce_bytes), sealed, b"head") == b"text"
        with pytest.raises(key.invalid_tag):
            key.open(bytes(aead.nonce_bytes), sealed, b"heap")


REKEYED = TEXT.replace("session_s: 1", "session_s: 2").replace("bulk:", "# bulk:") + (
    "conditions:\n  - {{name: baseline}}\n"
    "  - {{name: rekey, rekey: {{every_s: 0.25, start_s: 0.25, suites: [cs-mlkem1024-aesgcm-mldsa87]}}}}\n"
)


def test_rekeys_and_suite_switches_lose_nothing(tmp_path: Path) -> None:
    done = simulated(tmp_path / "rekeyed", REKEYED.format(seed=11))
    assert not [r for r in verify_bundle(done) if r.status == "fail"]
    cells = [path.parent for path in done.glob("data/cells/*/record.json")]
    rekeyed = [cell for cell in cells if record(cell)["condition"] == "rekey"]
    assert len(rekeyed) == 4
    for cell in rekeyed:
        counters = json.loads((cell / "counters.json").read_text(encoding="utf-8"))
        assert counters["drone"]["rekey_started"] == counters["drone"]["rekey_completed"] == 7
        told = record(cell)["categories"]["F"]
        assert told["rekey_success_count"]["value"] == 7
        assert counters["drone"]["tx_data"] == counters["gcs"]["rx_ok"]
        assert counters["gcs"]["tx_data"] == counters["drone"]["rx_ok"]
        lines = (cell / "ledger.gcs.csv").read_text(encoding="ascii").splitlines()[1:]
        received = [line.split(",") for line in lines if line.startswith("rx")]
        assert len({row[1] for row in received}) == 8
        delivered = sorted(int(row[5]) for row in received)
        # the vehicle's bursts are at most 20 ms apart: no switch is seen in the stream
        assert max(after - before for before, after in itertools.pairwise(delivered)) < 20_000_000
        text = (cell / "events.ndjson").read_text(encoding="utf-8")
        events = [json.loads(line) for line in text.splitlines()]
        switches = [event for event in events if event["event"] == "rekey"]
        assert [e["epoch_to"] - e["epoch_from"] for e in switches] == [1] * 7
        assert {e["suite_to"] for e in switches} == {"cs-mlkem1024-aesgcm-mldsa87"}
        assert switches[0]["suite_from"] != switches[0]["suite_to"]
        assert [e["suite_from"] for e in switches[1:]] == [e["suite_to"] for e in switches[:-1]]
    again = simulated(tmp_path / "again", REKEYED.format(seed=11), token="fedcba")
    assert differences(done, again) == []
