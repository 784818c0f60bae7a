"""The limit for waiting in a printed figure, and the probe that asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from pqtunnel import quiet
from pqtunnel.quiet import LIMIT_NS, LIMIT_SHARE, Probe, Waiting, median, probe, waiting_in
from pqtunnel.scheduling import NoMeter

MS = 1_000_000


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("value_ns", "waited_ns", "disturbed"),
    [
        (MS, LIMIT_NS, False),  # a short figure bears the absolute limit
        (MS, LIMIT_NS + 1, True),
        (100 * MS, int(100 * MS * LIMIT_SHARE), False),  # a long one its share
        (100 * MS, int(100 * MS * LIMIT_SHARE) + 1, True),
    ],
)
def test_a_figure_is_disturbed_beyond_both_limits(value_ns: int, waited_ns: int, disturbed: bool) -> None:
    assert Waiting(value_ns, waited_ns).disturbed is disturbed


def test_the_limit_is_asked_of_the_statistic_that_is_printed() -> None:
    """One handshake of thirty was held up for 20 ms: their median bears it, their mean and maximum do not."""
    walls, waits = [MS] * 29 + [21 * MS], [0] * 29 + [20 * MS]
    middle, average, most = (waiting_in(walls, waits, f) for f in (median, mean, max))
    assert middle is not None and average is not None and most is not None
    assert (middle.disturbed, average.disturbed, most.disturbed) == (False, True, True)
    assert average.sentence == "40 % of it, 0.667 ms, was waiting for a processor"


def test_a_wait_longer_than_its_figure_is_all_of_it_and_nothing_of_nothing_is_none() -> None:
    found = waiting_in([MS], [5 * MS], median)
    assert found is not None and found.waited_ns == MS
    assert waiting_in([], [], median) is None


def test_unlike_numbers_of_figures_and_waits_are_an_error() -> None:
    with pytest.raises(ValueError):
        waiting_in([1.0, 2.0], [1.0], median)


def test_a_probe_says_what_it_is_and_reads_itself_again() -> None:
    calm, held_up = Probe(100, MS // 2, 2_000, 3_000), Probe(100, MS // 2, 2_000, 400_000)
    assert (calm.quiet, held_up.quiet) == (True, False)
    assert held_up.sentence == "a thread waits 0.40 ms for a processor to work 0.50 ms"
    assert Probe.from_dict({**held_up.as_dict(), "quiet": True}).quiet is False


def test_a_host_that_cannot_tell_is_neither_quiet_nor_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    import contextlib

    monkeypatch.setattr(quiet, "thread_meter", lambda: contextlib.nullcontext(NoMeter("it does not tell")))
    told = probe(2)
    assert (told.quiet, told.reason, told.sentence) == (None, "it does not tell", "it does not tell")


@pytest.mark.linux("asks Linux's scheduler")
def test_a_probe_sees_who_shares_its_core() -> None:
    """One core and three busy loops on it: the probe's thread waits for them."""
    core = min(os.sched_getaffinity(0))
    begin = f"import os, time; os.sched_setaffinity(0, {{{core}}})"
    loop = f"{begin}\nend = time.monotonic() + 300\nprint(flush=True)\nwhile time.monotonic() < end: pass"
    command = [sys.executable, "-c", loop]
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found: list[Probe] = []

    def ask() -> None:
        os.sched_setaffinity(threading.get_native_id(), {core})
        found.append(probe(40))

    try:
        for each in loops:
            assert each.stdout is not None and each.stdout.readline() == "\n", "it turns"
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    finally:
        for each in loops:
            each.kill()
            each.communicate()
    assert found[0].waited_mean_ns is not None and found[0].waited_mean_ns > LIMIT_NS
    assert found[0].quiet is False
