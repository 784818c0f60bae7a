"""The fast power loop on the software model in virtual time: accounting, gaps with reasons, known joules."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from pqtelemetry.errors import ParseError
from pqtelemetry.ina219.bus import BusError
from pqtelemetry.ina219.calibration import Calibration, Line
from pqtelemetry.ina219.device import Ina219
from pqtelemetry.ina219.model import Ina219Model, Load
from pqtelemetry.ina219.registers import CONFIG, RESET, Mode
from pqtelemetry.power.loop import PowerLoop
from pqtelemetry.power.rawfile import CLIPPED, GAP, RECORD, RawWriter, read_raw
from pqtelemetry.schedule import Schedule

IDENTITY = Calibration("m", "B", 0.1, "2026-01-01", "model", Line(1, 0, 0.001, 9), Line(1, 0, 0.002, 9))
HEADER: dict[str, Any] = {
    "sensor": "ina219", "sensor_class": "model", "mode": "9bit", "rate_hz": 1000, "realtime_offset_ns": 0,
}  # fmt: skip
MS = 1_000_000


class Virtual:
    """A clock that jumps to each deadline, late where the test says so; ends at `end_ns`."""

    def __init__(self, end_ns: int) -> None:
        self.now_ns = 0
        self.end_ns = end_ns
        self.late_at: dict[int, int] = {}
        self.at: dict[int, Any] = {}

    def monotonic_ns(self) -> int:
        return self.now_ns

    def realtime_ns(self) -> int:
        return self.now_ns

    def wait_until(self, deadline_ns: int) -> bool:
        self.now_ns = max(self.now_ns, deadline_ns + self.late_at.pop(deadline_ns, 0))
        for when in [t for t in self.at if t <= self.now_ns]:
            self.at.pop(when)()
        return self.now_ns < self.end_ns


class Bench:
    """Chip model, loop and files in virtual time."""

    def __init__(self, folder: Path, load: Load, seconds: float, mode: Mode | None = None) -> None:
        self.clock = Virtual(int(seconds * 1e9))
        self.model = Ina219Model(load, lambda: self.clock.now_ns / 1e9)
        chip = Ina219(self.model, IDENTITY, mode or Mode())
        chip.identify()
        chip.set_up()
        self.path = folder / "power.bin"
        self.writer = RawWriter(self.path, HEADER)
        self.lines: list[dict[str, Any]] = []
        self.gaps: list[dict[str, Any]] = []
        self.loop = PowerLoop(
            chip,
            Schedule(MS, MS),
            self.clock,
            self.writer,
            lambda line: self.lines.append(json.loads(line)),
            self.gaps.append,
        )

    def run(self) -> None:
        self.loop.run()
        self.writer.close()


def steady(_t_s: float) -> tuple[float, float]:
    return 5.0, 0.8


def test_every_deadline_is_accounted_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steady, 2.0)
    bench.clock.late_at = {100 * MS: 700_000, 200 * MS: 5 * MS}
    bench.run()
    counts = bench.loop.accounting
    assert (
        counts["expected_count"] == counts["got_count"] + counts["late_count"] + counts["lost_count"] == 1999
    )
    assert (counts["late_count"], counts["lost_count"]) == (1, 5)
    taken = counts["got_count"] + counts["late_count"]
    assert taken == counts["stored_count"] + counts["stale_count"] + counts["failed_count"]
    assert counts["stale_count"] == counts["failed_count"] == 0
    assert len(read_raw(bench.path).samples) == counts["stored_count"] == 1994


def joules(path: Path) -> float:
    samples = [s for s in read_raw(path).samples if s.power_w is not None]
    spans = itertools.pairwise(samples)
    return sum((b.t_mono_ns - a.t_mono_ns) / 2e9 * ((a.power_w or 0) + (b.power_w or 0)) for a, b in spans)


def test_known_joules_come_out_of_a_changing_load(tmp_path: Path) -> None:
    def load(t_s: float) -> tuple[float, float]:
        return 5.0, 0.6 + 0.4 * (int(t_s * 4) % 2)

    bench = Bench(tmp_path, load, 4.0)
    bench.run()
    # 4.0 s of 5 V, half at 0.6 A and half at 1.0 A; the file starts 1 ms in and ends with its last sample.
    assert joules(bench.path) == pytest.approx(16.0, rel=2e-3)


def test_an_unplugged_sensor_is_a_gap_with_its_reason_and_comes_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steady, 4.0)
    bench.clock.at = {
        1000 * MS: lambda: setattr(bench.model, "unplugged", True),
        2500 * MS: lambda: setattr(bench.model, "unplugged", False),
    }
    bench.run()
    samples = read_raw(bench.path).samples
    gap = [s for s in samples if s.flags & GAP]
    assert gap and all(s.voltage_v is None and s.current_a is None and s.power_w is None for s in gap)
    assert 1.4e9 < gap[-1].t_mono_ns - gap[0].t_mono_ns < 2.6e9
    assert [row["end"] for row in bench.gaps] == [False, True]
    assert "Remote I/O error" in str(bench.gaps[0]["reason"])
    assert samples[-1].power_w is not None, "the chip came back"
    dead = [line for line in bench.lines if line["n"] == 0]
    assert dead and all("power_w" not in line and line["reason"] for line in dead)
    assert not any(s.power_w == 0.0 for s in samples)


def test_a_brown_out_is_a_gap_and_the_range_is_restored(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steady, 3.0)
    bench.clock.at = {500 * MS: lambda: bench.model.write(CONFIG, RESET)}
    bench.run()
    assert any("lost its settings" in str(row["reason"]) for row in bench.gaps)
    assert bench.loop._chip.is_set_up()


@pytest.mark.parametrize("refused", [True, False])
def test_a_chip_that_will_not_be_set_up_is_a_gap_until_it_is(
    tmp_path: Path, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, steady, 5.0)
    write = bench.model.write
    asked: list[int] = []

    def deaf(register: int, word: int) -> None:
        """For three attempts the mode is not taken, or its transfer fails."""
        if register == CONFIG and 400 * MS < bench.clock.now_ns < 3500 * MS:
            asked.append(bench.clock.now_ns)
            if refused:
                return
            raise BusError("I²C write failed: Remote I/O error")
        write(register, word)

    bench.clock.at = {390 * MS: lambda: write(CONFIG, RESET)}
    monkeypatch.setattr(bench.model, "write", deaf)
    bench.run()
    assert 2 <= len(asked) <= 3 and bench.loop._chip.is_set_up(), "tried once a second, at last with success"
    reasons = [str(row["reason"]) for row in bench.gaps if not row["end"]]
    assert ("was set to" if refused else "Remote I/O error") in reasons[0]
    assert "was set up again" in reasons[-1]
    samples = read_raw(bench.path).samples
    unset = [s for s in samples if asked[0] <= s.t_mono_ns <= asked[-1] + 900 * MS]
    assert len(unset) > 1800 and all(s.flags & GAP for s in unset)
    assert all(s.power_w is not None for s in samples if s.t_mono_ns > asked[-1] + 1100 * MS)
    assert samples[-1].t_mono_ns > asked[-1] + 1100 * MS


def test_a_mode_slower_than_the_schedule_is_stale_and_not_doubled(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steady, 1.0, Mode(adc="avg2"))
    bench.run()
    counts = bench.loop.accounting
    assert counts["stale_count"] > 400
    assert counts["stored_count"] == len(read_raw(bench.path).samples) <= bench.model.conversions


def test_a_load_beyond_the_range_is_marked(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda t_s: (5.0, 3.6 if t_s > 0.5 else 0.5), 1.0)
    bench.run()
    samples = read_raw(bench.path).samples
    assert all(
        bool(s.flags & CLIPPED) == (s.t_mono_ns > 501 * MS)
        for s in samples
        if abs(s.t_mono_ns - 500 * MS) > MS
    )
    assert any(line["clipped"] for line in bench.lines)


def test_ten_hertz_lines_are_the_means_of_the_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda t_s: (5.0, 0.5 + 0.1 * math.sin(t_s)), 2.0)
    bench.run()
    samples = read_raw(bench.path).samples
    assert len(bench.lines) >= 18
    before = 0
    for line in bench.lines:
        # the line is written by the first sample of the next period, which belongs to it no more
        inside = [s for s in samples if before <= s.t_mono_ns < line["t_mono_ns"]]
        before = line["t_mono_ns"]
        if len(inside) == line["n"] + 1:
            inside = inside[:-1]
        mean_w = sum(s.power_w or math.nan for s in inside) / len(inside)
        assert line["power_w"] == pytest.approx(mean_w, rel=1e-3)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[10:],
        lambda data: data.replace(b"power/v1", b"power/v9"),
        lambda data: data[:-24] + RECORD.pack(5, 5.0, 1.0, 0, 0),
        lambda data: data[:-24] + RECORD.pack(1 << 60, math.nan, 1.0, GAP, 0),
        lambda data: data[:-24] + RECORD.pack(1 << 60, 5.0, 1.0, GAP, 0),
        lambda data: data[:-24] + RECORD.pack(1 << 60, 5.0, math.inf, 0, 0),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Any) -> None:
    bench = Bench(tmp_path, steady, 0.2)
    bench.run()
    bench.path.write_bytes(damage(bench.path.read_bytes()))
    with pytest.raises(ParseError):
        read_raw(bench.path)


def test_a_torn_last_record_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path, steady, 0.2)
    bench.run()
    bench.path.write_bytes(bench.path.read_bytes()[:-5])
    raw = read_raw(bench.path)
    assert raw.torn_bytes == 19 and len(raw.samples) == bench.loop.stored_count - 1
