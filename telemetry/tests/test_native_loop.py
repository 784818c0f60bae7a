"""The native inner loop against the Python one: the same words, records, counts and reasons."""

from __future__ import annotations

import errno
import json
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("not under Windows: the sampler's extension reads Linux' I2C bus", allow_module_level=True)

import pq_sampler

from pqtelemetry.clock import SystemClock
from pqtelemetry.errors import TelemetryError
from pqtelemetry.ina219 import native
from pqtelemetry.ina219 import registers as reg
from pqtelemetry.ina219.calibration import Calibration, Line
from pqtelemetry.ina219.device import Ina219
from pqtelemetry.ina219.model import Ina219Model, normal_noise
from pqtelemetry.ina219.native import FastChip
from pqtelemetry.power import command, punctual
from pqtelemetry.power.loop import PowerLoop
from pqtelemetry.power.rawfile import GAP, RECORD, RawWriter, read_raw
from pqtelemetry.power.settings import PowerSettings
from pqtelemetry.schedule import Schedule
from pqtelemetry.segments import SEGMENTS, older

MS = 1_000_000
CALIBRATION = Calibration(
    "m", "B", 0.1, "2026-01-01", "model", Line(1.02, 0.003, 0.001, 9), Line(0.99, -0.01, 0.002, 9)
)
HEADER: dict[str, Any] = {
    "sensor": "ina219", "sensor_class": "model", "mode": "11bit", "rate_hz": 1000, "realtime_offset_ns": 0,
}  # fmt: skip


@pytest.mark.parametrize("adc", ["9bit", "11bit", "12bit", "avg4"])
@pytest.mark.parametrize("range_mv", [40, 320])
def test_both_models_give_the_same_words(adc: str, range_mv: int) -> None:
    now = [5_000_000_000]
    python = Ina219Model(command.model_load, lambda: now[0] / 1e9, 0.1, seed=3, steps=1)
    fast = pq_sampler.Model(0.1, normal_noise(3))
    fast.hold(now[0])
    mode = reg.Mode(shunt_range_mv=range_mv, adc=adc)
    writes = [(reg.CONFIG, reg.RESET), (reg.CALIBRATION, 0x2001), (reg.CONFIG, mode.config)]
    for register, word in writes:
        python.write(register, word)
        fast.write(register, word)
    rng = random.Random(1)
    registers = [reg.BUS, reg.SHUNT, reg.POWER, reg.CURRENT, reg.CONFIG, reg.CALIBRATION]
    for _ in range(3_000):
        now[0] += rng.randrange(0, 1_500_000)
        fast.hold(now[0])
        register = rng.choice(registers)
        assert fast.read(register) == python.read(register), (now[0], register)
    assert fast.conversions == python.conversions > 100
    with pytest.raises(OSError, match="No such device or address"):
        fast.read(7)


def test_a_run_in_real_time_accounts_for_every_deadline(tmp_path: Path) -> None:
    """For 1.2 s; for longer where a busy machine gives the loop too little of them."""
    begin_ns = time.monotonic_ns()
    lines: list[dict[str, Any]] = []
    out = tmp_path / "power.bin"

    def goes_on() -> bool:
        spent_ns = time.monotonic_ns() - begin_ns
        enough = out.exists() and out.stat().st_size > 600 * RECORD.size
        return spent_ns < 1_200 * MS or (not enough and spent_ns < 20_000 * MS)

    clock = SystemClock(goes_on)
    command.run(PowerSettings(sensor="model"), tmp_path, out, clock, lambda t: lines.append(json.loads(t)))
    spent_ms = (time.monotonic_ns() - begin_ns) / MS
    raw = read_raw(out)
    counts = lines[-1]["accounting"]
    assert raw.header["loop"] == "native"
    assert counts["expected_count"] == counts["got_count"] + counts["late_count"] + counts["lost_count"]
    taken = counts["got_count"] + counts["late_count"]
    assert taken == counts["stored_count"] + counts["stale_count"] + counts["failed_count"]
    assert counts["stored_count"] == len(raw.samples) > 500
    assert counts["expected_count"] == pytest.approx(spent_ms, abs=150)
    assert {round(s.current_a or 0, 1) for s in raw.samples} == {0.6, 1.0}
    assert {round(s.voltage_v or 0, 1) for s in raw.samples} == {5.1}
    late = sum(bool(s.flags & 4) for s in raw.samples)
    assert late <= counts["late_count"]
    means = [line for line in lines if line.get("n")]
    assert sum(line["n"] for line in means) <= counts["stored_count"] < sum(line["n"] for line in means) + 200


class Played:
    """A register bus whose native side fails once and works again; the Python side always works."""

    def __init__(self) -> None:
        self.model = native.NativeModel(0.1, normal_noise(2))
        self.fast: FastChip | None = FastChip(self, 0x40)
        self.blocks = 0

    def read(self, register: int) -> int:
        return self.model.read(register)

    def write(self, register: int, word: int) -> None:
        self.model.write(register, word)

    def refresh(self) -> None:
        pass


class FailingBlock:
    """What the native loop tells of a transfer that failed at its first deadline."""

    def __init__(self, start_ns: int, index: int) -> None:
        self.next_index = index + 1
        self.got_count, self.late_count, self.lost_count = 1, 0, 0
        self.stored_count = self.stale_count = self.clipped_count = 0
        self.within_half_ms_count = 1
        self.volts = self.amps = self.watts = 0.0
        self.records = b""
        self.failure = SimpleNamespace(
            index=index, now_ns=start_ns + index * MS, lateness_ns=9, errno=errno.EREMOTEIO
        )


