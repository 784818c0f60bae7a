"""Radio traces from the scenario to the bundle: named, found, replayed by the router, and held to it."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fixtures_make
import pytest
from bundle_kit import finish_work
from fake_agent import FakeLab
from link_stub import StubLink
from measures.link.bad_bundles import NOTHING, PACKETS, TRACE, traced_cell, traced_link
from test_timeline import make

from pqevidence import bundle
from pqevidence.errors import LabError, ScenarioError
from pqevidence.measures.link.record import link_problems, sides_of
from pqevidence.measures.link.section import set_text
from pqevidence.paths import project_root
from pqevidence.record.link_ledger import read_link_ledger, replay_problems
from pqevidence.record.raw import RawCell, RawDataError
from pqevidence.scenario import load_scenario
from pqevidence.scenario.load import load_effective
from pqevidence.verify import verify_bundle
from pqlab.campaign.agents import AgentFailure
from pqlab.campaign.begin import _keep_trace
from pqlab.campaign.link import LinkControl
from pqlab.campaign.store import Store
from pqlab.cli.main import main
from pqlink.trace import parse_trace

Json = dict[str, Any]
DIGEST = hashlib.sha256(TRACE).hexdigest()
SHIPPED = sorted((project_root() / "scenarios" / "traces").glob("*.csv"))
SCENARIO = """\
schema: pqlab/scenario/v1
name: traced
suites: [cs-mlkem768-aesgcm-mldsa65]
conditions:
  - name: radio
    link:
      up: {queue_ms: 500, trace: {file: half.csv}}
      down: {rate_kbps: 64, trace: {file: half.csv, at_end: clear, start_ms: 250}}
traffic: {session_s: 5}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "half.csv").write_bytes(TRACE)
    path = tmp_path / "traced.yml"
    path.write_text(SCENARIO)
    return path


def test_a_scenario_names_its_trace_by_digest(file: Path, tmp_path: Path) -> None:
    scenario = load_scenario(str(file))
    assert scenario.traces == {DIGEST: tmp_path / "half.csv"}
    link = scenario.condition("radio")["link"]
    assert link["up"]["trace"] == {"file": "half.csv", "sha256": DIGEST, "at_end": "loop", "start_ms": 0}
    assert link["down"]["trace"]["start_ms"] == 250
    assert any(path == "conditions[0].link.up.trace.sha256" for path, _, _ in scenario.leaves())
    written = tmp_path / "scenario.effective.yml"
    written.write_text(scenario.effective_yaml())
    assert str(tmp_path) not in scenario.effective_yaml()
    again = load_effective(written)
    assert again.sha256 == scenario.sha256 and again.traces == {}


def test_a_link_without_a_trace_is_written_as_before() -> None:
    assert "trace" not in json.dumps(load_scenario("lossy-links").data)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("half.csv, at_end", "whole.csv, at_end", "there is no trace `whole.csv`"),
        ("half.csv}", "traced.yml}", "`.*traced.yml` is no trace"),
        ("half.csv}", f"half.csv, sha256: '{'0' * 64}'}}", "is not the trace of this digest"),
        ("half.csv}", "half.csv, sha256: 12}", "sha256"),
        ("queue_ms: 500", "delay_ms: 5", "both `delay_ms` and a trace"),
        ("queue_ms: 500", "loss_pct: 5", "both `loss_pct` and a trace"),
        ("start_ms: 250", "start_ms: 1000", "behind the trace's end"),
        ("at_end: clear", "at_end: stop", "at_end"),
        ("    link:\n", "    link:\n      probe: {}\n", "a trace and `probe`"),
        (
            "    link:\n",
            "    events: [{at_s: 1, kind: partition, for_s: 1}]\n    link:\n",
            "event `partition`",
        ),
        (
            "    link:\n",
            "    events: [{at_s: 1, kind: link, for_s: 1, link: {up: {trace: {file: x.csv}}}}]\n    link:\n",
            "an event's `link` has a `trace`",
        ),
    ],
)
def test_contradictions_are_refused_with_their_line(file: Path, old: str, new: str, told: str) -> None:
    assert old in SCENARIO
    file.write_text(SCENARIO.replace(old, new, 1))
    with pytest.raises(ScenarioError, match=told) as caught:
        load_scenario(str(file))
    assert re.search(r"traced\.yml:\d+: ", str(caught.value))


