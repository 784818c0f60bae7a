"""A handshake's wall in three parts, from the raw rows to the record and its checks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from fixture_handshake import SUITES, T0_NS, CellClock, handshake_window

from pqevidence.measures.handshake.checks import scheduling_problems
from pqevidence.measures.handshake.record import NOT_SAMPLED, fill_waiting
from pqevidence.measures.host.record import fill_pressure
from pqevidence.record.handshake import traces
from pqevidence.record.raw import RawRun, Span, points_of, read_spans
from pqevidence.record.sheet import Sheet
from pqevidence.record.system import within
from pqevidence.record.waiting import BEFORE_MEASURED, parts_of

SUITE = next(iter(SUITES))
FIELDS = ("handshake_processor", "handshake_peer_wait", "handshake_processor_wait")


def rows_of(queue_us: float | None) -> list[dict[str, Any]]:
    return handshake_window(CellClock(T0_NS), SUITE, 7, random.Random(1), queue_us=queue_us)


def read(folder: Path, rows: list[dict[str, Any]]) -> list[Span]:
    path = folder / "spans.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_spans(path)


def filled(spans: list[Span], *, due: bool = True) -> dict[str, dict[str, Any]]:
    sheet = Sheet()
    fill_waiting(sheet, traces(spans), due=due)
    return sheet._rows["D"] | sheet._rows["E"]


def test_the_parts_make_up_each_wall_and_the_record_has_their_medians(tmp_path: Path) -> None:
    rows = rows_of(queue_us=80)
    spans = read(tmp_path, rows)
    record = filled(spans)
    for host in ("drone", "gcs"):
        walls = [s for s in spans if s.step == "handshake" and s.host == host]
        assert len(walls) == 7
        for wall in walls:
            parts = parts_of(wall)
            assert parts is not None and parts.queue_ns == 80_000
            assert parts.work_ns + parts.queue_ns + parts.peer_ns == wall.end_ns - wall.start_ns
        asleep_ns = median((w.end_ns - w.start_ns) - (w.cpu_ns or 0) - 80_000 for w in walls)
        told = record[f"handshake_peer_wait_{host}_ms"]["value"]
        assert told == pytest.approx(asleep_ns / 1e6, abs=1e-6) and told > 0
        assert record[f"handshake_processor_wait_{host}_ms"]["value"] == 0.08
        assert record[f"handshake_involuntary_{host}_count"]["value"] == 7
        assert {record[f"{name}_{host}_ms"]["n"] for name in FIELDS} == {7}
    ground = [r for r in rows if r["host"] == "gcs" and r["kind"] == "crypto"]
    by_id: dict[str, int] = {}
    for row in ground:
        by_id[row["handshake_id"]] = by_id.get(row["handshake_id"], 0) + row["cpu_ns"]
    due = median(by_id.values()) / 1e6
    assert record["crypto_processor_gcs_ms"]["value"] == pytest.approx(due, abs=1e-6)


def test_an_older_cell_is_null_with_its_reason(tmp_path: Path) -> None:
    record = filled(read(tmp_path, rows_of(None)))
    assert {field["value"] for field in record.values()} == {None}
    assert {field["reason"] for field in record.values()} == {BEFORE_MEASURED}


def test_a_host_that_cannot_tell_gives_its_own_reason_and_the_other_its_figures(tmp_path: Path) -> None:
    rows = rows_of(10)
    for row in rows:
        if row["host"] == "gcs":
            row.pop("cpu_ns", None)
            if row["step"] == "handshake":
                row |= dict.fromkeys(("cpu_ns", "runqueue_ns", "involuntary"))
                row["scheduling_reason"] = "win32 does not tell"
    record = filled(read(tmp_path, rows))
    for name in FIELDS:
        assert record[f"{name}_gcs_ms"]["reason"] == "win32 does not tell"
        assert record[f"{name}_gcs_ms"]["validity"] == "null"
        assert record[f"{name}_drone_ms"]["validity"] == "ok"
    assert record["crypto_processor_gcs_ms"]["value"] is None


def test_a_cell_of_few_fast_handshakes_says_that_none_was_metered_inside(tmp_path: Path) -> None:
    rows = rows_of(10)
    for row in rows:
        if row["kind"] == "crypto":
            row.pop("cpu_ns", None)
    record = filled(read(tmp_path, rows))
    for host in ("drone", "gcs"):
        assert record[f"crypto_processor_{host}_ms"]["reason"] == NOT_SAMPLED
        assert record[f"handshake_processor_{host}_ms"]["validity"] == "ok"


def test_a_suite_without_handshakes_says_so(tmp_path: Path) -> None:
    record = filled([], due=False)
    assert {field["reason"] for field in record.values()} == {"suite plain makes no handshake"}


@pytest.mark.parametrize(
    ("step", "change", "problem"),
    [
        ("handshake", {"runqueue_ns": -1}, "handshake has a negative count"),
        ("handshake", {"runqueue_ns": 10**9}, "handshake of"),
        ("verify", {"cpu_ns": 10**8}, "verify of"),
        ("handshake", {"cpu_ns": 0}, "primitives ran"),
    ],
)
def test_what_no_scheduler_can_have_counted(
    tmp_path: Path, step: str, change: dict[str, int], problem: str
) -> None:
    suite = "cs-classicmceliece348864-ascon128a-mldsa44"
    rows = handshake_window(CellClock(T0_NS), suite, 1, random.Random(1), queue_us=5)
    host = "gcs" if step == "handshake" else "drone"

    def problems() -> list[str]:
        mine = [s for s in read(tmp_path, rows) if s.host == host]
        return scheduling_problems(mine[-1], mine[:-1])

    assert problems() == []
    next(row for row in rows if row["host"] == host and row["step"] == step).update(change)
    assert any(text.startswith(problem) for text in problems()), problems()


S = 1_000_000_000


def pressed(readings: dict[str, list[tuple[int, str, int]]], sensors: list[dict[str, Any]]) -> dict[str, Any]:
    """Fields of a cell whose handshakes were in second 0 to 2 and whose traffic in second 2 to 10."""
    telemetry = {}
    for host, rows in readings.items():
        lines = [f"{key.replace('.', ',host=x ', 1)}={value}i {t_s * S}" for t_s, key, value in rows]
        telemetry[host] = within(points_of(lines), 0, 100 * S)
    hosts = {host: {"sensors": sensors} for host in ("drone", "gcs")}
    raw = RawRun(run={}, scenario={}, plan={}, providers={}, hosts=hosts)
    sheet = Sheet()
    fill_pressure(sheet, telemetry, (0, 2 * S), (2 * S, 10 * S), raw)
    return {f"{letter}.{name}": field for letter in "DNO" for name, field in sheet._rows[letter].items()}


def test_each_window_has_its_own_pressure() -> None:
    some = "pq_pressure.cpu_some_us"
    rows = [(0, some, 1_000_000), (1, some, 1_250_000), (2, some, 5_000_000), (6, some, 5_040_000)]
    queue = [(2, "pq_cpu.process_runqueue_ns", 7), (6, "pq_cpu.process_runqueue_ns", 7 + 6 * S)]
    fields = pressed({"drone": rows + queue}, [{"name": "pressure", "available": True}])
    assert fields["D.handshake_pressure_drone_pct"]["value"] == 25
    assert fields["N.cpu_pressure_pct"]["value"] == 1
    assert fields["N.tunnel_processor_wait_pct"]["value"] == 150, "each thread counts"
    assert fields["D.handshake_pressure_gcs_pct"]["value"] is None
    assert not any(name.startswith("O.") for name in fields), "left to the reason of the whole letter"


def test_a_kernel_without_pressure_gives_its_reason_and_an_old_cell_another() -> None:
    sensors = [{"name": "pressure", "available": False, "reason": "psi=0"}]
    fields = pressed({"drone": [], "gcs": []}, sensors)
    assert fields["O.cpu_pressure_pct"]["reason"] == "psi=0"
    assert fields["D.handshake_pressure_gcs_pct"]["reason"] == "psi=0"
    assert fields["N.tunnel_processor_wait_pct"]["reason"] == BEFORE_MEASURED
