"""What the scheduler says of a handshake's thread: read where the trace says, elsewhere absent with a
reason."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pqtunnel import scheduling
from pqtunnel.scheduling import NoMeter, PrimitiveSampling, Reading, clock_costs, thread_meter
from pqtunnel.trace import Tracer

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


@dataclass
class Scripted:
    """A meter and a clock that note in which order they are read; each reading moves time on by one."""

    reason: str | None = None
    now: int = 0
    order: list[str] = field(default_factory=list)

    def clock(self) -> int:
        return self._tick("wall")

    def cpu_ns(self) -> int:
        return self._tick("cpu")

    def begin(self) -> Reading:
        return Reading(self._tick("begin"), b"0 100 1", 7)

    def end(self) -> Reading:
        return Reading(self._tick("end"), b"0 340 9", 9)

    def _tick(self, name: str) -> int:
        self.now += 1
        self.order.append(name)
        return self.now


def test_no_primitive_pays_for_the_thread_clock_and_no_wall_for_the_readings() -> None:
    meter = Scripted()
    tracer = Tracer(clock=meter.clock, host="gcs", meter=meter)
    tracer.mark("accept", "io")
    tracer.mark("keygen", "crypto")
    tracer.mark("sign", "crypto")
    tracer.mark("server_hello", "codec")
    tracer.finish()
    tracer.finish()
    assert meter.order == [
        "begin",
        "wall",  # accept
        "cpu",
        "wall",  # keygen: read before it starts
        "cpu",
        "wall",  # sign: one reading for both
        "wall",
        "cpu",  # server_hello: read after the primitive ended
        "wall",
        "end",
    ]
    rows = {row["step"]: row for row in tracer.rows()}
    assert [rows[step].get("cpu_ns") for step in ("accept", "keygen", "sign", "server_hello")] == [
        None,
        5 - 3,
        8 - 5,
        None,
    ]
    wall = rows["handshake"]
    assert (wall["cpu_ns"], wall["runqueue_ns"], wall["involuntary"]) == (10 - 1, 340 - 100, 2)
    assert "scheduling_reason" not in wall


@pytest.mark.parametrize(("waited_ns", "counted_ns"), [(0, 0), (40, 40), (900, 93)])
def test_an_end_that_waits_for_its_peer_reads_its_thread_before(waited_ns: int, counted_ns: int) -> None:
    """Nothing but its thread's clock is read while the peer waits. The wait of its wake-up counts, up to what
    the wall leaves."""

    class Sleeper(Scripted):
        slept = 0

        def cpu_ns(self) -> int:
            return self._tick("cpu") - self.slept

        def end(self) -> Reading:
            return Reading(self._tick("end") - self.slept, b"0 940 9", 9)

    meter = Sleeper()
    before = Reading(meter.begin().cpu_ns, b"0 %d 1" % (940 - waited_ns), 7)
    tracer = Tracer(clock=meter.clock, host="gcs", meter=meter, before=before)
    tracer.mark("accept", "io")
    meter.now += 95
    meter.slept += 95
    tracer.mark("check_hello", "kdf")
    tracer.finish()
    assert meter.order == ["begin", "cpu", "wall", "wall", "wall", "end"]
    wall = next(row for row in tracer.rows() if row["step"] == "handshake")
    assert (wall["end_ns"] - wall["start_ns"], wall["cpu_ns"], wall["involuntary"]) == (97, 4, 2)
    assert wall["runqueue_ns"] == counted_ns


def test_without_a_meter_the_wall_says_why_it_knows_nothing() -> None:
    tracer = Tracer(clock=iter(range(9)).__next__, meter=NoMeter("no such kernel"))
    tracer.mark("verify", "crypto")
    tracer.mark("kdf", "kdf")
    tracer.finish()
    verify, _, wall = tracer.rows()
    assert "cpu_ns" not in verify
    assert {wall[name] for name in ("cpu_ns", "runqueue_ns", "involuntary")} == {None}
    assert wall["scheduling_reason"] == "no such kernel"


@linux
def test_a_reading_grows_with_work_and_stands_still_in_sleep() -> None:
    with thread_meter() as meter:
        assert meter.reason is None
        first = meter.begin()
        time.sleep(0.05)
        slept = meter.end()
        while meter.cpu_ns() - slept.cpu_ns < 5_000_000:  # type: ignore[operator, union-attr]
            pass
        worked = meter.end()
    assert first is not None and slept is not None and worked is not None
    assert slept.cpu_ns - first.cpu_ns < 5_000_000 <= worked.cpu_ns - slept.cpu_ns
    assert first.runqueue_ns <= slept.runqueue_ns <= worked.runqueue_ns
    assert first.involuntary <= slept.involuntary <= worked.involuntary


@linux
def test_threads_that_share_a_processor_wait_for_it() -> None:
    """Two threads that want more than one processor gives: what each lacks of the wall stands in its queue
    time. The threads must not need the interpreter's lock of each other: they spend time in a hash."""
    import hashlib
    import os

    allowed = os.sched_getaffinity(0)
    waited: list[tuple[int, int]] = []
    start = threading.Barrier(2)

    def work() -> None:
        os.sched_setaffinity(0, {min(allowed)})
        with thread_meter() as meter:
            start.wait()
            begin_ns, first = time.perf_counter_ns(), meter.begin()
            hashlib.pbkdf2_hmac("sha256", b"a", b"b", 200_000)
            last, wall_ns = meter.end(), time.perf_counter_ns() - begin_ns
        assert first is not None and last is not None
        lacking_ns = wall_ns - (last.cpu_ns - first.cpu_ns)
        waited.append((last.runqueue_ns - first.runqueue_ns, lacking_ns))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(waited) == 2
    queue_ns, lacking_ns = max(waited)
    assert queue_ns > 0.5 * lacking_ns > 0


