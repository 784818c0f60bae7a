"""A cell is judged by the fault that it asked for: its samples, its dead end, its way back."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fixtures_make
import pytest
from bundle_kit import finish_work
from fixture_cell import log_of
from second_verifier import disagreements

from pqevidence import bundle
from pqevidence.pages import build
from pqevidence.record.faults import power_cycled
from pqevidence.records import build_record, load_context
from pqevidence.report.source import Source
from pqevidence.verify import verify_bundle

Json = dict[str, Any]
SUITE = "cs-mlkem768-aesgcm-mldsa65"
MS = 1_000_000
BASE: Json = {"name": "fault", "detector": "none", "link": "none", "rekey": "none", "events": []}


def event(kind: str, **more: Any) -> Json:
    return {"at_s": 0.3, "kind": kind, "for_s": None, "role": None, **more}


STALL = event("sensor_stall", role="drone", for_s=0.6)


def work_with(tmp_path: Path, *events: Json) -> tuple[Path, Path]:
    work = fixtures_make.make_work_dir(
        tmp_path / fixtures_make.RUN_ID,
        suites=(SUITE,),
        bulk=False,
        session_s=3.0,
        conditions=({**BASE, "events": list(events)},),
    )
    return work, next((work / "data" / "cells").iterdir())


def record_of(work: Path) -> Json:
    context = load_context(work / "data")
    row = context.plan["cells"][0]
    return build_record(work / "data" / "cells" / row["cell_id"], row, context)


def failed_checks(work: Path) -> list[tuple[str, str]]:
    """Of the bundle that the finished work becomes; the second verifier must say the same."""
    sealed = bundle.seal(work, work.parent / "sealed", [])
    results = verify_bundle(sealed)
    assert disagreements(sealed, results) == []
    return [(r.name, r.observed) for r in results if r.status == "fail"]


def events_of(folder: Path) -> list[Json]:
    return [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]


def add_events(folder: Path, *rows: Json) -> None:
    events = sorted([*events_of(folder), *rows], key=lambda row: int(row["t_ns"]))
    (folder / "events.ndjson").write_text("".join(json.dumps(row) + "\n" for row in events))
    (folder / "logs" / "controller.log").write_text(log_of(events))


def opened_ns(folder: Path) -> int:
    windows = json.loads((folder / "traffic.json").read_text())["windows"]
    return int(windows["traffic"]["drone"]["open_ns"])


def drop_ticks(folder: Path, role: str, keep: Callable[[int], bool]) -> None:
    """Samples whose time `keep` refuses were never taken."""
    path = folder / f"telemetry.{role}.lp"
    lines, lost = [], 0
    for line in path.read_text().splitlines():
        if not keep(int(line.rsplit(" ", 1)[1])):
            lost += line.startswith("pq_sampler,")
            continue
        for name, change in (
            (("stored", -lost), ("got", -lost), ("lost", lost)) if "pq_sampler," in line else ()
        ):
            line = re.sub(
                rf"{name}_count=(\d+)i", lambda m, n=name, c=change: f"{n}_count={int(m[1]) + c}i", line
            )
        lines.append(line)
    path.write_text("".join(f"{line}\n" for line in lines))


def stall(folder: Path, *, for_ns: int = 600 * MS, asleep_ns: int = 600 * MS) -> int:
    """The drone's sampler stands still for `asleep_ns`; its agent says `for_ns`. Returns when it ended."""
    begun = opened_ns(folder) + 300 * MS
    add_events(
        folder,
        {"t_ns": begun, "host": "drone", "event": "sensor_stall", "for_s": for_ns / 1e9},
        {
            "t_ns": begun + MS,
            "host": "controller",
            "event": "timed_event",
            "timed": "sensor_stall",
            "ok": True,
            "at_s": 0.3,
            "for_s": for_ns / 1e9,
            "role": "drone",
        },
        {"t_ns": begun + for_ns, "host": "drone", "event": "sensor_stall_end"},
    )
    drop_ticks(folder, "drone", lambda t_ns: not begun < t_ns < begun + asleep_ns)
    return begun + for_ns


