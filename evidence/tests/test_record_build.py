"""build_record over synthetic raw files: known values, absent files, broken cells."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fixtures_make
import jsonschema
import pytest

from pqevidence.record import RawDataError, RawRun, record_schema
from pqevidence.records import build_record, load_context

Json = dict[str, Any]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    yield fixtures_make.make_work_dir(tmp_path / fixtures_make.RUN_ID)


@pytest.fixture
def context(work: Path) -> RawRun:
    return load_context(work / "data")


def first(work: Path, context: RawRun) -> tuple[Path, Json]:
    row = context.plan["cells"][0]
    return work / "data" / "cells" / row["cell_id"], row


def value(record: Json, letter: str, name: str) -> Any:
    return record["categories"][letter][name]["value"]


def spans(folder: Path) -> list[Json]:
    return [json.loads(line) for line in (folder / "spans.ndjson").read_text().splitlines()]


def test_records_are_valid_and_pass(work: Path, context: RawRun) -> None:
    for row in context.plan["cells"]:
        record = build_record(work / "data" / "cells" / row["cell_id"], row, context)
        jsonschema.validate(record, record_schema())
        assert (record["verdict"], record["reason"], record["attempts"]) == ("pass", None, 1)
        assert record["wall"]["overhead_s"] == pytest.approx(0.12)
        assert [w["name"] for w in record["windows"]] == ["handshake_cold", "traffic", "bulk-600"]


def test_same_files_same_record(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    assert build_record(folder, row, context) == build_record(folder, row, load_context(work / "data"))


def test_handshake_figures_are_those_of_the_spans(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    record = build_record(folder, row, context)
    rows = spans(folder)
    walls = [
        (r["end_ns"] - r["start_ns"]) / 1e6 for r in rows if r["step"] == "handshake" and r["host"] == "drone"
    ]
    assert value(record, "D", "handshake_total_duration_ms") == pytest.approx(
        statistics.median(walls), abs=1e-6
    )
    assert record["categories"]["D"]["handshake_total_duration_ms"]["n"] == len(walls) == 8
    signing = [(r["end_ns"] - r["start_ns"]) / 1e6 for r in rows if r["step"] == "sign"]
    assert value(record, "E", "sig_sign_ms") == pytest.approx(statistics.median(signing), abs=1e-6)
    assert value(record, "D", "handshake_over_crypto_ratio") > 1


def test_traffic_figures_are_those_of_the_ledgers(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    record = build_record(folder, row, context)
    with (folder / "ledger.drone.csv").open() as handle:
        sent = [r for r in csv.DictReader(handle) if r["direction"] == "tx"]
    traffic = [r for r in sent if r["window"] == "traffic"]
    plain = sum(int(r["size_bytes"]) - 24 for r in traffic)
    assert value(record, "G", "packets_sent_count") == len(sent)
    assert value(record, "G", "achieved_rate_hz") == pytest.approx(len(traffic) / 1.0)
    assert value(record, "G", "goodput_down_mbps") == pytest.approx(plain * 8 / 1e6)
    assert value(record, "G", "packet_loss_ratio") == 0.0
    assert value(record, "G", "size_overhead_bytes") == 24.0
    assert value(record, "G", "bulk_goodput_mbps") == pytest.approx(600 * 1200 * 8 / 1e6)
    assert value(record, "H", "latency_sample_count") == len(traffic)
    assert 0 < value(record, "H", "transit_p50_ms") < value(record, "H", "one_way_latency_p50_ms")


def test_cpu_is_taken_from_cumulative_counters(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    record = build_record(folder, row, context)
    assert value(record, "N", "cpu_usage_mean_pct") == pytest.approx(13.0)
    assert value(record, "N", "tunnel_cpu_mean_pct") == pytest.approx(6.0)


def test_no_sensor_no_watts(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    for field in build_record(folder, row, context)["categories"]["P"].values():
        assert field["value"] is None and field["reason"] == "no power sensor: not asked for"


def test_synthetic_watts_are_a_model_and_say_so(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    path = folder / "telemetry.drone.lp"
    stamps = {line.rsplit(" ", 1)[1] for line in path.read_text().splitlines()}
    with path.open("a") as handle:
        for stamp in sorted(stamps):
            tags = "host=drone,ring=lab,sensor=stub,synthetic=true"
            handle.write(f"pq_power,{tags} power_w=4.0,voltage_v=5.0,current_a=0.8 {stamp}\n")
    power = build_record(folder, row, context)["categories"]["P"]
    assert power["power_mean_w"]["value"] == 4.0
    assert power["power_mean_w"]["validity"] == "model"
    assert "synthetic" in power["power_mean_w"]["reason"]
    assert power["energy_net_handshake_j"]["value"] is None


def test_two_kernels_have_no_one_way_latency(work: Path) -> None:
    path = work / "data" / "hosts" / "gcs.json"
    facts = json.loads(path.read_text())
    facts["host"]["boot_id"] = "another"
    path.write_text(json.dumps(facts))
    context = load_context(work / "data")
    folder, row = first(work, context)
    record = build_record(folder, row, context)
    assert value(record, "H", "one_way_latency_p50_ms") is None
    assert value(record, "H", "one_way_latency_valid") is False
    assert "different clocks" in value(record, "H", "latency_invalid_reason")
    assert value(record, "A", "clock_offset_ms") is None


def test_stolen_cpu_is_invalid(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    path = folder / "telemetry.drone.lp"
    lines = path.read_text().splitlines()
    ticks = iter(range(10_000))
    spoiled = [
        line.replace("system_steal_ms=0i", f"system_steal_ms={12 * next(ticks)}i")
        if line.startswith("pq_cpu")
        else line
        for line in lines
    ]
    path.write_text("\n".join(spoiled) + "\n")
    field = build_record(folder, row, context)["categories"]["N"]["cpu_usage_mean_pct"]
    assert field["validity"] == "invalid" and "steal 6.0 %" in field["reason"]


@pytest.mark.parametrize(
    "name", ["spans.ndjson", "ledger.gcs.csv", "counters.json", "traffic.json", "telemetry.drone.lp"]
)
def test_an_absent_file_leaves_nulls_and_a_verdict(work: Path, context: RawRun, name: str) -> None:
    folder, row = first(work, context)
    (folder / name).unlink()
    record = build_record(folder, row, context)
    jsonschema.validate(record, record_schema())
    assert record["verdict"] in ("invalid", "fail")
    assert name in record["categories"]["R"]["verdict_findings"]["value"]["raw_files"]


def test_a_cell_that_broke_fails_with_its_reason(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
    events.insert(
        -1, {"t_ns": events[-1]["t_ns"], "host": "controller", "event": "error", "reason": "drone gone"}
    )
    (folder / "events.ndjson").write_text("".join(json.dumps(e) + "\n" for e in events))
    for path in folder.glob("*"):
        if path.is_file() and path.name != "events.ndjson":
            path.unlink()
    record = build_record(folder, row, context)
    jsonschema.validate(record, record_schema())
    assert record["verdict"] == "fail"
    assert record["reason"].startswith("error: drone gone")


@pytest.mark.parametrize("word", ["unsupported", "not-run"])
def test_cells_that_were_not_carried_out(work: Path, context: RawRun, word: str) -> None:
    folder, row = first(work, context)
    for path in folder.glob("*"):
        if path.is_file():
            path.unlink()
    event = {"t_ns": 5, "host": "controller", "event": word, "reason": "no Ascon in this build"}
    (folder / "events.ndjson").write_text(json.dumps(event) + "\n")
    record = build_record(folder, row, context)
    jsonschema.validate(record, record_schema())
    assert (record["verdict"], record["reason"], record["attempts"]) == (word, "no Ascon in this build", 0)


def test_an_empty_folder_was_not_run(work: Path, context: RawRun, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    record = build_record(empty, context.plan["cells"][0], context)
    jsonschema.validate(record, record_schema())
    assert record["verdict"] == "not-run" and record["wall"]["start_ns"] is None


@pytest.mark.parametrize("name", ["spans.ndjson", "counters.json", "ledger.drone.csv", "telemetry.gcs.lp"])
def test_a_damaged_file_is_an_error_that_names_it(work: Path, context: RawRun, name: str) -> None:
    folder, row = first(work, context)
    path = folder / name
    lines = path.read_text().splitlines()
    lines[1] = lines[1][: len(lines[1]) // 2] + "\x01"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(RawDataError, match=name):
        build_record(folder, row, context)


def test_a_slow_source_makes_the_cell_invalid(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    traffic = json.loads((folder / "traffic.json").read_text())
    gate = traffic["windows"]["traffic"]["drone"]
    gate["close_ns"] = gate["open_ns"] + 1_400_000_000
    (folder / "traffic.json").write_text(json.dumps(traffic))
    record = build_record(folder, row, context)
    assert record["verdict"] == "invalid"
    assert "traffic_rate" in record["reason"]


def test_earlier_attempts_are_counted(work: Path, context: RawRun) -> None:
    folder, row = first(work, context)
    (folder / "attempt-1").mkdir()
    assert build_record(folder, row, context)["attempts"] == 2


@pytest.mark.parametrize("name", ["queue_full", "gated"])
def test_a_counter_that_one_end_lacks_is_null_and_not_zero(work: Path, context: RawRun, name: str) -> None:
    folder, row = first(work, context)
    path = folder / "counters.json"
    counters = json.loads(path.read_text())
    del counters["gcs"][name]
    path.write_text(json.dumps(counters))
    field = build_record(folder, row, context)["categories"]["T"][f"{name}_count"]
    assert (field["value"], field["validity"]) == (None, "null") and name in field["reason"]


def test_a_redial_within_the_session_is_no_cold_handshake(work: Path, context: RawRun) -> None:
    """The drone says that it dialled after silence; the ground cannot know, and its spans follow."""
    folder, row = first(work, context)
    before = build_record(folder, row, context)
    made = spans(folder)
    last = [span for span in made if span["handshake_id"] == made[-1]["handshake_id"]]
    for span in last:
        again = {**span, "handshake_id": "feedfeedfeedfeed", "end_ns": span["end_ns"] + 5_000_000_000}
        made.append({**again, "mode": "redial" if span["host"] == "drone" else "cold"})
    (folder / "spans.ndjson").write_text("".join(json.dumps(span) + "\n" for span in made))
    counters = json.loads((folder / "counters.json").read_text())
    for role in ("drone", "gcs"):
        counters[role]["hs_started"] += 1
        counters[role]["hs_completed"] += 1
    (folder / "counters.json").write_text(json.dumps(counters))
    after = build_record(folder, row, context)
    assert (after["verdict"], after["reason"]) == ("pass", None)
    assert after["categories"]["D"] == before["categories"]["D"]
    assert after["categories"]["E"] == before["categories"]["E"]


def test_samples_are_due_until_their_end_stopped_however_long_its_files_travel(work: Path) -> None:
    folder, row = first(work, load_context(work / "data"))
    record = build_record(folder, row, load_context(work / "data"))
    events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
    assert {event["host"] for event in events if event["event"] == "stop"} >= {"drone", "gcs"}
    for event in events:
        if event["host"] == "controller" and event["event"] in ("stop", "cell_end"):
            event["t_ns"] += 7_000_000_000
    (folder / "events.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    late = build_record(folder, row, load_context(work / "data"))
    assert late["wall"]["overhead_s"] == pytest.approx(record["wall"]["overhead_s"] + 7)
    for name in ("expected_samples_count", "lost_samples_count"):
        assert value(late, "R", name) == value(record, "R", name)
    assert "samples" not in str(late["reason"])
