"""The service's decisions: numbering, deadlines, and never a verdict where nothing can be judged."""

from __future__ import annotations

import dataclasses
import json

from service_kit import BINS, EPOCH_NS, WINDOW_NS, Host, Recorder, windows_of

from pqdetect.errors import FeedError
from pqdetect.service.core import Judgement
from pqdetect.service.verdict import SCHEMA, window_end_ns

FIRST = EPOCH_NS // WINDOW_NS


def test_one_line_a_window_each_within_its_deadline() -> None:
    host = Host()
    lines = host.run(6.0)
    # the window in progress when the service began is the first it saw whole
    assert windows_of(lines) == list(range(FIRST, FIRST + 10))
    assert all(line.state == "ready" and line.deadline_met for line in lines)
    for line in lines:
        assert line.latency_ms == (line.t_ns - window_end_ns(line.k)) / 1e6
        assert line.packets_seen == 9 * BINS
    assert [line.history_windows for line in lines] == list(range(1, 11))
    assert lines[0].reset == "started"
    assert {line.reset for line in lines[1:]} == {None}


def test_a_line_is_json_of_its_schema() -> None:
    row = json.loads(Host().run(1.0)[0].line())
    assert row["schema"] == SCHEMA
    assert row["attack"] is False
    assert row["cell_id"] == "cell-1"


def test_an_attack_is_told() -> None:
    host = Host()
    assert [line.attack for line in host.run(1.2)] == [False, False]
    hit = host.run(0.6, counts=(2, 7, 1))  # type: ignore[arg-type]
    assert [line.attack for line in hit] == [True]


def test_warming_gives_no_verdict() -> None:
    lines = Host(Recorder(warm_up=2)).run(3.0)
    assert [(line.state, line.attack) for line in lines[:3]] == [
        ("warming", None),
        ("warming", None),
        ("ready", False),
    ]
    assert not lines[0].deadline_met


def test_without_a_feed_it_says_so_once_a_window_and_judges_nothing() -> None:
    host = Host()
    lines = []
    for _ in range(30):
        host.mono += 100_000_000
        lines += host.core.step(None)
    assert len(lines) == 5
    assert {(line.state, line.attack, line.degraded) for line in lines} == {("no_feed", None, None)}
    assert host.watcher.taken == []


def test_a_frozen_feed_is_stale_and_what_follows_is_a_gap() -> None:
    host = Host()
    host.run(3.0)
    frozen = host.feed()
    lines = []
    for _ in range(30):
        host.mono += 100_000_000
        lines += host.core.step(frozen)
    assert {line.state for line in lines} == {"stale"}
    assert all(line.attack is None and not line.deadline_met for line in lines)
    after = host.run(1.2)
    assert after[0].state == "ready"
    assert after[0].gap_windows == after[0].k - host.watcher.taken[4] - 1 > 0


def test_counters_that_do_not_move_are_stale_never_normal() -> None:
    host = Host()
    host.run(3.0)
    lines = host.run(6.0, counts=(0, 0, 0))  # type: ignore[arg-type]
    # two windows may be a pause; from the third on nobody knows
    assert [line.state for line in lines[:2]] == ["ready", "ready"]
    assert {line.state for line in lines[2:]} == {"stale"}
    assert {line.attack for line in lines[2:]} == {None}


def test_bins_that_stop_in_a_fresh_document_are_stale() -> None:
    host = Host()
    host.run(3.0)
    old = host.feed()
    lines = []
    for _ in range(20):
        host.mono += 100_000_000
        lines += host.core.step(dataclasses.replace(old, t_ns=host.real, mono_ns=host.mono))
    assert [line.state for line in lines][-1] == "stale"
    assert all(line.attack is None for line in lines)


def test_a_plane_without_bins_is_told_apart() -> None:
    host = Host()
    lines = []
    for _ in range(10):
        host.mono += 100_000_000
        lines += host.core.step(dataclasses.replace(host.feed(), bins=None, reason="python plane"))
    assert {line.state for line in lines} == {"bins_missing"}


def test_a_feed_that_lacks_a_field_is_no_verdict() -> None:
    class Refusing(Recorder):
        def judge(self, *_: object, **__: object) -> Judgement:
            raise FeedError("the feed's bins lack rx_filled")

    host = Host(Refusing())
    lines = host.run(1.2)
    assert {(line.state, line.attack) for line in lines} == {("bins_missing", None)}
    assert host.core.complaint == "the feed's bins lack rx_filled"


def test_an_endpoint_that_restarts_empties_the_history() -> None:
    host = Host()
    host.run(3.0)
    host.boot = "boot-2"
    lines = host.run(1.8)
    assert host.watcher.forgotten == 1
    assert lines[0].reset == "endpoint restarted"
    assert lines[0].history_windows == 1
    assert {line.boot for line in lines} == {"boot-2"}


def test_a_clock_set_forward_is_a_gap_not_a_latency() -> None:
    host = Host()
    host.run(3.0)
    host.epoch += 3600 * 10**9
    lines = host.run(3.0)
    assert lines[0].gap_windows == 6000
    assert all(0 <= line.latency_ms <= 600 for line in lines)
    assert all(line.deadline_met for line in lines)