def test_a_stall_that_was_asked_for_owes_no_samples(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path, STALL)
    stall(folder)
    assert (record_of(work)["verdict"], record_of(work)["reason"]) == ("pass", None)


def test_a_sampler_that_sleeps_longer_than_it_was_told_is_no_measurement(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path, STALL)
    stall(folder, asleep_ns=1500 * MS)
    record = record_of(work)
    assert record["verdict"] == "invalid" and "samples_drone" in record["reason"]


def test_a_stall_that_nobody_asked_for_is_no_excuse(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path)
    stall(folder)
    assert record_of(work)["verdict"] == "invalid"


def test_recovery_is_told_by_suite_and_the_bundle_verifies(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path, STALL)
    ended_ns = stall(folder)
    run = json.loads((work / "data" / "run.json").read_text())
    for row in run["influx"]["cells"][0]["series"]:
        name = row["series"]
        lines = [
            line
            for path in folder.glob("telemetry.*.lp")
            for line in path.read_text().splitlines()
            if line.split(" ", 1)[0] == name
        ]
        row.update(file_count=len(lines), influx_count=len(lines))
    (work / "data" / "run.json").write_text(json.dumps(run))
    finish_work(work)
    with (work / "data" / "analysis" / "fault_recovery.csv").open() as handle:
        (row,) = csv.DictReader(handle)
    assert (row["kind"], row["role"], row["suite_id"]) == ("sensor_stall", "drone", SUITE)
    ticks = [int(line.rsplit(" ", 1)[1]) for line in (folder / "telemetry.drone.lp").read_text().splitlines()]
    first = min(tick for tick in ticks if tick >= ended_ns)
    assert float(row["recovery_ms"]) == pytest.approx((first - ended_ns) / 1e6)
    sections = {section.id: section for section in build(Source(work)).sections}
    assert "faults" in sections
    assert failed_checks(work) == []


# ---------------------------------------------------------------------- a killed end


