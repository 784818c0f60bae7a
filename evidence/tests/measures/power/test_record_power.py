"""Heat, power and lines lost on the way: one sensor a figure, and no figure of holes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fixtures_make
import pytest
from bundle_kit import write_records

from pqevidence.records import build_record, load_context
from pqevidence.verify.checklist import checklist

MS = 1_000_000
Json = dict[str, Any]
FAST = "sensor=ina219,sensor_class=chip"
BOUND = "at the end of the sensor's range: a lower bound"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return fixtures_make.make_work_dir(
        tmp_path / fixtures_make.RUN_ID,
        suites=("cs-mlkem768-aesgcm-mldsa65",),
        session_s=3.0,
        bulk=False,
    )


def folder_of(work: Path) -> Path:
    return next(path for path in (work / "data" / "cells").iterdir())


def ticks(work: Path, role: str = "drone") -> list[int]:
    lines = (folder_of(work) / f"telemetry.{role}.lp").read_text().splitlines()
    return sorted({int(line.rsplit(" ", 1)[1]) for line in lines})


def gate(work: Path) -> tuple[int, int]:
    window = json.loads((folder_of(work) / "traffic.json").read_text())["windows"]["traffic"]["drone"]
    return int(window["open_ns"]), int(window["close_ns"])


def inside(work: Path) -> list[int]:
    start, end = gate(work)
    return [t for t in ticks(work) if start <= t < end]


def add(work: Path, series: str, fields: str, at: Iterable[int]) -> None:
    with (folder_of(work) / "telemetry.drone.lp").open("a") as handle:
        for t_ns in at:
            handle.write(f"{series.replace(',', ',host=drone,ring=lab,', 1)} {fields} {t_ns}\n")


def fields_of(work: Path, letter: str) -> Json:
    context = load_context(work / "data")
    fields: Json = build_record(folder_of(work), context.plan["cells"][0], context)["categories"][letter]
    return fields


def power(work: Path, fields: str, at: Iterable[int] | None = None, sensor: str = FAST) -> Json:
    add(work, f"pq_power,{sensor}", fields, ticks(work) if at is None else at)
    return fields_of(work, "P")


WATTS = "power_w=4.0,voltage_v=5.0,current_a=0.8"
FULL = f"{WATTS},n_count=100i,clipped_count=0i"


def test_the_hottest_zone_is_told_and_no_mean_of_zones(work: Path) -> None:
    at = inside(work)
    add(work, "pq_temp,zone=cpu", "temperature_c=60.0", at[::2])
    add(work, "pq_temp,zone=nvme", "temperature_c=30.0", at)
    add(work, "pq_temp,zone=wifi", "temperature_c=41.0", at)
    heat = fields_of(work, "N")["temperature_c"]
    assert (heat["value"], heat["n"]) == (60.0, len(at[::2]))


def test_a_fast_sampler_is_counted_by_its_samples(work: Path) -> None:
    told = power(work, FULL)
    assert told["power_sampling_rate_hz"]["value"] == pytest.approx(1000.0)
    assert told["energy_gross_j"]["value"] == pytest.approx(12.0)
    assert told["power_mean_w"]["n"] == len(inside(work))


def test_other_sensors_are_counted_by_their_points(work: Path) -> None:
    told = power(work, WATTS, sensor="sensor=hwmon:hwmon0-ina226,sensor_class=chip")
    assert told["power_sampling_rate_hz"]["value"] == pytest.approx(10.0)
    assert told["energy_gross_j"]["value"] == pytest.approx(12.0)


def test_two_sensors_are_no_figure(work: Path) -> None:
    add(work, "pq_power,sensor=hwmon:hwmon0-ina219,sensor_class=chip", WATTS, ticks(work))
    told = power(work, WATTS, sensor="sensor=hwmon:hwmon1-ina226,sensor_class=chip")
    assert {row["value"] for row in told.values()} == {None}
    assert "2 power sensors (hwmon:hwmon0-ina219, hwmon:hwmon1-ina226)" in told["power_mean_w"]["reason"]


def test_watts_of_the_pmic_enter_no_energy(work: Path) -> None:
    told = power(
        work,
        "power_w=4.0,voltage_v=5.0,rail_count=12i",
        ticks(work)[::10],
        sensor="sensor=pmic,sensor_class=pmic",
    )
    assert (told["power_mean_w"]["value"], told["power_mean_w"]["validity"]) == (4.0, "ok")
    assert told["energy_gross_j"]["value"] is None and "PMIC" in told["energy_gross_j"]["reason"]
    assert told["power_sampling_rate_hz"]["value"] == pytest.approx(1.0, abs=0.1)


def test_clipped_samples_make_lower_bounds_and_no_joules(work: Path) -> None:
    at = inside(work)
    add(work, f"pq_power,{FAST}", FULL, [t for t in ticks(work) if t != at[4]])
    told = power(work, f"{WATTS},n_count=100i,clipped_count=3i", [at[4]])
    joules = told["energy_gross_j"]
    assert (joules["value"], joules["reason"]) == (None, f"3 samples {BOUND}")
    for name in ("power_mean_w", "power_peak_w", "current_mean_a"):
        assert (told[name]["value"] is not None, told[name]["validity"]) == (True, "invalid"), name
        assert told[name]["reason"] == f"3 samples {BOUND}", name
    assert told["voltage_mean_v"]["validity"] == "ok"


def test_a_clipped_model_stays_a_model(work: Path) -> None:
    told = power(
        work,
        f"{WATTS},n_count=100i,clipped_count=1i",
        sensor="sensor=model,sensor_class=model,synthetic=true",
    )
    assert told["power_mean_w"]["validity"] == "model"
    assert told["power_mean_w"]["reason"].startswith("synthetic sensor: not a measurement; ")
    assert BOUND in told["power_mean_w"]["reason"]


def without(*gone: int) -> Callable[[list[int]], list[int]]:
    return lambda at: [t for place, t in enumerate(at) if place not in gone]


@pytest.mark.parametrize(
    ("kept", "fields", "reason"),
    [
        (without(), FULL, None),
        (without(7), FULL, None),  # 29 of 30
        (without(7, 8, 9), FULL, "no power sample for 0.40 s"),
        (without(0, 1, 2, 3), FULL, "no power sample for 0.4"),
        (without(26, 27, 28, 29), FULL, "no power sample for 0.4"),
        (without(5, 15), WATTS, "power samples cover 93.3 % of the window"),
        (lambda at: at[::2], FULL.replace("=100i", "=200i"), None),  # two means fell on one tick
        (lambda at: at[::40], FULL, "fewer than two power samples"),
    ],
)  # fmt: skip
def test_joules_need_a_window_without_holes(
    work: Path, kept: Callable[[list[int]], list[int]], fields: str, reason: str | None
) -> None:
    joules = power(work, fields, kept(inside(work)))["energy_gross_j"]
    assert (joules["value"] is None) is (reason is not None), joules
    assert reason is None or joules["reason"].startswith(reason)


def test_no_sample_in_the_window_is_said(work: Path) -> None:
    told = power(work, FULL, [ticks(work)[0]])
    assert told["power_sensor_type"]["value"] == "ina219"
    assert told["power_mean_w"]["reason"] == "no power sample within the traffic window"


@pytest.mark.parametrize(("count", "status"), [(100, "ok"), (99, "ok"), (98, "warn"), (None, "warn")])
def test_the_row_of_1_khz_asks_for_1_khz(work: Path, count: int | None, status: str) -> None:
    sensor = f"{FAST},synthetic=true"
    add(work, f"pq_power,{sensor}", WATTS if count is None else f"{WATTS},n_count={count}i", ticks(work))
    path = work / "data" / "hosts" / "drone.json"
    facts = json.loads(path.read_text())
    facts["sensors"] = [{"name": "power", "available": True, "reason": None}]
    path.write_text(json.dumps(facts))
    scenario = work / "data" / "scenario.effective.yml"
    document = json.loads(scenario.read_text())
    document["telemetry"] = {**(document.get("telemetry") or {}), "power": "host"}
    scenario.write_text(json.dumps(document))
    write_records(work)
    row = next(row for row in checklist(work) if row.name == "Power sampling at 1kHz")
    assert row.status == status, row.evidence
    assert row.evidence.startswith(f"{10 if count is None else 10 * count} Hz measured, sensor ina219")


@pytest.mark.parametrize("silent", [("drone",), ("gcs",), ("drone", "gcs")])
def test_lines_lost_are_unknown_where_an_end_does_not_count_them(work: Path, silent: tuple[str, ...]) -> None:
    told = fields_of(work, "Q")["telegraf_dropped_count"]
    assert told["value"] == 0
    for role in silent:
        path = folder_of(work) / f"telemetry.{role}.lp"
        path.write_text(path.read_text().replace(",telegraf_dropped_count=0i", ""))
    told = fields_of(work, "Q")["telegraf_dropped_count"]
    assert (told["value"], told["reason"]) == (None, f"no count of it at: {', '.join(silent)}")


def test_a_suite_ends_with_the_agents_not_with_the_transfer_of_their_files(work: Path) -> None:
    path = folder_of(work) / "events.ndjson"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    start = min(row["t_ns"] for row in rows if row["host"] == "controller")
    rows = [row for row in rows if row["event"] != "stop"]
    for host, after_ms in (("drone", 50), ("gcs", 70), ("controller", 90)):
        rows.append({"t_ns": start + after_ms * MS, "host": host, "event": "stop"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert fields_of(work, "C")["suite_deactivated_offset_ms"]["value"] == 70.0
