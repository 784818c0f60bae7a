"""Category S from verdict lines: what counts, what fails a cell, and that the canary enters nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import detector_bundle
import pytest
from detector_files import MS, WINDOW_NS, gate_of
from fixtures_make import make_work_dir
from hypothesis import example, given
from hypothesis import strategies as st

from pqevidence.measures.detector.record import (
    canary_alarm,
    canary_hidden,
    due_windows,
    episodes_of,
    true_alarms,
)
from pqevidence.record.raw import load_cell
from pqevidence.records import build_record, load_context

Json = dict[str, Any]
SUITE = detector_bundle.SUITES[0]
STALE = {"state": "stale", "attack": None, "degraded": None}
COUNTS = ("alarm_count", "false_alarm_count", "episode_count", "detected_count")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = make_work_dir(
        tmp_path / "w",
        suites=(SUITE,),
        session_s=2.4,
        bulk=False,
        conditions=(detector_bundle.BASE, detector_bundle.XGBOOST, detector_bundle.TST),
    )
    detector_bundle.edit(root)
    return root


def folder_of(work: Path, condition: str) -> Path:
    row = next(
        r
        for r in json.loads((work / "data" / "plan.json").read_text())["cells"]
        if r["condition"] == condition
    )
    return work / "data" / "cells" / str(row["cell_id"])


def record_of(work: Path, condition: str) -> Json:
    context = load_context(work / "data")
    row = next(r for r in context.plan["cells"] if r["condition"] == condition)
    return build_record(work / "data" / "cells" / row["cell_id"], row, context)


def change(folder: Path, act: Callable[[list[Json]], object]) -> None:
    path = folder / "detector.ndjson"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    act(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def s_of(record: Json, name: str) -> Any:
    return record["categories"]["S"][f"detector_{name}"]["value"]


def test_a_watched_cell_passes_and_is_counted(work: Path) -> None:
    record = record_of(work, "xgboost")
    assert record["verdict"] == "pass", record["reason"]
    due = due_windows(gate_of(folder_of(work, "xgboost")))
    assert s_of(record, "windows_due_count") == s_of(record, "verdict_count") == len(due) >= 3
    assert s_of(record, "ready") is True
    assert s_of(record, "latency_p50_ms") == 120.0
    assert s_of(record, "alarm_count") == 0  # the canary's alarms lie outside
    assert s_of(record, "canary_raised") is True
    assert s_of(record, "cpu_mean_pct") == pytest.approx(0.4, rel=1e-3)
    assert s_of(record, "others_cpu_ms") == 0
    assert s_of(record, "packets_seen_count") == 240 * len(due)
    assert s_of(record, "history") == "cold"


def test_a_cell_without_a_detector_shows_no_cpu_of_any(work: Path) -> None:
    record = record_of(work, "baseline")
    assert record["verdict"] == "pass"
    assert s_of(record, "cpu_mean_pct") == 0.0
    assert s_of(record, "others_cpu_ms") == 0.0
    assert record["categories"]["S"]["detector_rss_mb"]["reason"] == "no detector in this condition"


def test_warm_history_is_marked(work: Path) -> None:
    record = record_of(work, "tst")
    assert record["verdict"] == "pass", record["reason"]
    assert (s_of(record, "history"), s_of(record, "history_windows_count")) == ("warm", 200)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda cell: (cell / "detector.ndjson").write_text(""), "no verdict on the traffic window"),
        (lambda cell: change(cell, lambda rows: [r.update(STALE) for r in rows]),
         "no verdict on the traffic window (states told: stale)"),
        (lambda cell: change(cell, lambda rows: [r.update(attack=False) for r in rows]),
         "canary was not raised"),
        (lambda cell: change(cell, lambda rows: [r.update(packets_seen=0) for r in rows]), "saw no packet"),
    ],
)  # fmt: skip
def test_a_blind_detector_fails_its_cell(work: Path, spoil: Callable[[Path], object], reason: str) -> None:
    spoil(folder_of(work, "xgboost"))
    record = record_of(work, "xgboost")
    assert record["verdict"] == "fail"
    assert reason in record["reason"]
    assert s_of(record, "ready") is False


def test_without_its_canary_a_cell_shows_nothing_of_its_detector_and_is_invalid(work: Path) -> None:
    """The attacker was lost, not the detector: the cell is tried again."""
    cell = folder_of(work, "xgboost")
    (cell / "canary" / "attack.ndjson").unlink()
    events = (cell / "events.ndjson").read_text().splitlines()
    lost = {**json.loads(events[-2]), "event": "error", "code": "attack-not-held", "reason": "not held"}
    (cell / "events.ndjson").write_text("\n".join([*events[:-1], json.dumps(lost), events[-1]]) + "\n")
    record = record_of(work, "xgboost")
    assert record["verdict"] == "invalid"
    assert "attack: not held" in record["reason"] and "no canary attack took place" in record["reason"]
    assert s_of(record, "ready") is False


def test_a_detector_awake_in_the_baseline_is_invalid(work: Path) -> None:
    path = folder_of(work, "baseline") / "detectors.json"
    usage = json.loads(path.read_text())
    usage["after"]["tst"]["cpu_ns"] += 3 * MS
    path.write_text(json.dumps(usage))
    record = record_of(work, "baseline")
    assert record["verdict"] == "invalid"
    assert "tst used 3.000 ms of CPU while frozen" in record["reason"]


def test_a_cold_cell_that_knows_the_past_is_invalid(work: Path) -> None:
    change(
        folder_of(work, "xgboost"),
        lambda rows: [r.update(history_windows=50 + i) for i, r in enumerate(rows)],
    )
    record = record_of(work, "xgboost")
    assert record["verdict"] == "invalid"
    assert "reaches back before the cell" in record["reason"]


def test_a_cold_cell_whose_history_begins_in_the_cell_before_is_invalid(work: Path) -> None:
    def from_before(rows: list[Any]) -> None:
        rows[0]["cell_id"] = "the-cell-before"

    folder = folder_of(work, "xgboost")
    assert record_of(work, "xgboost")["verdict"] == "pass"
    first = json.loads((folder / "detector.ndjson").read_text().splitlines()[0])
    assert first["history_windows"] == 1
    change(folder, from_before)
    record = record_of(work, "xgboost")
    assert record["verdict"] == "invalid"
    assert "reaches back before the cell" in record["reason"]


def test_another_detector_than_the_condition_names_is_invalid(work: Path) -> None:
    change(folder_of(work, "xgboost"), lambda rows: [r.update(detector="tst") for r in rows])
    assert "signed tst" in record_of(work, "xgboost")["reason"]


def attack(folder: Path, on_ns: int, off_ns: int, **more: Any) -> None:
    rows: list[Json] = [
        {"schema": "pqattack/truth/v1", "cell_id": folder.name, "bin_ns": 20 * MS},
        {
            "episode": 0,
            "kind": "forged",
            "benign": False,
            "target": "drone",
            "t_on_ns": on_ns,
            "t_off_ns": off_ns,
            "sent_count": 100,
            **more,
        },
        {"episode": 0, "bin": on_ns // (20 * MS), "sent": 100},
    ]
    (folder / "attack.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_alarms_against_ground_truth(work: Path) -> None:
    folder = folder_of(work, "xgboost")
    first = due_windows(gate_of(folder))[0]
    attack(folder, (first + 1) * WINDOW_NS + 100 * MS, (first + 2) * WINDOW_NS)
    change(folder, lambda rows: rows[1].update(attack=True))
    record = record_of(work, "xgboost")
    assert [s_of(record, name) for name in COUNTS] == [1, 0, 1, 1]
    assert s_of(record, "delay_s") == pytest.approx(0.6 - 0.1 + 0.12)


def test_an_alarm_before_its_cause_is_false_and_the_attack_is_missed(work: Path) -> None:
    folder = folder_of(work, "xgboost")
    first = due_windows(gate_of(folder))[0]
    attack(folder, (first + 2) * WINDOW_NS + 100 * MS, (first + 2) * WINDOW_NS + 300 * MS)
    change(folder, lambda rows: rows[0].update(attack=True))
    record = record_of(work, "xgboost")
    assert (s_of(record, "false_alarm_count"), s_of(record, "detected_count")) == (1, 0)
    assert record["categories"]["S"]["detector_delay_s"]["reason"] == "none was detected"


def canary_begin(folder: Path) -> int:
    truth = (folder / "canary" / "attack.ndjson").read_text().splitlines()
    return int(json.loads(truth[1])["t_on_ns"])


def alarm_in(rows: list[Json], *windows: int) -> None:
    for row in rows:
        row.update(attack=row["k"] in windows)


def test_an_alarm_that_always_stands_finds_nothing(work: Path) -> None:
    folder = folder_of(work, "xgboost")
    due = due_windows(gate_of(folder))
    attack(folder, due[1] * WINDOW_NS + 100 * MS, due[1] * WINDOW_NS + 200 * MS)
    change(folder, lambda rows: [row.update(attack=True) for row in rows])
    record = record_of(work, "xgboost")
    assert [s_of(record, name) for name in COUNTS[1:]] == [1, 1, 0]
    assert record["verdict"] == "invalid"
    assert record["reason"].startswith("detector: an alarm stood before the canary began, so nothing shows")
    assert (s_of(record, "canary_raised"), s_of(record, "ready")) == (False, False)
    delay = record["categories"]["S"]["detector_canary_delay_s"]
    assert (delay["value"], delay["reason"]) == (None, "an alarm stood before the canary began")


def test_an_alarm_in_the_aftermath_is_neither_false_nor_in_time(work: Path) -> None:
    folder = folder_of(work, "xgboost")
    first = due_windows(gate_of(folder))[0]
    attack(folder, first * WINDOW_NS + 100 * MS, first * WINDOW_NS + 200 * MS)
    change(folder, lambda rows: rows[2].update(attack=True))
    record = record_of(work, "xgboost")
    assert [s_of(record, name) for name in COUNTS] == [1, 0, 1, 0]


def test_the_alarm_of_the_cells_own_attack_may_stand_when_the_canary_begins(work: Path) -> None:
    folder = folder_of(work, "xgboost")
    last = due_windows(gate_of(folder))[-1]
    attack(folder, last * WINDOW_NS + 100 * MS, last * WINDOW_NS + 200 * MS)
    change(folder, lambda rows: [row.update(attack=row["k"] >= last) for row in rows])
    record = record_of(work, "xgboost")
    assert (s_of(record, "canary_raised"), s_of(record, "detected_count")) == (True, 1)
    delay = record["categories"]["S"]["detector_canary_delay_s"]
    assert (delay["value"], delay["reason"]) == (
        None,
        "the alarm of the cell's own attack stood when the canary began",
    )


def test_an_alarm_without_a_cause_covers_what_comes_until_it_ends(work: Path) -> None:
    folder = folder_of(work, "xgboost")
    on_k = canary_begin(folder) // WINDOW_NS
    change(folder, lambda rows: alarm_in(rows, on_k - 2, on_k - 1, on_k))
    assert "an alarm stood before the canary began" in record_of(work, "xgboost")["reason"]
    change(folder, lambda rows: alarm_in(rows, on_k - 2, on_k - 1, on_k + 1))
    record = record_of(work, "xgboost")
    assert (record["verdict"], s_of(record, "canary_raised")) == ("pass", True)
    late = ((on_k + 2) * WINDOW_NS + 120 * MS - canary_begin(folder)) / 1e9
    assert s_of(record, "canary_delay_s") == pytest.approx(late, abs=1e-6)
    change(folder, lambda rows: alarm_in(rows, on_k - 2))
    assert "the canary was not raised" in record_of(work, "xgboost")["reason"]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6),
    st.lists(st.booleans(), min_size=1, max_size=30),
)
@example([(0, 30), (1, 0)], [False] * 9 + [True])  # a long attack begins before a short one
def test_alarms_with_a_cause_are_those_found_one_by_one(
    attacks: list[tuple[int, int]], told: list[bool]
) -> None:
    """In steps of half a window, against each attack in turn."""
    half = WINDOW_NS // 2
    episodes = [(on * half, (on + length) * half) for on, length in attacks]
    lines = [{"k": k, "attack": alarm} for k, alarm in enumerate(told)]
    due, began = [], None
    for line in lines:
        k = int(line["k"])
        began = (k if began is None else began) if line["attack"] else None
        if began is not None and any(
            on < (began + 1) * WINDOW_NS and began * WINDOW_NS < off + 5 * WINDOW_NS for on, off in episodes
        ):
            due.append((line, began))
    assert true_alarms(lines, episodes) == due


def test_many_attacks_and_many_lines_are_not_held_each_against_each(work: Path) -> None:
    cell = load_cell(folder_of(work, "xgboost"))
    assert cell.canary is not None and cell.canary.truth is not None and cell.detector is not None
    episode, line = cell.canary.truth[1], cell.detector[0]
    cell.canary.truth = [{**episode, "t_on_ns": 2 * n + 2, "t_off_ns": 2 * n + 3} for n in range(50_000)]
    cell.detector = [{**line, "k": n + 10**9, "attack": n % 2 == 1} for n in range(50_000)]
    begun = time.process_time()
    assert canary_alarm(cell) is None and not canary_hidden(cell)
    assert time.process_time() - begun < 10  # each against each: an hour


def test_benign_and_distant_episodes_are_no_attacks() -> None:
    row = {"t_on_ns": 1, "t_off_ns": 2, "sent_count": 5, "benign": False, "target": "drone"}
    truth = [
        {"schema": "x"},
        row,
        {**row, "benign": True},
        {**row, "target": "gcs"},
        {**row, "sent_count": 0},
    ]
    assert episodes_of(truth) == [(1, 2)]


def test_the_canary_window_is_in_no_figure(work: Path) -> None:
    """Counters, ledger and traffic of a cell with a canary window are those of the cell without it."""
    folder = folder_of(work, "xgboost")
    before = load_cell(folder)
    figures = record_of(work, "xgboost")["categories"]["G"]
    counters = json.loads((folder / "counters.json").read_text())
    extra = {
        "tx_data": 40,
        "tx_data_bytes": 4000,
        "rx_ok": 40,
        "rx_ok_bytes": 4000,
        "auth_failed": 3000,
        "digest_tx": f"{(1 << 64) - 1:016x}",
        "digest_rx": "0000000000000005",
    }
    for role in ("drone", "gcs"):
        counters[role]["windows"]["canary"] = extra
        for name, value in extra.items():
            if isinstance(value, int):
                counters[role][name] += value
            else:
                counters[role][name] = f"{(int(counters[role][name], 16) + int(value, 16)) % (1 << 64):016x}"
        with (folder / f"ledger.{role}.csv").open("a") as file:
            for number in range(40):
                for way in ("tx", "rx"):
                    file.write(f"{way},0,{900_000 + number},100,1,2,canary\n")
    (folder / "counters.json").write_text(json.dumps(counters))
    traffic = json.loads((folder / "traffic.json").read_text())
    traffic["windows"]["canary"] = traffic["windows"]["traffic"]
    (folder / "traffic.json").write_text(json.dumps(traffic))
    after = load_cell(folder)
    assert after.counters == before.counters
    assert after.traffic == before.traffic
    assert after.canary is not None
    assert after.canary.counters["drone"]["auth_failed"] == 3000
    assert [len(after.ledgers["drone"].tx), len(after.ledgers["gcs"].rx)] == [
        len(before.ledgers["drone"].tx),
        len(before.ledgers["gcs"].rx),
    ]
    record = record_of(work, "xgboost")
    assert record["categories"]["G"] == figures
    assert record["verdict"] == "pass", record["reason"]