def test_the_run_keeps_the_trace_and_sees_a_change(file: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "results", "20260301T120000Z-ab12cd")
    _keep_trace(store, DIGEST, tmp_path / "half.csv")
    assert (store.data / "traces" / f"{DIGEST}.csv").read_bytes() == TRACE
    (tmp_path / "half.csv").write_bytes(TRACE + b"\n")
    with pytest.raises(LabError, match="was changed"):
        _keep_trace(store, DIGEST, tmp_path / "half.csv")


# ---------------------------------------------------------------------- the cell


@pytest.fixture
def stub() -> Iterator[StubLink]:
    link = StubLink()
    yield link
    link.close()


def attempt_of(tmp_path: Path, trace: bytes = TRACE) -> Path:
    """The folder of an attempt in a run that keeps the trace."""
    kept = tmp_path / "run" / "data" / "traces" / f"{DIGEST}.csv"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(trace)
    folder = tmp_path / "run" / "partial" / "cell"
    folder.mkdir(parents=True)
    return folder


def packet(number: int) -> bytes:
    """1,000 packets and more take several answers of the log."""
    ends = (b"\xc6\x12\x02\x14", b"\xc6\x12\x02\x1e")
    return b"\x45" + bytes(11) + b"".join(ends if number % 3 else ends[::-1]) + bytes(50 + number % 90)


def test_a_cell_brings_home_what_the_router_did(lab: FakeLab, stub: StubLink, tmp_path: Path) -> None:
    folder = attempt_of(tmp_path)
    link = {**traced_link(), "down": {**NOTHING, "rate_kbps": 64.0, "loss_pct": 10.0}}
    timeline, notes = make(lab, {"link": link}, LinkControl(stub.address), folder)
    timeline.before()
    router = stub.control._router
    begun_ns = router._begun_ns
    for number in range(1500):
        router.offer(packet(number), begun_ns + number * 1_700_001)
    timeline.heal()
    assert "error" not in notes.kinds()
    document = json.loads((folder / "link.json").read_text())
    assert document["router"]["logged"] == 1500 and document["router"]["unlogged"] == 0
    assert document["router"]["up"]["lost_trace"] > 100 and document["router"]["down"]["lost"] > 0
    condition = {"name": "radio", "link": link}
    assert link_problems(RawCell(folder, link=document), condition) == []
    rows = list(read_link_ledger(folder / "link.ledger.csv"))
    sides, traces, seed = sides_of(condition), {"up": parse_trace(TRACE)}, document["seed"]
    assert list(replay_problems(iter(rows), sides, traces, seed, document["router"])) == []
    assert list(replay_problems(iter(rows), sides, traces, seed + 1, document["router"])) != []
    assert list(replay_problems(iter(rows[:-1]), sides, traces, seed, document["router"])) != []
    # the next cell of the condition finds the trace there
    sent = sum(request["op"] == "trace" for request in stub.requests)
    make(lab, {"link": link}, LinkControl(stub.address), folder)[0].before()
    assert sent == 1 == sum(request["op"] == "trace" for request in stub.requests)


def test_a_run_that_lost_its_trace_says_so(lab: FakeLab, stub: StubLink, tmp_path: Path) -> None:
    folder = attempt_of(tmp_path)
    (tmp_path / "run" / "data" / "traces" / f"{DIGEST}.csv").unlink()
    timeline, _ = make(lab, {"link": traced_link()}, LinkControl(stub.address), folder)
    with pytest.raises(AgentFailure, match="lost a trace"):
        timeline.before()


