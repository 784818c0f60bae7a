"""The sampler with a clock, sinks and readers of the test's own: merging, gaps, accounting, same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakehost import FakeHost

from pqtelemetry.collector import Collector
from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.host import find_readers
from pqtelemetry.line import Sample
from pqtelemetry.parse import Point, parse_line
from pqtelemetry.readers.base import Instant, Reader
from pqtelemetry.readers.tunnel import TunnelCounters
from pqtelemetry.sampler import Sampler
from pqtelemetry.schedule import Schedule

PERIOD_NS = 100_000_000
EPOCH_NS = 1_700_000_000_000_000_000
TAGS = (("host", "drone"), ("ring", "lab"))


@dataclass
class FakeClock:
    """Sleeps by moving itself; `delays_ns` are added to wake-ups, one each."""

    stop_after_ns: int
    delays_ns: list[int] = field(default_factory=list)
    now_ns: int = 0
    step_ns: int = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def realtime_ns(self) -> int:
        return EPOCH_NS + self.step_ns + self.now_ns

    def wait_until(self, deadline_ns: int) -> bool:
        self.now_ns = max(self.now_ns, deadline_ns) + (self.delays_ns.pop(0) if self.delays_ns else 0)
        return self.now_ns < self.stop_after_ns


@dataclass
class Sink:
    """A store and a forwarder in one, that can refuse."""

    blocks: list[bytes] = field(default_factory=list)
    last_error: str | None = None
    refuse: bool = False
    dropped_count: int = 0
    reconnect_count: int = 0

    def append(self, data: bytes) -> bool:
        if self.refuse:
            self.last_error = "No space left on device"
            return False
        self.last_error = None
        self.blocks.append(data)
        return True

    def put(self, data: bytes, line_count: int) -> None:
        assert data.count(b"\n") == line_count
        self.blocks.append(data)

    def points(self, measurement: str) -> list[Point]:
        lines = b"".join(self.blocks).decode().splitlines()
        return [point for point in map(parse_line, lines) if point.measurement == measurement]


@dataclass
class Flaky:
    """A reader that has a value only in some ticks."""

    gone: set[int]
    name: str = "flaky"
    period_s: float = 0.0

    def read(self, now: Instant) -> Sequence[Sample]:
        if now.index in self.gone:
            raise SensorUnavailable("unplugged")
        return [Sample("pq_flaky", {"index": now.index})]


def run(
    readers: Sequence[Reader], clock: FakeClock, store: Sink | None = None, forwarder: Sink | None = None
) -> tuple[Sampler, Sink]:
    store = store or Sink()
    sampler = Sampler(
        Schedule(0, PERIOD_NS), Collector(readers, TAGS, 10.0), clock, store, TAGS, forwarder=forwarder
    )
    sampler.run()
    return sampler, store


def test_ten_a_second_on_the_grid_with_unique_stamps() -> None:
    _, store = run([Flaky(set())], FakeClock(stop_after_ns=3_000_000_000))
    points = store.points("pq_flaky")
    assert [point.time_ns - EPOCH_NS for point in points] == [k * PERIOD_NS for k in range(30)]
    assert all(point.tags == TAGS for point in points)


def test_late_and_lost_ticks_are_told_in_the_next_line() -> None:
    delays = [0, 0, 70_000_000, 0, 350_000_000]
    sampler, store = run([Flaky(set())], FakeClock(1_000_000_000, delays))
    last = store.points("pq_sampler")[-1].fields
    # tick 2 is taken at 270 ms (late); the wake-up for 400 comes at 750: 4, 5, 6 lost, 7 got
    assert last["expected_count"] == 10
    assert (last["got_count"], last["late_count"], last["lost_count"]) == (6, 1, 3)
    assert last["stored_count"] == sampler.stored_count == len(store.points("pq_flaky")) == 7
    assert [point.fields["index"] for point in store.points("pq_flaky")] == [0, 1, 2, 3, 7, 8, 9]


def test_file_and_telegraf_get_the_same_bytes() -> None:
    forwarder = Sink()
    _, store = run([Flaky(set())], FakeClock(500_000_000), forwarder=forwarder)
    assert store.blocks == forwarder.blocks
    assert len(store.blocks) == 5
    assert store.points("pq_sampler")[0].fields["telegraf_dropped_count"] == 0


def test_a_gap_has_a_reason_once_and_no_value() -> None:
    _, store = run([Flaky({2, 3, 4})], FakeClock(800_000_000))
    assert [point.fields["index"] for point in store.points("pq_flaky")] == [0, 1, 5, 6, 7]
    reports = [(point.time_ns - EPOCH_NS, point.fields) for point in store.points("pq_sensor")]
    flaky = [(when // PERIOD_NS, fields) for when, fields in reports]
    assert (2, {"available": False, "reason": "unplugged"}) in flaky
    assert (5, {"available": True}) in flaky
    assert len([1 for when, _ in flaky if when in (3, 4)]) == 0


def test_an_absent_sensor_is_repeated_once_a_minute() -> None:
    _, store = run([Flaky(set(range(5000)))], FakeClock(150_000_000_000))
    named = [point for point in store.points("pq_sensor") if ("name", "flaky") in point.tags]
    assert [(point.time_ns - EPOCH_NS) // 1_000_000_000 for point in named] == [0, 60, 120]
    assert store.points("pq_flaky") == []


def test_a_refusing_disk_loses_no_tick_for_telegraf_and_is_reported() -> None:
    store, forwarder = Sink(refuse=True), Sink()
    sampler, _ = run([Flaky(set())], FakeClock(500_000_000), store, forwarder)
    assert sampler.stored_count == 0
    assert len(forwarder.points("pq_flaky")) == 5
    report = [point for point in forwarder.points("pq_sensor") if ("name", "store") in point.tags][-1]
    assert report.fields == {"available": False, "reason": "telemetry file: No space left on device"}


def test_a_slow_reader_is_read_at_its_own_rate_also_around_lost_ticks() -> None:
    slow = Flaky(set(), name="slow", period_s=1.0)
    _, store = run([slow], FakeClock(4_000_000_000, [0] * 9 + [150_000_000]))
    # The tick of second 1.0 is lost; the reader follows at 1.1 instead of skipping a second.
    assert [point.fields["index"] for point in store.points("pq_flaky")] == [0, 10, 20, 30]


@pytest.mark.linux("reads made-up files of /proc")
def test_nonsense_in_a_kernel_file_is_a_gap(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.write("proc/loadavg", "not numbers here\n")
    _, store = run(find_readers(host.root, None, None, "none", 1), FakeClock(300_000_000))
    assert store.points("pq_load") == []
    reasons = [p.fields.get("reason") for p in store.points("pq_sensor") if ("name", "load") in p.tags]
    assert len(reasons) == 1
    assert str(reasons[0]).startswith("unexpected content: ValueError")


@pytest.mark.linux("reads made-up files of /proc")
def test_one_line_a_series_with_the_fields_of_several_readers(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.cgroup_v2(1000)
    _, store = run(find_readers(host.root, None, None, "synthetic", 1), FakeClock(300_000_000))
    lines = store.blocks[1].decode().splitlines()
    keys = [line.split(" ")[0] for line in lines]
    assert len(set(keys)) == len(keys)
    cpu = store.points("pq_cpu")[1].fields
    assert {"system_total_ms", "container_cpu_ns", "container_pct", "sampler_cpu_ns"} <= cpu.keys()
    assert not {"process_pct", "process_cpu_ns"} & cpu.keys(), "nobody asked for a process"
    power = store.points("pq_power")
    assert all(("synthetic", "true") in point.tags and ("ring", "lab") in point.tags for point in power)
    assert store.points("pq_temp") == []


def test_readers_need_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="unique"):
        Collector([Flaky(set()), Flaky(set())], TAGS, 10.0)


def counters(age_ms: float, **more: object) -> str:
    now_ns = EPOCH_NS
    return json.dumps({"t_ns": now_ns - int(age_ms * 1e6), "state": "running", "cell_id": "ab", **more})


def test_tunnel_counters_are_flattened_to_numbers(tmp_path: Path) -> None:
    path = tmp_path / "counters.json"
    values = {
        "tx_data": 5,
        "rate": 1.5,
        "digest_tx": "00ff",
        "flag": True,
        "windows": {"traffic": {"tx_data": 5}},
        "bad name": 1,
        "huge": 2**70,
    }
    path.write_text(counters(30.0, counters=values))
    (sample,) = TunnelCounters(path).read(Instant(0, 0, EPOCH_NS))
    assert sample.fields == {"age_ms": 30.0, "state": "running", "cell_id": "ab", "tx_data": 5, "rate": 1.5}


def test_stalled_counters_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "counters.json"
    path.write_text(counters(2500.0, counters={"tx_data": 5}))
    with pytest.raises(SensorUnavailable, match="stalls") as caught:
        TunnelCounters(path).read(Instant(0, 0, EPOCH_NS))
    assert [sample.fields for sample in caught.value.samples] == [{"age_ms": 2500.0}]


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"t_ns": 1}', '{"t_ns": "x", "counters": {}}'])
def test_damaged_counters_are_a_gap(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counters.json"
    path.write_text(text)
    with pytest.raises(SensorUnavailable, match=r"counters\.json"):
        TunnelCounters(path).read(Instant(0, 0, EPOCH_NS))


def test_a_tunnel_that_never_started_is_a_gap(tmp_path: Path) -> None:
    with pytest.raises(SensorUnavailable, match="not there"):
        TunnelCounters(tmp_path / "counters.json").read(Instant(0, 0, EPOCH_NS))
