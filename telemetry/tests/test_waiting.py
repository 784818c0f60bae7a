"""Waiting for a processor: of the machine (pressure) and of the agent's threads (the scheduler's count)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fakehost import FakeHost

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.readers.base import Instant, Missing
from pqtelemetry.readers.pressure import NO_PRESSURE, find_pressure
from pqtelemetry.readers.runqueue import NO_SCHEDSTAT, find_runqueue

NOW = Instant(0, 0, 1_700_000_000_000_000_000)


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


def test_pressure_is_the_total_of_some(host: FakeHost) -> None:
    reader = find_pressure(host.root)
    (sample,) = reader.read(NOW)
    assert (sample.measurement, sample.fields) == ("pq_pressure", {"cpu_some_us": 123456})
    host.write("proc/pressure/cpu", "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n")
    with pytest.raises(SensorUnavailable, match="no total of `some`"):
        reader.read(NOW)


def test_a_kernel_without_pressure_says_so(host: FakeHost) -> None:
    (host.root / "proc/pressure/cpu").unlink()
    reader = find_pressure(host.root)
    assert isinstance(reader, Missing) and reader.reason == NO_PRESSURE
    with pytest.raises(SensorUnavailable):
        reader.read(NOW)


@pytest.mark.linux("reads schedstat, which it holds open while its threads end")
def test_threads_that_come_and_go_never_lower_the_sum(host: FakeHost) -> None:
    host.process(77)
    reader = find_runqueue(host.root, 77)

    def total() -> object:
        (sample,) = reader.read(NOW)
        return sample.fields["process_runqueue_ns"]

    assert total() == 70
    host.thread(77, 78, 1000)
    assert total() == 1070
    host.thread(77, 78, 1500)
    shutil.rmtree(host.root / "proc/77/task/77")
    assert total() == 1570
    host.thread(77, 79, 5)
    shutil.rmtree(host.root / "proc/77/task/78")
    assert total() == 1575
    shutil.rmtree(host.root / "proc/77/task")
    with pytest.raises(SensorUnavailable):
        reader.read(NOW)


def test_a_kernel_without_scheduler_statistics_says_so(host: FakeHost) -> None:
    host.process(77)
    host.write("proc/77/schedstat", "0 0 0\n")
    silent = find_runqueue(host.root, 77)
    gone = find_runqueue(host.root, 4)
    assert isinstance(silent, Missing) and silent.reason == NO_SCHEDSTAT
    assert isinstance(gone, Missing) and "No such file" in gone.reason


@pytest.mark.linux("wine shows the kernel's files, and its process numbers are other ones")
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not tell")
def test_this_process_on_this_kernel() -> None:
    reader = find_runqueue(Path("/"), os.getpid())
    (first,), (second,) = reader.read(NOW), reader.read(NOW)
    assert 0 <= int(first.fields["process_runqueue_ns"]) <= int(second.fields["process_runqueue_ns"])
