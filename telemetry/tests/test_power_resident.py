"""The fast sampler behind the resident one: means, gaps, restarts; slices of rotated files; its verdict."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pqtelemetry.errors import SensorUnavailable, StoreError, UsageError
from pqtelemetry.parse import parse_line
from pqtelemetry.power import cut
from pqtelemetry.power.cut import COLUMNS, Offsets
from pqtelemetry.power.rawfile import GAP, RECORD, RawWriter, notes_of, read_notes, read_raw
from pqtelemetry.power.resident import FastPower
from pqtelemetry.power.settings import PowerSettings
from pqtelemetry.readers.base import Instant
from pqtelemetry.segments import SEGMENTS, older, oldest_first
from waiting import LIMIT_S, wait_for

SOURCE = os.pathsep.join(sys.path)
SECOND_NS = 1_000_000_000
READY = {"sensor": "ina219", "sensor_class": "chip"}
HEADER: dict[str, Any] = {
    "sensor": "ina219", "sensor_class": "model", "mode": "9bit", "rate_hz": 1000,
    "realtime_offset_ns": 10**18,
}  # fmt: skip


def slice_lines(raw: Path, from_ns: int, to_ns: int) -> list[str]:
    return "".join(cut.slice_text(raw, from_ns, to_ns)).split("\n")[:-1]


class Reader:
    """A FastPower over a child that plays a script; asked in real time."""

    def __init__(self, script: str) -> None:
        head = f"import json,sys,time\nREADY={READY!r}\n"
        # rows said at once arrive at once: a child that is stalled between two would part them
        head += "def say(*rows, **row): print(*map(json.dumps, rows or [row]), sep='\\n', flush=True)\n"
        self.power = FastPower([sys.executable, "-c", head + script])
        self.index = 0

    def ask(self) -> tuple[dict[str, Any] | None, str | None]:
        self.index += 1
        now_ns = time.monotonic_ns()
        try:
            samples, reason = self.power.read(Instant(self.index, now_ns, now_ns)), None
        except SensorUnavailable as gap:
            samples, reason = gap.samples, str(gap)
        return (dict(samples[0].fields) if samples else None), reason

    def until(self, wanted: Callable[[dict[str, Any] | None, str | None], bool]) -> tuple[Any, str | None]:
        end_s = time.monotonic() + LIMIT_S
        while time.monotonic() < end_s:
            fields, reason = self.ask()
            if wanted(fields, reason):
                return fields, reason
            time.sleep(0.02)
        raise AssertionError(f"never came; last was {reason!r}")


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_lines_between_two_ticks_become_one_weighted_mean() -> None:
    reader = Reader(
        "say(ready=READY)\n"
        "say(dict(n=100, clipped=0, voltage_v=5.0, current_a=1.0, power_w=5.0),"
        " dict(n=50, clipped=2, voltage_v=5.3, current_a=0.4, power_w=2.12))\ntime.sleep(600)"
    )
    fields, _ = reader.until(lambda fields, reason: fields is not None and fields["n_count"] == 150)
    assert fields["voltage_v"] == pytest.approx(5.1) and fields["power_w"] == pytest.approx(4.04)
    assert fields["clipped_count"] == 2
    _, reason = reader.until(lambda fields, reason: reason is not None)
    assert reason == "the fast power sampler is silent"
    reader.power.close()


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_a_gap_is_the_childs_own_reason_and_no_zero() -> None:
    reader = Reader("say(ready=READY)\nsay(n=0, reason='I2C read failed: Remote I/O error')\ntime.sleep(600)")
    fields, reason = reader.until(lambda fields, reason: reason is not None and "I2C" in reason)
    assert fields is None and reason == "I2C read failed: Remote I/O error"
    reader.power.close()


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_before_the_preflight_is_over_there_is_a_reason_and_no_sample() -> None:
    reader = Reader("time.sleep(600)")
    assert [reader.ask()[1] for _ in range(3)] == ["the fast power sampler is in its preflight"] * 3
    reader.power.close()


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_a_child_that_ends_is_started_again_with_a_pause(tmp_path: Path) -> None:
    count = tmp_path / "starts"
    reader = Reader(
        f"from pathlib import Path\np=Path({str(count)!r})\n"
        "n=len(p.read_text().split()) if p.exists() else 0\n"
        "with p.open('a') as starts: starts.write(f'{time.monotonic()}\\n')\n"
        "if n == 0: sys.stderr.write('pqtelemetry: the rail reads 3.60 V\\n  next: …\\n'); sys.exit(4)\n"
        "say(ready=READY)\nsay(n=1, clipped=0, voltage_v=5.0, current_a=1.0, power_w=5.0)\ntime.sleep(600)"
    )
    _, reason = reader.until(lambda fields, reason: reason is not None and "ended" in reason)
    assert reason == "the fast power sampler ended with code 4: the rail reads 3.60 V"
    reader.until(lambda fields, reason: fields is not None)
    first_s, second_s = map(float, count.read_text().split())
    assert second_s - first_s > 0.5 and reader.power.restarts == 1
    reader.power.close()


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pqtelemetry", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": SOURCE}, **pipes)


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_the_model_reaches_the_telemetry_file_marked_and_can_be_cut_out(tmp_path: Path) -> None:
    settings = tmp_path / "power.json"
    settings.write_text(json.dumps({"sensor": "model", "rate_hz": 200}))
    out, raw = tmp_path / "telemetry.lp", tmp_path / "power.bin"
    power = ("--power", "model", "--power-settings", str(settings))
    begin_ns = time.time_ns()
    sampler = start("sample", "--role", "drone", "--ring", "lab", "--out", str(out), *power)
    facts = start("facts", *power, "--power-raw", str(raw))
    told = json.loads(facts.communicate(timeout=LIMIT_S)[0])
    row = next(row for row in told["sensors"] if row["name"] == "power")
    assert (row["available"], row["sensor_class"], row["raw"]) == (True, "model", True)
    wait_for(lambda: out.exists() and out.read_text().count("\npq_power,") > 12)
    wait_for(lambda: len(slice_lines(raw, begin_ns, time.time_ns())) > 300)
    sampler.terminate()
    _, complaint = sampler.communicate(timeout=LIMIT_S)
    assert (sampler.returncode, complaint) == (0, "")
    points = [parse_line(line) for line in out.read_text().splitlines() if line.startswith("pq_power,")]
    assert len(points) > 10
    for point in points:
        tags = dict(point.tags)
        assert (tags["sensor_class"], tags["synthetic"]) == ("model", "true")
        assert 2.5 < float(point.fields["power_w"]) < 6 and point.fields["n_count"] > 0
    lines = slice_lines(raw, begin_ns, time.time_ns())
    head = json.loads(lines[0])
    assert head["sensor_class"] == "model" and "SCHED_" in head["scheduling"]
    assert lines[1] == ",".join(COLUMNS) and len(lines) > 300
    assert all(begin_ns < int(line.split(",")[0]) < time.time_ns() for line in lines[2:])
    cut = start(
        "power-slice",
        "--raw",
        str(raw),
        "--from-ns",
        lines[10].split(",")[0],
        "--to-ns",
        lines[19].split(",")[0],
    )
    assert cut.communicate(timeout=LIMIT_S)[0].splitlines()[2:] == lines[10:20]


def test_a_file_for_another_sensor_is_refused(tmp_path: Path) -> None:
    settings = tmp_path / "power.json"
    settings.write_text(json.dumps({"sensor": "model"}))
    with pytest.raises(UsageError, match="asked for is ina219"):
        PowerSettings.named("ina219", settings)
    assert PowerSettings.named("ina219-stub", None).sensor == "ina219-stub"


def test_a_full_file_becomes_the_older_one_and_both_are_read(tmp_path: Path) -> None:
    raw = tmp_path / "power.bin"
    offsets = iter([10**18 + 7, 10**18 + 14])
    writer = RawWriter(raw, HEADER, max_bytes=SEGMENTS * 24 * 100, offset_ns=lambda: next(offsets))
    for index in range(250):
        if index == 190:
            writer.gap({"t_mono_ns": 190_000, "end": False, "reason": "unplugged"})
        dead = index >= 190
        volts = math.nan if dead else 5.0
        writer.add(index * 1000, volts, volts, GAP if dead else 0, 0)
    writer.close()
    assert len(read_raw(raw).samples) == 50 and len(read_raw(older(raw)).samples) == 100
    # the gap that was open when the file changed is told in the new one as well
    assert [row["reason"] for row in read_notes(raw)] == ["unplugged"]
    lines = slice_lines(raw, 10**18, 10**18 + 10**9)
    head = json.loads(lines[0])
    assert len(lines) == 2 + 250 and head["gaps"][0]["reason"] == "unplugged"
    assert lines[2].split(",")[:3] == [str(10**18), "5", "5"]
    assert lines[2 + 100].split(",")[:3] == [str(10**18 + 7 + 100_000), "5", "5"]
    assert lines[-1] == f"{10**18 + 14 + 249_000},,,2,0"


def test_segments_keep_seven_eighths_of_the_bound_each_with_its_own_notes(tmp_path: Path) -> None:
    raw = tmp_path / "power.bin"
    writer = RawWriter(raw, HEADER, max_bytes=SEGMENTS * 24 * 10)
    for index in range(1000):
        if index % 10 == 3:
            writer.note({"t_mono_ns": index, "end": True, "reason": f"note {index}"})
        writer.add(index, 5.0, 1.0, 0, 0)
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2 * SEGMENTS
    kept = [sample.t_mono_ns for part in oldest_first(raw) for sample in read_raw(part).samples]
    assert kept == list(range(1000 - SEGMENTS * 10, 1000))
    for part in oldest_first(raw):
        first = read_raw(part).samples[0].t_mono_ns
        assert [row["reason"] for row in read_notes(part)] == [f"note {first + 3}"]


def test_a_segment_that_is_pushed_on_while_it_is_cut_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer clock offset has moved the place to read from by then."""
    raw = tmp_path / "power.bin"
    writer = RawWriter(raw, HEADER, max_bytes=SEGMENTS * 24 * 100)

    def write(begin: int, end: int, offset_ns: int) -> None:
        for index in range(begin, end):
            if index % 50 == 0 or index == begin:
                writer.note({"t_mono_ns": index * SECOND_NS, "realtime_offset_ns": offset_ns})
            writer.add(index * SECOND_NS, 5.0, 5.0, 0, index)
        writer.flush()

    write(0, 190, 10**18)
    real, sizes = cut.read_part, []

    def pushed(path: Path, *span: int | None) -> Any:
        found = real(path, *span)
        sizes.append(len(found[1]) // RECORD.size)
        if not older(raw, 2).exists():  # the writer fills this segment and begins the next
            write(190, 201, 10**18 + 10)
        return found

    monkeypatch.setattr(cut, "read_part", pushed)
    lines = slice_lines(raw, 10**18 + 150 * SECOND_NS + 5, 10**18 + 199 * SECOND_NS + 10)
    writer.close()
    assert sizes[:2] == [45, 56], "it was read from another record the second time"
    assert [int(line.split(",")[4]) for line in lines[2:]] == list(range(151, 200))


@pytest.mark.parametrize("steps_at", [150, 100])
def test_rows_are_in_order_of_time_where_the_clock_was_set_back(tmp_path: Path, steps_at: int) -> None:
    """In a segment, and between two."""
    raw = tmp_path / "power.bin"
    offsets_ns = [10**18] * 100 + [
        10**18 - (50_000_000_000 if index >= steps_at else 0) for index in range(100, 200)
    ]
    writer = RawWriter(raw, HEADER, max_bytes=SEGMENTS * 24 * 100, offset_ns=lambda: offsets_ns[100])
    for index, offset_ns in enumerate(offsets_ns):
        if index % 10 == 0:
            writer.note({"t_mono_ns": index * SECOND_NS, "realtime_offset_ns": offset_ns})
        writer.add(index * SECOND_NS, 5.0, 5.0, 0, index)
    writer.close()
    rows = [
        [int(n) for n in line.split(",")[::4]] for line in slice_lines(raw, 10**18 - 10**12, 2 * 10**18)[2:]
    ]
    taken = [(index * SECOND_NS + offset_ns, index) for index, offset_ns in enumerate(offsets_ns)]
    assert rows == [list(row) for row in sorted(taken)]


def test_a_sampler_started_again_keeps_the_file_before(tmp_path: Path) -> None:
    raw = tmp_path / "power.bin"
    for base in (0, 10**6):
        writer = RawWriter(raw, HEADER)
        writer.add(base, 5.0, 1.0, 0, 0)
        writer.close()
    assert read_raw(older(raw)).samples[0].t_mono_ns == 0 and notes_of(older(raw)).exists()
    assert len(slice_lines(raw, 10**18, 10**18 + 10**7)) == 4


def test_a_slewed_clock_is_followed_and_a_set_one_is_not_drawn_through() -> None:
    slewed = Offsets([(0, 1000), (10_000, 2000)])
    assert [slewed.at(t) for t in (-5, 0, 5000, 10_000, 20_000)] == [1000, 1000, 1500, 2000, 2000]
    stepped = Offsets([(0, 0), (10_000, 10**12)])
    assert [stepped.at(t) for t in (5000, 9999, 10_000)] == [0, 0, 10**12]


def test_a_slice_of_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not there"):
        slice_lines(tmp_path / "power.bin", 0, 1)


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_a_stalled_reader_does_not_stall_the_sampler(tmp_path: Path) -> None:
    sampler = start(
        "power",
        "--sensor",
        "model",
        "--out",
        str(tmp_path / "power.bin"),
        "--duration-s",
        "3",
        "--max-bytes",
        str(1 << 20),
    )
    assert sampler.wait(timeout=LIMIT_S) == 0, "nobody read its pipe"
    assert len(read_raw(tmp_path / "power.bin").samples) > 500
    sampler.communicate()