def test_a_clock_set_back_begins_anew() -> None:
    host = Host()
    host.run(3.0)
    host.epoch -= 3600 * 10**9
    lines = host.run(3.0)
    assert host.watcher.forgotten == 1
    assert lines[0].reset == "clock set back"
    assert windows_of(lines) == list(range(lines[0].k, lines[0].k + len(lines)))
    assert all(0 <= line.latency_ms <= 600 for line in lines)


def test_frozen_by_the_controller_it_goes_on_with_the_present() -> None:
    host = Host()
    host.run(3.0)
    host.mono += 60 * 10**9
    lines = host.run(1.8)
    assert lines[0].reset == "paused"
    assert lines[0].gap_windows == 100
    assert host.watcher.forgotten == 0
    assert lines[0].history_windows == 6
    assert all(line.deadline_met for line in lines)


def test_told_to_forget_it_says_so() -> None:
    host = Host()
    host.run(3.0)
    host.mono += 10 * 10**9
    host.core.forget("cold start")
    lines = host.run(1.2)
    assert lines[0].reset == "cold start, paused"
    assert lines[0].history_windows == 1


def test_what_comes_after_a_mark_is_judged_and_not_carried_into_the_next_cell() -> None:
    host = Host()
    host.run(3.0)
    host.core.mark(host.feed())
    lines = host.run(1.8)
    assert [(line.state, line.history_windows, line.reset) for line in lines] == [
        ("ready", 6, None),
        ("ready", 7, None),
        ("ready", 8, None),
    ]
    host.cell, host.began_bin = "cell-2", 2
    after = host.run(1.2)
    assert [line.history_windows for line in after] == [6, 7]
    assert [line.reset for line in after] == ["marked windows dropped", None]
    # numbering and gaps stay those of the clock: nothing was left unjudged
    assert [line.k for line in after] == [lines[-1].k + 1, lines[-1].k + 2]
    assert {line.gap_windows for line in after} == {0}
    host.cell = "cell-3"
    host.run(1.2)
    assert host.watcher.recalled == 1  # a mark is for one cell


def test_another_attempt_at_the_same_cell_drops_what_was_marked_in_the_first() -> None:
    host = Host()
    host.run(3.0)
    host.core.mark(host.feed())
    host.run(1.2)
    host.began_bin += 500
    assert host.run(0.6)[0].history_windows == 6


def test_a_restart_between_mark_and_attack_does_not_carry_the_attack_on() -> None:
    host = Host()
    host.run(3.0)
    host.core.mark(host.feed())
    host.boot = "boot-2"
    host.run(1.2)
    host.cell = "cell-2"
    assert host.run(0.6)[0].history_windows == 1


def test_the_last_windows_of_a_cell_do_not_begin_the_history_of_the_next_cold_one() -> None:
    host = Host()
    host.run(3.0)
    host.core.forget("cold start")
    (last,) = host.run(0.6)  # complete only now, and the canary's attack is in it
    assert (last.history_windows, last.reset) == (1, "cold start")
    host.cell, host.began_bin = "cell-2", 2
    first, second = host.run(1.2)
    assert (first.history_windows, first.reset) == (1, "cold start")
    assert (second.history_windows, second.reset) == (2, None)
    assert host.watcher.recalled == 1  # with it go its alarms


def test_a_mark_after_a_pause_is_of_the_cell_that_runs_by_then() -> None:
    host = Host()
    host.run(3.0)
    host.mono += 60 * 10**9
    host.cell, host.began_bin = "cell-2", 2
    host.core.mark(host.feed())
    assert [line.history_windows for line in host.run(1.2)] == [6, 7]
    host.cell, host.began_bin = "cell-3", 3
    (after,) = host.run(0.6)
    assert (after.history_windows, after.reset) == (6, "marked windows dropped")


def test_a_mark_does_not_outlive_the_history_it_is_of() -> None:
    host = Host()
    host.run(3.0)
    host.core.mark(host.feed())
    host.core.forget("cold start")
    host.cell = "cell-2"
    assert host.run(1.2)[0].history_windows == 1
    host.core.mark(host.feed())
    host.boot, host.cell = "boot-2", "cell-3"
    host.run(1.2)
    host.cell = "cell-4"
    host.run(0.6)
    assert host.watcher.history == 3
    assert host.watcher.recalled == 2  # at each change of the cell, not after the restart once more


def test_a_late_verdict_counts_as_a_missed_deadline() -> None:
    host = Host()
    host.run(0.6)
    host.mono += 1_300_000_000
    late = host.core.step(host.feed())
    assert [line.deadline_met for line in late] == [False, True]
    assert late[0].latency_ms > 600 >= late[1].latency_ms
    assert late[0].attack is False  # late, and still a verdict


def test_a_window_gets_what_the_kernels_counters_moved_by_in_it() -> None:
    host = Host()
    host.run(1.2)
    assert host.watcher.kernels == [{"if_rx_packets": 60}] * 2
    host.mono += 1_200_000_000
    host.core.step(host.feed())
    # two windows at once, and the document tells of the newer one alone
    assert host.watcher.kernels[2:] == [None, {"if_rx_packets": 60}]


def test_it_waits_for_the_windows_end_not_in_a_busy_loop() -> None:
    host = Host()
    assert host.core.wait_ns() == 200_000_000
    host.run(0.6)
    assert host.core.wait_ns() == 200_000_000
    host.mono += 640_000_000
    assert 60_000_000 <= host.core.wait_ns() <= 70_000_000
    host.mono += 200_000_000
    assert host.core.wait_ns() == 40_000_000
