"""The model inside the service: a rule's card shows that windows, counters and memory go in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from service_kit import FIELDS as SOME

from pqdetect.errors import FeedError
from pqdetect.features import SCHEMA
from pqdetect.feed import FIELDS
from pqdetect.service.watcher import ModelWatcher

QUIET = tuple(0 if name != "tx_data" else 7 for name in FIELDS)
FORGED = tuple(
    5 if name in ("rx_datagrams", "auth_failed") else count for name, count in zip(FIELDS, QUIET, strict=True)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A rule: ATTACK at the first refused datagram, until two windows without one have passed."""
    rule = {"on": 1.0, "off": 0.5, "need": 1, "among": 1, "hold": 2}
    card = {
        "schema": "pqdetect/card/v1",
        "name": "any-refused",
        "kind": "rule",
        "features": SCHEMA,
        "history_windows": 1,
        "first_verdict_windows": 1,
        "rules": {"attack": rule, "degraded": rule},
        "signals": {
            "attack": {"method": "level", "feature": "refused"},
            "degraded": {"method": "level", "feature": "if_rx_dropped"},
        },
    }
    (tmp_path / "card.json").write_text(json.dumps(card))
    return tmp_path


def test_windows_go_in_and_decisions_come_out(folder: Path) -> None:
    watcher = ModelWatcher(str(folder))
    assert watcher.model == "any-refused" and len(watcher.sha256) == 64
    told = [
        watcher.judge(k, FIELDS, [FORGED if k == 12 else QUIET] * 30, {"if_rx_dropped": 0}, 0)
        for k in range(10, 16)
    ]
    assert [j.attack for j in told] == [False, False, True, True, False, False]
    assert told[2].attack_score == 150.0
    assert [j.history_windows for j in told] == [1, 2, 3, 4, 5, 6]


def test_the_kernels_counters_are_seen_and_missing_ones_are_unknown(folder: Path) -> None:
    watcher = ModelWatcher(str(folder))
    assert watcher.judge(1, FIELDS, [QUIET] * 30, {"if_rx_dropped": 3}, 0).degraded is True
    # unknown is not zero: the rule keeps what it knew
    assert watcher.judge(2, FIELDS, [QUIET] * 30, None, 0).degraded is True


def test_to_forget_is_to_begin_anew(folder: Path) -> None:
    watcher = ModelWatcher(str(folder))
    watcher.judge(5, FIELDS, [FORGED] * 30, None, 0)
    watcher.forget()
    fresh = watcher.judge(3, FIELDS, [QUIET] * 30, None, 0)  # an earlier number is fine after that
    assert (fresh.attack, fresh.history_windows) == (False, 1)


def test_recalled_it_knows_nothing_of_what_came_after_the_mark(folder: Path) -> None:
    watcher = ModelWatcher(str(folder))
    watcher.judge(1, FIELDS, [QUIET] * 30, None, 0)
    watcher.mark()
    assert watcher.judge(2, FIELDS, [FORGED] * 30, None, 0).attack is True
    watcher.recall()
    after = watcher.judge(3, FIELDS, [QUIET] * 30, None, 0)
    assert (after.attack, after.history_windows) == (False, 2)
    watcher.judge(4, FIELDS, [FORGED] * 30, None, 0)
    watcher.recall()  # as often as wanted
    assert watcher.judge(5, FIELDS, [QUIET] * 30, None, 0).history_windows == 2


def test_forgetting_takes_the_mark_along(folder: Path) -> None:
    watcher = ModelWatcher(str(folder))
    watcher.judge(1, FIELDS, [QUIET] * 30, None, 0)
    watcher.mark()
    watcher.forget()
    watcher.recall()
    assert watcher.judge(2, FIELDS, [QUIET] * 30, None, 0).history_windows == 1


def test_an_alarm_does_not_outlive_a_long_interruption(folder: Path) -> None:
    watcher = ModelWatcher(str(folder))
    watcher.judge(5, FIELDS, [FORGED] * 30, None, 0)
    assert watcher.judge(100, FIELDS, [QUIET] * 30, None, 94).attack is False


def test_fields_are_taken_by_name_and_missing_ones_refused(folder: Path) -> None:
    watcher = ModelWatcher(str(folder))
    shuffled = tuple(reversed(FIELDS))
    assert watcher.judge(1, shuffled, [tuple(reversed(FORGED))] * 30, None, 0).attack is True
    with pytest.raises(FeedError):
        watcher.judge(2, SOME, [(1, 2, 3)] * 30, None, 0)