def test_a_failed_transfer_is_a_gap_with_its_reason_and_python_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = Played()
    chip = Ina219(bus, CALIBRATION, reg.Mode(adc="11bit"))
    chip.identify()
    chip.set_up()
    gaps: list[dict[str, object]] = []
    schedule = Schedule(time.monotonic_ns() + MS, MS)
    end_ns = time.monotonic_ns() + 300 * MS
    clock = SystemClock(lambda: time.monotonic_ns() < end_ns)
    writer = RawWriter(tmp_path / "power.bin", HEADER)
    loop = PowerLoop(chip, schedule, clock, writer, lambda _line: None, gaps.append)
    native_block = native.NativeLoop.block

    def block(self: native.NativeLoop, fast: FastChip, first: int, end: int) -> Any:
        bus.blocks += 1
        if bus.blocks == 1:
            return FailingBlock(schedule.start_ns, first)
        return native_block(self, FastChip(bus.model.fast.registers, 0x40), first, end)  # type: ignore[union-attr]

    monkeypatch.setattr(native.NativeLoop, "block", block)
    loop.run()
    writer.close()
    samples = read_raw(tmp_path / "power.bin").samples
    assert [bool(s.flags & GAP) for s in samples].count(True) == loop.failed_count == 1
    assert [row["end"] for row in gaps] == [False, True]
    assert gaps[0]["reason"] == "I²C read at 0x40 failed: Remote I/O error"
    assert bus.blocks >= 3, "the native loop goes on after the gap"
    counts = loop.accounting
    taken = counts["got_count"] + counts["late_count"]
    assert taken == counts["stored_count"] + counts["stale_count"] + counts["failed_count"]
    # true = gain × (reading − offset): 0.6 and 1.0 A, 5.1 V
    amps = {round(s.current_a or 0, 2) for s in samples if not s.flags & GAP}
    assert amps <= {0.61, 1.02} and amps
    assert all(5.0 < (s.voltage_v or 0) < 5.12 for s in samples if not s.flags & GAP)


def test_a_block_longer_than_the_file_goes_on_in_the_next(tmp_path: Path) -> None:
    path = tmp_path / "power.bin"
    writer = RawWriter(path, HEADER, max_bytes=5 * SEGMENTS * RECORD.size)
    writer.add_records(b"".join(RECORD.pack(k, 5.0, 1.0, 0, 0) for k in range(1, 9)))
    writer.close()
    assert [s.t_mono_ns for s in read_raw(older(path)).samples] == [1, 2, 3, 4, 5]
    assert [s.t_mono_ns for s in read_raw(path).samples] == [6, 7, 8]
    assert writer.records == 8


def test_counts_from_elsewhere_have_to_add_up() -> None:
    schedule = Schedule(0, MS)
    schedule.pass_over(10, 7, 2, 1)
    assert (schedule.next_index, schedule.expected_count, schedule.taken_count) == (10, 10, 9)
    with pytest.raises(ValueError, match="do not add up"):
        schedule.pass_over(20, 7, 2, 2)


def test_a_node_that_is_not_there_leaves_the_reading_to_python() -> None:
    assert native.fast_i2c("/dev/i2c-77", 0x40) is None
    with pytest.raises(TelemetryError, match="power did not run"):
        punctual._measured(["power", "--sensor", "ina219", "--out", "/nowhere/power.bin"], 1.0)


def row(kind: str, within: float, cpu: float, **counts: int) -> dict[str, Any]:
    whole = {"expected_count": 100, "got_count": 98, "late_count": 1, "lost_count": 1}
    whole |= {"stored_count": 98, "stale_count": 1, "failed_count": 0, **counts}
    return {
        "kind": kind,
        "within_half_ms_pct": within,
        "cpu_pct": cpu,
        "steal_pct": 0.0,
        "load1": 0.1,
        "scheduling": "SCHED_FIFO 20",
        "loop": "native",
        "counts": whole,
    }


def test_the_schedules_verdict_is_of_medians_and_of_every_account() -> None:
    rows = [
        row("sampler", 99.9, 1.5),
        row("bare", 99.95, 1.4),
        row("sampler", 99.6, 1.9),
        row("bare", 99.9, 1.5),
        row("sampler", 90.0, 2.9),
        row("bare", 99.0, 1.6),
    ]
    told = punctual.summary(rows)
    assert [target["met"] for target in told["targets"]] == [True, True, True]
    assert told["sampler_within_half_ms_pct"] == 99.6
    assert told["cpu_ratio"] == pytest.approx(1.9 / 1.5, abs=1e-3)
    page = punctual.table({"rounds": 3, "round_s": 1, "rows": rows, **told})
    assert "| median of sampler | 99.60 | 1.90 |" in page and "[x] within ± 0.5 ms" in page
    lossy = [*rows, row("sampler", 99.9, 1.5, lost_count=5)]
    assert [target["met"] for target in punctual.summary(lossy)["targets"]] == [True, True, False]
    slow = [row("sampler", 99.4, 2.1), row("bare", 99.4, 2.0)]
    assert [target["met"] for target in punctual.summary(slow)["targets"]] == [False, False, True]