def kill(work: Path, folder: Path, role: str, *, back: bool = True) -> None:
    """The end dies in the middle of the window: its ledger and samples are gone, its last words are kept."""
    at_ns = opened_ns(folder) + 1000 * MS
    add_events(
        folder,
        {
            "t_ns": at_ns,
            "host": "controller",
            "event": "timed_event",
            "timed": "peer_kill",
            "ok": True,
            "at_s": 1.0,
            "role": role,
        },
        *(
            [
                {
                    "t_ns": at_ns + 1500 * MS,
                    "host": "controller",
                    "event": "recovered",
                    "timed": "peer_kill",
                    "role": role,
                    "agent_ms": 900.0,
                    "recovery_ms": 1500.0,
                }
            ]
            if back
            else [
                {
                    "t_ns": at_ns + 1500 * MS,
                    "host": "controller",
                    "event": "error",
                    "timed": "peer_kill",
                    "reason": f"a session of the {role} did not come back",
                    "code": "no-return",
                }
            ]
        ),
    )
    for name in (f"ledger.{role}.csv", f"telemetry.{role}.lp"):
        (folder / name).unlink()
    rows = [row for row in events_of(folder) if not (row["host"] == role and row["event"] == "stop")]
    (folder / "events.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    traffic = json.loads((folder / "traffic.json").read_text())
    for key in ("close_ns", "source_report"):
        traffic["windows"]["traffic"][role].pop(key, None)
    (folder / "traffic.json").write_text(json.dumps(traffic))
    counters = json.loads((folder / "counters.json").read_text())
    del counters[role]["windows"]["traffic"]
    if role == "gcs":
        counters["drone"]["hs_started"] += 2
        counters["drone"]["hs_failed"] = 2
    (folder / "counters.json").write_text(json.dumps(counters))
    if role == "gcs":
        add_events(folder, *redials(at_ns + 400 * MS, failed=2))
    run = json.loads((work / "data" / "run.json").read_text())
    for one in run["influx"]["cells"]:
        one["series"] = [row for row in one["series"] if f"host={role}" not in row["series"]]
    (work / "data" / "run.json").write_text(json.dumps(run))


def redials(first_ns: int, *, failed: int) -> list[Json]:
    rows: list[Json] = []
    for number in range(failed):
        at_ns = first_ns + number * 100 * MS
        rows += [
            {
                "t_ns": at_ns,
                "host": "drone",
                "event": "redial",
                "attempt": number + 1,
                "reason": "3 s without an authenticated packet",
            },
            {
                "t_ns": at_ns + 9 * MS,
                "host": "drone",
                "event": "handshake_failed",
                "reason": "connection refused",
                "code": "handshake",
            },
        ]
    return rows


@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_a_kill_that_was_asked_for_is_judged_by_the_way_back(tmp_path: Path, role: str) -> None:
    work, folder = work_with(tmp_path, event("peer_kill", role=role))
    kill(work, folder, role)
    record = record_of(work)
    assert (record["verdict"], record["reason"]) == ("pass", None)
    finish_work(work)
    with (work / "data" / "analysis" / "fault_recovery.csv").open() as handle:
        (row,) = csv.DictReader(handle)
    assert (row["kind"], row["role"], float(row["recovery_ms"])) == ("peer_kill", role, 1500.0)
    assert failed_checks(work) == []


def test_an_end_that_stays_away_fails_its_cell(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path, event("peer_kill", role="gcs"))
    kill(work, folder, "gcs", back=False)
    record = record_of(work)
    assert record["verdict"] == "fail" and "did not come back" in record["reason"]


def test_an_end_that_died_by_itself_is_no_result(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path)
    kill(work, folder, "gcs")
    assert record_of(work)["verdict"] != "pass"


# ---------------------------------------------------------------------- silence


def test_a_stall_of_the_peer_is_told_as_silence_and_not_as_failed_handshakes(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path)
    counters = json.loads((folder / "counters.json").read_text())
    counters["drone"]["hs_started"] += 2
    (folder / "counters.json").write_text(json.dumps(counters))
    add_events(folder, *redials(opened_ns(folder) + 1200 * MS, failed=2))
    record = record_of(work)
    assert record["verdict"] == "fail"
    assert record["reason"] == (
        "silence: the drone heard nothing for 3 s at 1.2 s of the traffic window: the ground or the way to "
        "it stood still; 2 of 2 dials after it failed (last: connection refused)"
    )


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    yield work_with(tmp_path, event("partition", for_s=0.5))
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_partition_is_over_when_datagrams_come_again_at_both_ends(cut: tuple[Path, Path]) -> None:
    from pqevidence.record.faults import recoveries
    from pqevidence.record.raw import load_cell

    _, folder = cut
    at_ns = opened_ns(folder) + 300 * MS
    add_events(
        folder,
        {
            "t_ns": at_ns,
            "host": "controller",
            "event": "timed_event",
            "timed": "partition",
            "ok": True,
            "at_s": 0.3,
            "for_s": 0.5,
        },
    )
    cell = load_cell(folder)
    (told,) = recoveries(cell, {}, one_clock=True)
    end_ns = at_ns + 500 * MS
    firsts = [min(t for t in cell.ledgers[role].rx.t_out_ns if t >= end_ns) for role in ("drone", "gcs")]
    assert told.recovery_ms == pytest.approx((max(firsts) - end_ns) / 1e6)
    (blind,) = recoveries(cell, {}, one_clock=False)
    assert blind.recovery_ms is None and "clock" in str(blind.reason)


# ---------------------------------------------------------------------- cycled power


CYCLED = event("power_cycle", role="drone")
LOST = "the drone agent closed the connection"


def cycle(folder: Path, *, ok: bool = True) -> None:
    """The drone loses its power in the middle of the window: what it held is gone, and calls to it fail."""
    at_ns = opened_ns(folder) + 1000 * MS
    timed = {"timed": "power_cycle", "at_s": 0.3, "role": "drone"}
    told = (
        {"event": "timed_event", "ok": True, "result": {"place": "rack-1"}}
        if ok
        else {"event": "error", "ok": False, "reason": "no answer of the power strip", "code": "power-cycle"}
    )
    add_events(
        folder,
        {"t_ns": at_ns, "host": "controller", **timed, **told},
        {
            "t_ns": at_ns + MS,
            "host": "controller",
            "event": "error",
            "reason": LOST,
            "code": "agent_unreachable",
            "role": "drone",
        },
    )
    for name in ("ledger.drone.csv", "telemetry.drone.lp"):
        (folder / name).unlink()


def test_a_power_cycle_that_was_asked_for_makes_its_cell_invalid_and_says_where(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path, CYCLED)
    cycle(folder)
    record = record_of(work)
    reason = "power_cycle: the power of the drone was cycled at 0.3 s (place rack-1)"
    assert (record["verdict"], record["reason"]) == ("invalid", reason)
    assert power_cycled(record)
    finish_work(work)
    assert [name for name, _ in failed_checks(work) if name != "influx_reconcile"] == []


def test_a_power_cycle_that_did_not_take_place_fails_its_cell(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path, CYCLED)
    cycle(folder, ok=False)
    record = record_of(work)
    assert record["verdict"] == "fail" and "no answer of the power strip" in record["reason"]
    assert not power_cycled(record)


def test_an_end_that_lost_its_power_unasked_fails_its_cell(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path)
    cycle(folder)
    record = record_of(work)
    assert record["verdict"] == "fail" and LOST in record["reason"]


# ---------------------------------------------------------------------- killed by somebody


def lose(folder: Path) -> None:
    """Somebody kills the drone's container before the window closes, and the controller notices."""
    told = {
        "reason": f"container drone exited with 137; {LOST}",
        "code": "agent_unreachable",
        "role": "drone",
    }
    place = {"t_ns": opened_ns(folder) + 1000 * MS, "host": "controller", "event": "error"}
    add_events(folder, {**place, **told, "killed": ["drone"]})
    for name in ("ledger.drone.csv", "telemetry.drone.lp"):
        (folder / name).unlink()


def test_an_end_that_somebody_killed_makes_its_cell_invalid_and_is_named(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path)
    lose(folder)
    record = record_of(work)
    reason = f"killed: container drone exited with 137; {LOST}"
    assert (record["verdict"], record["reason"]) == ("invalid", reason)
    finish_work(work)
    assert [name for name, _ in failed_checks(work) if name != "influx_reconcile"] == []


def test_where_a_kill_was_asked_for_an_end_that_does_not_come_back_fails_its_cell(tmp_path: Path) -> None:
    work, folder = work_with(tmp_path, event("peer_kill", role="drone"))
    lose(folder)
    record = record_of(work)
    assert record["verdict"] == "fail" and LOST in record["reason"]


# ---------------------------------------------------------------------- completed at one end


@pytest.mark.parametrize(("failures", "due"), [(1, []), (0, ["network_wait"])])
def test_a_handshake_that_the_ground_alone_completed_is_one_that_the_drone_says_failed(
    tmp_path: Path, failures: int, due: list[str]
) -> None:
    work, folder = work_with(tmp_path)
    rows = [json.loads(line) for line in (folder / "spans.ndjson").read_text().splitlines()]
    last = [row for row in rows if row["handshake_id"] == rows[-1]["handshake_id"]]
    more = [{**row, "handshake_id": "f" * 16, "index": 99} for row in last if row["host"] == "gcs"]
    (folder / "spans.ndjson").write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
    counters = json.loads((folder / "counters.json").read_text())
    counters["gcs"]["hs_completed"] += 1
    (folder / "counters.json").write_text(json.dumps(counters))
    told = {"t_ns": opened_ns(folder), "host": "drone", "event": "handshake_failed", "reason": "no answer"}
    add_events(folder, *[told] * failures)
    finish_work(work)
    asked = ("network_wait", "handshake_count", "span_coverage", "steps_follow", "report_rebuild")
    assert [name for name, _ in failed_checks(work) if name in asked] == due
