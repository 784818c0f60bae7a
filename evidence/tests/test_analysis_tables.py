"""Analysis tables: every number again from the raw files, and mutants that must change them."""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import report_bundle

from pqevidence.analysis import effects, groups, traffic
from pqevidence.analysis.floor import Null
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.table import Row, Table, number
from pqevidence.errors import LabError
from pqevidence.measures.host.section import cpu_holds
from pqevidence.measures.power.tables import make_tables
from pqevidence.measures.traffic import tables as traffic_tables
from pqevidence.tables import analyse

Rows = list[dict[str, str]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_bundle.make_bundle(tmp_path_factory.mktemp("analysis") / "run", repetitions=3)


def read(root: Path, name: str) -> Rows:
    with (root / "data" / "analysis" / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def spans(root: Path, cell_id: str) -> list[dict[str, Any]]:
    text = (root / "data" / "cells" / cell_id / "spans.ndjson").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_handshakes_recompute_from_raw_spans(bundle: Path) -> None:
    rows = read(bundle, "handshakes")
    assert len(rows) == 9
    for row in rows:
        walls: dict[str, list[float]] = {"drone": [], "gcs": []}
        crypto: dict[str, float] = defaultdict(float)
        wall_of: dict[str, float] = {}
        for span in spans(bundle, row["cell_id"]):
            length_ms = (span["end_ns"] - span["start_ns"]) / 1e6
            if span["step"] == "handshake":
                walls[span["host"]].append(length_ms)
                if span["host"] == "drone":
                    wall_of[span["handshake_id"]] = length_ms
            elif span["kind"] == "crypto":
                crypto[span["handshake_id"]] += length_ms
        assert int(row["n"]) == len(walls["drone"]) == 8
        assert float(row["drone_wall_median_ms"]) == pytest.approx(
            statistics.median(walls["drone"]), rel=1e-8
        )
        assert float(row["gcs_wall_median_ms"]) == pytest.approx(statistics.median(walls["gcs"]), rel=1e-8)
        assert float(row["crypto_sum_median_ms"]) == pytest.approx(
            statistics.median(crypto.values()), rel=1e-8
        )
        ratios = [wall_of[i] / crypto[i] for i in wall_of]
        assert float(row["wall_over_crypto_ratio"]) == pytest.approx(statistics.median(ratios), rel=1e-8)
        assert 95.0 <= float(row["coverage_drone_min_pct"]) <= 101.0


def test_primitives_name_the_host_that_did_the_work(bundle: Path) -> None:
    hosts = {row["operation"]: row["host"] for row in read(bundle, "primitives")}
    assert hosts == {"keygen": "gcs", "sign": "gcs", "decaps": "gcs", "encaps": "drone", "verify": "drone"}
    assert {row["n_handshakes"] for row in read(bundle, "primitives")} == {"24"}


def test_level_and_family_count_cells_and_not_handshakes(bundle: Path) -> None:
    levels = {row["level"]: row for row in read(bundle, "by_level")}
    assert (levels["1"]["n_cells"], levels["1"]["n_suites"]) == ("6", "2")
    assert (levels["3"]["n_cells"], levels["3"]["status"]) == ("3", "ok")
    assert sum(int(r["n_cells"]) for r in read(bundle, "by_family") if r["part"] == "kem") == 9


def test_too_few_cells_are_insufficient_and_carry_no_spread(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", handshakes=5, bulk=False)
    for row in read(root, "by_suite"):
        assert row["status"] == "insufficient"
        assert row["median_ms"]
        assert {row[c] for c in ("mean_ms", "sd_ms", "mad_ms", "interval_low_ms", "geomean_ms")} == {""}


def test_phi_is_the_formula_and_says_model(bundle: Path) -> None:
    for row in read(bundle, "phi"):
        t_s = float(row["t_median_ms"]) / 1e3
        assert float(row["phi_60s_pct"]) == pytest.approx(100 * t_s / (60 + t_s), rel=1e-7)
        assert row["kind"].startswith("model")


def test_cells_that_did_not_pass_enter_no_statistic(tmp_path: Path) -> None:
    def break_one(root: Path) -> None:
        cell = report_bundle.plan_cells(root)[0]["cell_id"]
        path = root / "data" / "cells" / cell / "counters.json"
        counters = json.loads(path.read_text(encoding="utf-8"))
        counters["gcs"]["windows"]["traffic"]["digest_rx"] = "0" * 16
        path.write_text(json.dumps(counters), encoding="utf-8")

    root = report_bundle.make_bundle(tmp_path / "run", edit=break_one, repetitions=1, bulk=False)
    verdicts = [row["verdict"] for row in read(root, "handshakes")]
    assert sorted(verdicts) == ["fail", "pass", "pass"]
    assert sum(int(row["n_cells"]) for row in read(root, "by_level")) == 2
    broken = next(r for r in read(root, "traffic") if r["verdict"] == "fail" and r["direction"] == "down")
    assert broken["digest_equal"] == "false"


def test_a_lost_datagram_shows_as_loss(bundle: Path) -> None:
    data = BundleData(bundle)
    cell = data.cells[0]
    before = traffic.join_ledgers(cell)
    assert before is not None
    path = cell.directory / "ledger.gcs.csv"
    kept = path.read_text(encoding="ascii")
    lines = kept.splitlines(keepends=True)
    victim = next(
        i for i, line in enumerate(lines) if line.startswith("rx") and line.strip().endswith("traffic")
    )
    path.write_text("".join(lines[:victim] + lines[victim + 1 :]), encoding="ascii")
    try:
        after = traffic.join_ledgers(cell)
    finally:
        path.write_text(kept, encoding="ascii")
    assert after is not None
    assert after["traffic", "down"].sent == before["traffic", "down"].sent
    assert after["traffic", "down"].received == before["traffic", "down"].received - 1


def test_latency_is_sender_kernel_to_receiver_hand_over(bundle: Path) -> None:
    row = next(r for r in read(bundle, "traffic") if r["window"] == "traffic" and r["direction"] == "down")
    folder = bundle / "data" / "cells" / row["cell_id"]
    sent, delays = {}, []
    for line in (folder / "ledger.drone.csv").read_text(encoding="ascii").splitlines()[1:]:
        direction, epoch, sequence, _, t_in, _, window = line.split(",")
        if direction == "tx" and window == "traffic":
            sent[epoch, sequence] = int(t_in)
    for line in (folder / "ledger.gcs.csv").read_text(encoding="ascii").splitlines()[1:]:
        direction, epoch, sequence, _, _, t_out, _ = line.split(",")
        if direction == "rx" and (epoch, sequence) in sent:
            delays.append((int(t_out) - sent[epoch, sequence]) / 1e6)
    assert int(row["latency_n"]) == len(delays) == int(row["sent_count"])
    assert float(row["latency_p50_ms"]) == pytest.approx(statistics.median(delays), rel=1e-8)


def test_overhead_is_wall_minus_labelled_windows(bundle: Path) -> None:
    for row in read(bundle, "overhead"):
        windows = sum(float(row[c]) for c in ("handshake_window_s", "traffic_window_s", "bulk_windows_s"))
        assert float(row["overhead_s"]) == pytest.approx(float(row["wall_s"]) - windows, abs=1e-6)
        assert 0 < float(row["overhead_s"]) < 1


def test_missing_temperature_is_empty_with_the_hosts_reason(bundle: Path) -> None:
    for row in read(bundle, "cpu"):
        assert row["temperature_mean_c"] == ""
        assert row["temperature_reason"] == "no thermal zone"
        assert row["cpu_valid"] == "true"


def test_lost_ticks_take_nothing_out_of_the_means_of_cpu(tmp_path: Path) -> None:
    """Two ticks of five are lost, and in them the machine is stolen and the tunnel works."""

    def busy_where_lost(root: Path) -> None:
        for path in root.glob("data/cells/*/telemetry.*.lp"):
            kept, stolen_ms, worked_ns, tick = [], 0, 0, 0
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.startswith("pq_cpu,"):
                    tick += 1
                    lost = tick % 5 in (3, 4)
                    stolen_ms += 100 if lost else 0
                    worked_ns += 60_000_000 if lost else 6_000_000
                    line = re.sub(r"system_steal_ms=\d+i", f"system_steal_ms={stolen_ms}i", line)
                    line = re.sub(r"process_cpu_ns=\d+i", f"process_cpu_ns={worked_ns}i", line)
                    if lost:
                        continue
                kept.append(line + "\n")
            path.write_text("".join(kept), encoding="utf-8")

    root = report_bundle.make_bundle(tmp_path / "run", edit=busy_where_lost, session_s=3, bulk=False)
    records = {cell.cell_id: cell for cell in BundleData(root).cells}
    letters = {"drone": "N", "gcs": "O"}
    fields = {
        "system_mean_pct": "cpu_usage_mean_pct",
        "steal_mean_pct": "steal_mean_pct",
        "process_mean_pct": "tunnel_cpu_mean_pct",
        "container_mean_pct": "container_cpu_mean_pct",
        "sampler_mean_pct": "sampler_cpu_mean_pct",
    }
    for row in read(root, "cpu"):
        cell, letter = records[row["cell_id"]], letters[row["host"]]
        assert float(row["steal_mean_pct"]) == pytest.approx(20, abs=2) and row["steal_max_pct"] == "0"
        assert float(row["process_mean_pct"]) == pytest.approx(27.6, abs=3)
        assert float(row["process_max_pct"]) < 10 and row["cpu_valid"] == "false"
        for column, name in fields.items():
            told = cell.value(letter, name)
            assert told is not None and float(row[column]) == pytest.approx(told["value"], rel=1e-6), column
            assert told["validity"] == ("invalid" if "cpu" in name else "ok"), column


def test_cpu_without_a_counter_is_null_with_its_name(tmp_path: Path) -> None:
    def forget(root: Path) -> None:
        for path in root.glob("data/cells/*/telemetry.*.lp"):
            text = path.read_text(encoding="utf-8")
            path.write_text(re.sub(r"(system_steal_ms|process_cpu_ns)=\d+i,", "", text), encoding="utf-8")

    root = report_bundle.make_bundle(tmp_path / "run", edit=forget, handshakes=5, bulk=False)
    for row in read(root, "cpu"):
        assert row["steal_mean_pct"] == row["process_mean_pct"] == row["cpu_valid"] == ""
        assert row["reason"] == "no growth of system_steal_ms, process_cpu_ns in the span"
        assert float(row["container_mean_pct"]) == 7 and float(row["process_max_pct"]) > 0


def test_cpu_says_whether_ledger_and_controller_are_in_it(tmp_path: Path) -> None:
    def no_ledger(root: Path) -> None:
        scenario = root / "data" / "scenario.effective.yml"
        text = scenario.read_text(encoding="utf-8")
        assert '"ledger": true' in text
        scenario.write_text(text.replace('"ledger": true', '"ledger": false'), encoding="utf-8")
        run = root / "data" / "run.json"
        told = json.loads(run.read_text(encoding="utf-8"))
        told["controller"]["controller_on_dut"] = False
        run.write_text(json.dumps(told), encoding="utf-8")

    for name, edit, ledger, shared in (("on", None, "true", "true"), ("off", no_ledger, "false", "false")):
        root = report_bundle.make_bundle(tmp_path / name, edit=edit, handshakes=5, bulk=False)
        rows = read(root, "cpu")
        assert {(row["ledger"], row["controller_on_dut"]) for row in rows} == {(ledger, shared)}
        told = cpu_holds(rows, "hardware")
        assert ("holds what it costs" in told) is ("ran on the drone's machine" in told) is (edit is None)
        assert "no claim about a board" not in told
        assert "no claim about a board" in cpu_holds(rows, "lab")


def test_the_hottest_zone_is_the_temperature(tmp_path: Path) -> None:
    def warm(root: Path) -> None:
        for path in root.glob("data/cells/*/telemetry.drone.lp"):
            text = path.read_text(encoding="utf-8")
            stamps = sorted({line.rpartition(" ")[2] for line in text.splitlines()})
            zones = "".join(
                f"pq_temp,host=drone,ring=lab,zone={zone} temperature_c={celsius} {stamp}\n"
                for stamp in stamps
                for zone, celsius in (("cpu", 61.5), ("wifi", 40.0))
            )
            path.write_text(text + zones, encoding="utf-8")

    root = report_bundle.make_bundle(tmp_path / "run", edit=warm, handshakes=5, bulk=False)
    by_host = {row["host"]: row for row in read(root, "cpu")}
    assert float(by_host["drone"]["temperature_mean_c"]) == 61.5
    assert by_host["drone"]["temperature_reason"] == ""
    assert by_host["gcs"]["temperature_mean_c"] == ""


@pytest.mark.parametrize(
    ("holds", "marks"),
    [
        ([], []),
        ([True], ["not reached"]),
        ([True, True, False, True], ["", "knee", "", ""]),
        ([False, True], ["", ""]),
    ],
)
def test_knee(holds: list[bool], marks: list[str]) -> None:
    assert traffic_tables._knees(holds) == marks


def cell_row(suite: int, repetition: int, family: str, wall_ms: float, verdict: str = "pass") -> Row:
    return {
        "cell_id": f"{suite:02d}{repetition}{family}",
        "suite_id": f"{family}-{suite}",
        "condition": "baseline",
        "repetition": repetition,
        "ring": "lab",
        "verdict": verdict,
        "level": 1,
        "kem_family": family,
        "kem": family,
        "sig_family": "ML-DSA",
        "sig": f"sig{suite}",
        "aead": "AES-256-GCM",
        "drone_wall_median_ms": wall_ms,
    }


def compare(rows: list[Row]) -> Row:
    table = Table("handshakes", tuple(rows[0]), rows)
    return effects.effects_table(table, seed=1).rows[0]


def test_a_large_effect_is_distinguishable_and_a_small_one_is_not() -> None:
    def rows(factor: float) -> list[Row]:
        base = [cell_row(s, 0, "ML-KEM", 1.0 + 0.01 * s) for s in range(5)]
        return base + [cell_row(s, 0, "HQC", (1.0 + 0.012 * s) * factor) for s in range(5)]

    assert compare(rows(3.0))["verdict"] == effects.DISTINGUISHABLE
    assert compare(rows(3.0))["ratio"] == pytest.approx(3.0, rel=0.02)
    # 4 % with a tight interval, but inside the assumed floor of 10 %
    assert compare(rows(1.04))["verdict"] == effects.NOT_DISTINGUISHABLE
    assert compare(rows(3.0)[:2] + rows(3.0)[5:7])["verdict"] == "insufficient"


def test_noise_floor_needs_ten_pairs_and_shrinks_with_what_is_averaged() -> None:
    few = effects.null_of([cell_row(s, r, "ML-KEM", 1.0) for s in range(4) for r in range(3)])
    assert (few.pairs, few.floor([0]).method) == (8, "assumed")
    assert math.exp(few.floor([0]).value) == pytest.approx(effects.ASSUMED_FLOOR_RATIO)
    noisy = [cell_row(s, r, "ML-KEM", 2.0 if r % 2 else 1.0) for s in range(10) for r in range(3)]
    null = effects.null_of(noisy)
    one, many = null.floor([0]), null.floor([0] * 25)
    assert (one.pairs, one.method) == (20, "measured")
    assert one.value == pytest.approx(2.845 * math.log(2.0), rel=1e-3)  # t of 20 degrees of freedom
    assert many.value == pytest.approx(one.value / 5)
    assert effects.null_of([{**row, "verdict": "fail"} for row in noisy]).pairs == 0


def test_a_cost_without_noise_of_its_own_takes_the_widest() -> None:
    steps = [(0.01 * (-1) ** i, 0) for i in range(12)] + [(0.2 * (-1) ** i, 2) for i in range(12)]
    null = Null(steps, math.log(1.1))
    assert null.floor([0]).value < 0.04 < 0.4 < null.floor([2]).value
    assert (null.floor([1]).value, null.floor([1]).method) == (
        null.floor([2]).value,
        "measured at another cost",
    )
    mixed = null.floor([0, 2])
    assert mixed.error == pytest.approx(math.sqrt(0.01**2 + 0.2**2) / 2)


def test_a_shift_between_twins_does_not_average_out() -> None:
    null = Null([(0.05 + 0.01 * (-1) ** i, 0) for i in range(20)], math.log(1.1))
    assert null.floor([0] * 10_000).value > 0.05


def test_repetitions_are_no_further_suites() -> None:
    """A family whose suites differ by what stays with them: ten times the cells are no more evidence."""

    def rows(repetitions: int) -> list[Row]:
        return [
            cell_row(s, r, family, wall)
            for s in range(4)
            for r in range(repetitions)
            for family, wall in (("ML-KEM", 1.0), ("HQC", 1.0 + 0.5 * s))
        ]

    one, many = compare(rows(1)), compare(rows(10))
    assert (one["n_pairs"], many["n_pairs"]) == (4, 40)
    assert (one["n_suites"], many["n_suites"]) == (4, 4)
    assert (one["low_ratio"], one["high_ratio"]) == pytest.approx((many["low_ratio"], many["high_ratio"]))


def test_cells_of_different_runs_make_no_pair_and_no_noise() -> None:
    rows = [cell_row(s, r, kem, 1.0 + r) for s in range(6) for r in (0, 1) for kem in ("ML-KEM", "HQC")]
    table = Table("handshakes", tuple(rows[0]), rows)
    assert effects.effects_table(table, 1).rows[0]["n_pairs"] == 12
    added = {str(row["cell_id"]): "earlier" for row in rows if row["kem"] == "ML-KEM"}
    assert effects.effects_table(table, 1, added).rows == []
    assert effects.null_of(rows, added).pairs == 12, "each run has repetitions of its own"
    second = {str(row["cell_id"]): "earlier" for row in rows if row["repetition"] == 0}
    assert effects.effects_table(table, 1, second).rows[0]["n_pairs"] == 12
    assert effects.null_of(rows, second).pairs == 0


def test_failed_cells_make_no_pair() -> None:
    rows = [cell_row(s, 0, "ML-KEM", 1.0) for s in range(4)]
    rows += [cell_row(s, 0, "HQC", 9.0, "invalid") for s in range(4)]
    table = Table("handshakes", tuple(rows[0]), rows)
    assert effects.effects_table(table, seed=1).rows == []
    assert groups.passing(rows) == rows[:4]


def test_published_values_carry_source_and_defect(bundle: Path) -> None:
    rows = read(bundle, "comparison")
    assert {row["source"] for row in rows} >= {"pqc-mav-2026-02", "suites-2026-01", "primitives-2026-01"}
    assert all(row["known_wrong"] and row["published_n"] and row["ring"] == "lab" for row in rows)


def test_analysis_gives_the_same_bytes_again(bundle: Path) -> None:
    folder = bundle / "data" / "analysis"
    before = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    analyse(bundle)
    assert before == {path.name: path.read_bytes() for path in folder.glob("*.csv")}


def test_a_table_refuses_a_column_it_does_not_have() -> None:
    with pytest.raises(KeyError, match="colour"):
        Table("t", ("a",)).add(a=1, colour="red")


def test_damaged_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(LabError) as no_bundle:
        BundleData(tmp_path)
    assert no_bundle.value.code == "not-a-bundle"
    root = report_bundle.make_bundle(tmp_path / "run", handshakes=5, bulk=False)
    cell = report_bundle.plan_cells(root)[0]["cell_id"]
    path = root / "data" / "cells" / cell / "spans.ndjson"
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(LabError) as damaged:
        analyse(root)
    assert damaged.value.code == "unreadable"
    assert "spans.ndjson" in damaged.value.what
    assert "line" in damaged.value.why


def test_a_damaged_ledger_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.gcs.csv"
    path.write_text("direction,epoch\ntx,0,1,64,5,6,traffic\nrx,0,1,64\n", encoding="ascii")
    with pytest.raises(LabError) as damaged:
        traffic.read_ledger(path)
    assert "line 3" in damaged.value.why


@pytest.mark.parametrize("value", [None, "1.5", True])
def test_a_missing_number_is_an_error_not_a_zero(value: object) -> None:
    with pytest.raises(LabError) as caught:
        number({"median_ms": value}, "median_ms")  # type: ignore[dict-item]
    assert "median_ms" in str(caught.value.what)
    assert number({"median_ms": 2}, "median_ms") == 2.0


def test_watts_that_are_a_lower_bound_enter_no_table(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", handshakes=5, bulk=False)
    for path in root.glob("data/cells/*/record.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        watts = record["categories"]["P"]["power_mean_w"]
        watts |= {"value": 3.5, "n": 50, "validity": "ok", "reason": None}
        if record["position"] == 0:
            watts |= {"validity": "invalid", "reason": "2 samples clipped: a lower bound"}
        path.write_text(json.dumps(record), encoding="utf-8")
    (table,) = make_tables(BundleData(root), {})
    assert table is not None
    told = {(row["position"] == 0, row["power_mean_w"], row["reason"]) for row in table.rows}
    assert told == {(True, None, "2 samples clipped: a lower bound"), (False, 3.5, None)}
