"""Recordings: files say what was in memory, labels follow truth, damaged files are refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pqdetect import recording
from pqdetect.errors import RecordingError
from pqdetect.feed import DELTAS, FIELDS, WINDOW_BINS, WINDOW_NS
from pqdetect.recording import Episode, LinkTruth, Recording, Truth, labels

FIRST_K = 2_940_000_123


def make(windows: int, episodes: tuple[Episode, ...] = (), loss: LinkTruth | None = None) -> Recording:
    rng = np.random.default_rng(windows)
    counts = rng.poisson(0.3, (windows, WINDOW_BINS, len(FIELDS))).astype(np.int64)
    deltas = rng.poisson(9, (windows, len(DELTAS))).astype(np.float64)
    deltas[0] = np.nan
    deltas[-1, 5:] = np.nan
    came = np.ones(windows, dtype=np.bool_)
    came[2] = False
    counts[2], deltas[2] = 0, np.nan
    t0 = FIRST_K * WINDOW_NS
    truth = Truth("s-1", "flood", "direct", 5, "lab", t0, t0 + windows * WINDOW_NS, episodes, loss)
    return Recording(truth, FIRST_K, counts, deltas, came)


def at(windows: float) -> int:
    return round((FIRST_K + windows) * WINDOW_NS)


def truth_of(sent: list[float], received: list[float]) -> LinkTruth:
    nothing = np.full(len(sent), np.nan)
    return LinkTruth(np.array(sent), np.array(received), nothing, nothing)


def test_files_hold_the_recording(tmp_path: Path) -> None:
    episode = Episode("flood", at(3.5), at(4.5), 100.0, True, 60)
    made = make(6, (episode,), truth_of([2, 3, np.nan, 4, 4, 4], [2, 3, np.nan, 1, 4, 4]))
    recording.write(made, tmp_path / "r")
    back = recording.read(tmp_path / "r")
    assert back.first_k == FIRST_K and back.came.tolist() == made.came.tolist()
    assert np.array_equal(back.counts, made.counts)
    assert np.array_equal(back.deltas, made.deltas, equal_nan=True)
    assert replace(back.truth, loss=None) == replace(made.truth, loss=None)
    assert back.truth.loss is not None and made.truth.loss is not None
    assert np.array_equal(back.truth.loss.sent_in, made.truth.loss.sent_in, equal_nan=True)
    windows = list(back.windows())
    assert [window.k - FIRST_K for window in windows] == [0, 1, 3, 4, 5]


def test_fields_may_come_in_another_order_and_more(tmp_path: Path) -> None:
    made = make(4)
    recording.write(made, tmp_path)
    path = tmp_path / recording.BINS_FILE
    header, *rest = [json.loads(line) for line in path.read_text().splitlines()]
    header["fields"] = ["novel", *reversed(header["fields"])]
    turned = [[line[0], [7, *reversed(line[1])]] if isinstance(line, list) else line for line in rest]
    path.write_text("\n".join(json.dumps(line) for line in [header, *turned]) + "\n")
    assert np.array_equal(recording.read(tmp_path).counts, made.counts)


def test_attack_windows_are_those_that_a_visible_episode_overlaps() -> None:
    seen = Episode("flood", at(3.5), at(4.5), 100.0, True, 60)
    unseen = Episode("handshake-flood", at(7.0), at(8.0), 100.0, False, 60)
    told = labels(make(12, (seen, unseen), truth_of([4.0] * 12, [4, 4, 4, 2, 3, *[4.0] * 7])))
    assert np.flatnonzero(told.attack).tolist() == [3, 4]
    assert np.flatnonzero(told.episode == 1).tolist() == [7, 8]
    assert [(one.first, one.last, one.kind) for one in told.episodes] == [
        (3, 4, "flood"),
        (7, 8, "handshake-flood"),
    ]
    assert told.episodes[0].loss == pytest.approx(3 / 8) and told.episodes[1].loss == 0


def test_degraded_is_loss_over_three_windows_and_needs_enough_packets() -> None:
    sent = [4, 4, 4, 4, 4, 4, 1, 1, 1, 1]
    received = [4, 4, 4, 0, 4, 4, 0, 0, 0, 0]
    told = labels(make(10, loss=truth_of([float(n) for n in sent], [float(n) for n in received])))
    # Lost of the last three: k=3,4,5 4/12; k=6 1/9; k=7 2/6; from k=8 on 3 packets were sent: not known.
    assert told.degraded_known.tolist() == [False, False, *[True] * 6, False, False]
    assert np.flatnonzero(told.degraded).tolist() == [3, 4, 5, 7]
    assert not labels(make(10)).degraded_known.any()


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        (recording.TRUTH_FILE, "{}", "schema is None"),
        (recording.TRUTH_FILE, "[", "not a truth file"),
        (recording.BINS_FILE, "", "bins.ndjson:1: no header"),
        (recording.BINS_FILE, '{"schema": "pqtunnel/feed/v1", "fields": ["rx_data"]}', "lack rx_datagrams"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, file: str, text: str, says: str) -> None:
    recording.write(make(4), tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(RecordingError, match=says):
        recording.read(tmp_path)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    recording.write(make(4), tmp_path)
    path = tmp_path / recording.BINS_FILE
    lines = path.read_text().splitlines()
    lines[4] = "[3]"
    path.write_text("\n".join(lines))
    with pytest.raises(RecordingError, match=r"bins\.ndjson:5"):
        recording.read(tmp_path)


def test_truth_of_another_length_is_refused(tmp_path: Path) -> None:
    recording.write(make(4, loss=truth_of([1.0] * 3, [1.0] * 3)), tmp_path)
    with pytest.raises(RecordingError, match="3 windows of loss, the bins have 4"):
        recording.read(tmp_path)