def test_a_fast_handshake_is_metered_inside_one_time_in_twenty() -> None:
    sampling = PrimitiveSampling()
    made = []
    for index in range(50):
        made.append(sampling.due(index))
        sampling.made(600_000)
    assert [index for index, due in enumerate(made) if due] == [4, 24, 44]
    sampling.made(scheduling.SLOW_WALL_NS)
    assert sampling.due(51)


def test_what_is_not_metered_inside_has_its_wall_accounted_all_the_same() -> None:
    class Counted:
        reason = None
        asked = 0

        def cpu_ns(self) -> int:
            self.asked += 1
            return self.asked

        def begin(self) -> Reading:
            return Reading(1, b"0 100 1", 0)

        end = begin

    meter = Counted()
    tracer = Tracer(clock=iter(range(99)).__next__, meter=meter, meter_primitives=False)
    for step, kind in (("connect", "io"), ("verify", "crypto"), ("kdf", "kdf")):
        tracer.mark(step, kind)  # type: ignore[arg-type]
    tracer.finish()
    rows = {row["step"]: row for row in tracer.rows()}
    assert meter.asked == 0 and "cpu_ns" not in rows["verify"]
    assert rows["handshake"]["runqueue_ns"] == 0 and tracer.wall_ns == 3


@linux
def test_a_thread_opens_its_meter_once_and_closes_it_when_it_ends() -> None:
    held: list[int] = []

    def work() -> None:
        for _ in range(3):
            with thread_meter() as meter:
                held.append(meter._descriptor)  # type: ignore[attr-defined]

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    del thread
    assert len(set(held)) == 1
    target = Path(f"/proc/self/fd/{held[0]}")
    assert not target.is_symlink() or "schedstat" not in str(target.readlink())


@linux
def test_a_kernel_that_does_not_count_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "schedstat"
    silent.write_text("0 0 0\n")
    monkeypatch.setattr(scheduling, "SCHEDSTAT", str(silent))
    monkeypatch.setattr(scheduling, "_OF_THREAD", threading.local())  # this thread has a meter already
    with thread_meter() as meter:
        assert meter.reason == scheduling.NO_SCHEDSTAT and meter.begin() is None
    silent.unlink()
    with thread_meter() as meter:
        assert "No such file" in str(meter.reason)
    costs = clock_costs()
    assert costs["thread_cpu_ns"] is None and costs["reading_ns"] is None
    assert "No such file" in str(costs["reason"]) and costs["monotonic_ns"] >= 0


@linux
def test_the_clocks_costs_are_told() -> None:
    costs = clock_costs()
    assert costs["reason"] is None
    assert 0 < costs["thread_cpu_ns"] <= costs["reading_ns"]