CHANGES: dict[str, Callable[[list[str]], Any]] = {
    "another fate": lambda rows: rows.__setitem__(4, rows[4].rpartition(",")[0] + ","),
    "a later packet first": lambda rows: rows.insert(2, rows[9]),
    "one left out": lambda rows: rows.pop(),
    "one more": lambda rows: rows.append(rows[-1]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_of_the_account_is_found(name: str, tmp_path: Path) -> None:
    document, rows = traced_cell(tmp_path / "cell", 7)
    sides = sides_of({"link": traced_link()})
    traces = dict.fromkeys(("up", "down"), parse_trace(TRACE))
    path = tmp_path / "link.ledger.csv"

    def found() -> list[str]:
        path.write_text("\n".join(["direction,t_ns,size_bytes,wait_ns", *rows, ""]))
        return list(replay_problems(read_link_ledger(path), sides, traces, 7, document["router"]))

    assert found() == []
    CHANGES[name](rows)
    assert found() != []


@pytest.mark.parametrize(
    "text", ["", "up,1,2", "up,1,2,3,4", "left,1,90,3", "up,-1,90,3", "up,1,0,3", "up,x,90,", "up,,90,"]
)
def test_lines_that_are_no_packet(text: str, tmp_path: Path) -> None:
    path = tmp_path / "link.ledger.csv"
    path.write_text(f"direction,t_ns,size_bytes,wait_ns\n{text}\n" if text else "")
    with pytest.raises(RawDataError, match="line "):
        list(read_link_ledger(path))


def test_a_bundle_with_a_trace_verifies(tmp_path: Path) -> None:
    condition = {"name": "radio", "detector": "none", "link": traced_link()}
    work = fixtures_make.make_work_dir(tmp_path / ".work" / fixtures_make.RUN_ID, conditions=(condition,))
    kept = work / "data" / "traces" / f"{DIGEST}.csv"
    kept.parent.mkdir()
    kept.write_bytes(TRACE)
    for row in json.loads((work / "data" / "plan.json").read_text())["cells"]:
        cell = work / "data" / "cells" / row["cell_id"]
        document, rows = traced_cell(cell, row["seed"])
        (cell / "link.json").write_text(json.dumps(document))
        (cell / "link.ledger.csv").write_text("\n".join(["direction,t_ns,size_bytes,wait_ns", *rows, ""]))
    finish_work(work)
    root = bundle.seal(work, tmp_path, [])
    results = {result.name: result for result in verify_bundle(root)}
    assert [(r.name, r.observed) for r in results.values() if r.status == "fail"] == []
    assert not results["link_replayed"].observed.startswith("0 ")
    record = json.loads(next((root / "data" / "cells").glob("*/record.json")).read_text())
    assert record["verdict"] == "pass", record["reason"]
    assert record["categories"]["T"]["link_dropped_up_count"]["value"] == PACKETS // 2
    page = (root / "data" / "report.md").read_text(encoding="utf-8")
    assert f"trace {DIGEST[:12]}, loop at its end" in page
    # a bundle that takes its cells over holds their traces too
    words = [
        "correct",
        str(root),
        "--out",
        str(tmp_path / "out"),
        "--remark",
        "--reason",
        "the radio was borrowed",
    ]
    assert main(words) == 0
    again = {r.name: r for r in verify_bundle((tmp_path / "out" / "latest").resolve())}
    assert again["link_replayed"] == results["link_replayed"]
    (root / "data" / "cells" / record["cell_id"] / "link.ledger.csv").unlink()
    failed = {r.name: r.observed for r in verify_bundle(root) if r.status == "fail"}
    assert "there is no link.ledger.csv" in failed["link_replayed"]


def test_the_report_names_a_trace_and_where_it_begins() -> None:
    trace = {"sha256": DIGEST, "at_end": "clear", "start_ms": 250}
    told = set_text({"trace": trace, "rate_kbps": 64.0})
    assert told == f"trace {DIGEST[:12]}, from 250 ms, clear at its end; 64 kbit/s"


# ---------------------------------------------------------------------- shipped ones, and the command


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_trace_is_synthetic_says_so_and_is_made_again_byte_by_byte(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = parse_trace(path.read_bytes()).meta
    assert meta["origin"] == "synthetic" and path.name.startswith("synthetic-")
    assert "no radio was measured" in meta["source"] and meta["licence"]
    words = shlex.split(meta["made_by"])
    again = tmp_path / path.name
    assert words[0] == "./pqlab"
    assert main([*words[1:], "--licence", meta["licence"], "--out", str(again)]) == 0
    assert again.read_bytes() == path.read_bytes()
    assert "origin: synthetic" in capsys.readouterr().out


def test_traces_are_shipped_and_the_example_uses_one() -> None:
    assert len(SHIPPED) >= 2
    scenario = load_scenario("radio-trace")
    (digest,) = scenario.traces
    trace = parse_trace(scenario.traces[digest].read_bytes())
    independent = scenario.condition("independent")["link"]["up"]
    assert independent["loss_pct"] == pytest.approx(trace.mean_loss_pct, abs=0.01)


def test_the_example_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "radio-trace", "--json"]) in (0, 4)
    assert "radio-trace" in capsys.readouterr().out


def test_two_captures_become_a_trace_that_show_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, shift in (("sent.csv", 0), ("received.csv", 30)):
        rows = [f"{n},{1000 + 10 * n + shift}" for n in range(50) if not shift or n not in (20, 21, 22)]
        (tmp_path / name).write_text("\n".join(["seq,t_ms", *rows, ""]))
    out = tmp_path / "mine.csv"
    words = [
        "link",
        "import",
        "--sent",
        str(tmp_path / "sent.csv"),
        "--received",
        str(tmp_path / "received.csv"),
    ]
    assert main([*words, "--one-clock", "--rate-bit-s", "64000", "--out", str(out)]) == 0
    assert "fade_max_ms: 30.0" in capsys.readouterr().out
    assert main(["link", "show", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["head_origin"] == "measured" and told["head_given"] == "one_clock True; rate_bit_s 64000"
    assert (told["delay_min_ms"], told["fades_count"], told["rate_mean_bit_s"]) == (30, 1, 64000)
    assert main([*words, "--one-clock", "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_log_becomes_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "flight.log", tmp_path / "mine.csv"
    columns = "TimeUS,RSSI,RemRSSI,TxBuf,Noise,RemNoise,RxErrors,Fixed"
    rows = [f"RAD, {s * 1_000_000}, 190, 180, 99, 60, 55, {10 * s}, 0" for s in range(10, 20)]
    log.write_text("\n".join([f"FMT, 9, 20, RAD, QBBBBBHH, {columns}", *rows, ""]))
    words = ["link", "import", "--ardupilot", str(log), "--out", str(out)]
    assert main(words) == 2
    assert "--packets-hz" in capsys.readouterr().err and not out.exists()
    assert main([*words, "--packets-hz", "40", "--from-s", "12", "--to-s", "16"]) == 0
    told = capsys.readouterr().out
    assert "loss_mean_pct: 25.0" in told and "length_s: 4.0" in told and "rate_mean_bit_s: unknown" in told


@pytest.mark.parametrize(
    "words",
    [
        "show", "show none.csv", "import", "import --out x.csv", "import x --out y",
        "generate --out x.csv",
        "generate --sent x --out y", "import --ardupilot a --sent b --received c --out d",
        "import --sent a --out d", "import --ardupilot a --port 5 --out d",
        "import --sent a --received b --radio 1:1 --out d", "ranks", "ranks none.csv",
        "import --sent a --received b --one-clock --least-delay-ms 3 --out d",
        "generate --out x.csv --length-ms ten --good-ms 5 --bad-ms 5",
    ],
)  # fmt: skip
def test_words_that_do_not_fit(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["link", *words.split()]) in (2, 4)
    assert "next:" in capsys.readouterr().err
