"""Features: hand-made figures, streaming against batch, no look-ahead, gaps and resets that show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pqdetect.errors import FeatureError, FeedError
from pqdetect.features import (
    FEATURE_NAMES,
    FIVE_WINDOW_NAMES,
    HISTORY_WINDOWS,
    MULTI_SCALE_NAMES,
    FeatureStream,
    features_many,
    five_window_many,
    multi_scale_many,
    window_features,
)
from pqdetect.feed import DELTAS, FIELDS, WINDOW_BINS, WindowInput, column, places, unknown_deltas


def draw_counts(seed: int, windows: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.exponential(1.0, (windows, 1, len(FIELDS))), (windows, WINDOW_BINS, len(FIELDS)))
    counts[rng.random(windows) < 0.2] = 0
    counts[:, :, column("rx_bytes_sq")] = counts[:, :, column("rx_bytes")] ** 2
    return counts.astype(np.int64)


def draw_deltas(seed: int, windows: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed + 1)
    deltas = rng.poisson(20, (windows, len(DELTAS))).astype(np.float64)
    deltas[rng.random(windows) < 0.3] = np.nan
    return deltas


def same(one: NDArray[np.floating], other: NDArray[np.floating]) -> bool:
    return bool(np.array_equal(one, other, equal_nan=True))


def test_names_are_unique_and_fit_their_vectors() -> None:
    for names in (FEATURE_NAMES, FIVE_WINDOW_NAMES, MULTI_SCALE_NAMES):
        assert len(set(names)) == len(names)
    rows = features_many(draw_counts(1, 3), None)
    assert rows.shape == (3, len(FEATURE_NAMES)) and rows.dtype == np.float32
    assert multi_scale_many(rows).shape == (3, len(MULTI_SCALE_NAMES))
    assert five_window_many(rows).shape == (3, len(FIVE_WINDOW_NAMES))


def test_a_window_by_hand() -> None:
    counts = np.zeros((WINDOW_BINS, len(FIELDS)), dtype=np.int64)

    def put(place: int, **named: int) -> None:
        for name, value in named.items():
            counts[place, column(name)] += value

    put(0, rx_datagrams=2, rx_bytes=100, rx_bytes_sq=60**2 + 40**2, rx_data=1, bad_header=1)
    put(3, rx_datagrams=1, rx_bytes=50, rx_bytes_sq=2500, rx_data=1, sequence_gap=3)
    put(
        10,
        rx_datagrams=3,
        rx_bytes=150,
        rx_bytes_sq=7500,
        rx_data=1,
        rx_filled=1,
        rx_control=1,
        rx_keepalive=1,
    )
    put(20, tx_data=4, tx_bytes=240)
    put(21, tx_data=2, tx_bytes=120)
    deltas = np.array([9, 6 * 42 + 300 + 77, 1, 6, 600, 2, 3, 2], dtype=np.float64)
    row = dict(zip(FEATURE_NAMES, window_features(WindowInput(7, counts, deltas)).tolist(), strict=True))
    assert row["rx_datagrams"] == 6 and row["refused"] == 1 and row["authentic"] == 5
    assert row["refused_share"] == pytest.approx(1 / 6)
    assert row["missing"] == 2 and row["missing_share"] == pytest.approx(2 / 7)
    assert row["rx_size_mean"] == 50
    assert row["rx_size_std"] == pytest.approx(np.std([60, 40, 50, 50, 50, 50]), rel=1e-5)
    assert row["tx_size_mean"] == 60 and row["tx_bins"] == 2 and row["tx_peak"] == 4
    assert row["rx_bins"] == 3 and row["rx_peak"] == 3 and row["quiet_bins"] == 19
    by_bin = [2, 1, 3] + [0] * 27
    assert row["rx_dispersion"] == pytest.approx(np.var(by_bin) / np.mean(by_bin), rel=1e-5)
    assert row["refused_bins"] == 1 and row["refused_peak"] == 1
    assert row["if_excess_packets"] == 3 and row["if_excess_bytes"] == 77
    assert row["if_rx_dropped"] == 1 and row["udp_no_ports"] == 3 and row["udp_errors"] == 2


def test_what_is_unknown_is_nan_and_nothing_else() -> None:
    empty = np.zeros((WINDOW_BINS, len(FIELDS)), dtype=np.int64)
    row = dict(zip(FEATURE_NAMES, window_features(WindowInput(0, empty, unknown_deltas())), strict=True))
    unknown = {name for name, value in row.items() if np.isnan(value)}
    assert unknown == {
        "rx_size_mean",
        "rx_size_std",
        "tx_size_mean",
        "if_excess_packets",
        "if_excess_bytes",
        "if_rx_dropped",
        "udp_no_ports",
        "udp_errors",
    }
    assert row["quiet_bins"] == WINDOW_BINS and row["refused_share"] == row["missing_share"] == 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), windows=st.integers(1, 130))
def test_streaming_equals_batch(seed: int, windows: int) -> None:
    counts, deltas = draw_counts(seed, windows), draw_deltas(seed, windows)
    rng = np.random.default_rng(seed)
    came = rng.random(windows) < 0.9
    came[0] = True
    rows = features_many(counts, deltas)
    rows[~came] = np.nan
    scales, fives = multi_scale_many(rows), five_window_many(rows)
    stream = FeatureStream()
    for k in np.flatnonzero(came).tolist():
        row = stream.push(WindowInput(1000 + k, counts[k], deltas[k]))
        assert same(row, rows[k]) and same(stream.latest, rows[k])
        assert same(stream.multi_scale(), scales[k])
        assert same(stream.five_window(), fives[k])
    last = int(np.flatnonzero(came)[-1])
    sequence, known = stream.sequence()
    assert same(sequence[HISTORY_WINDOWS - last - 1 :], rows[: last + 1])
    assert known[HISTORY_WINDOWS - last - 1 :].tolist() == came[: last + 1].tolist()
    assert not known[: HISTORY_WINDOWS - last - 1].any()
    assert stream.pushed == stream.history_windows == came.sum()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 119))
def test_no_row_looks_ahead(seed: int, cut: int) -> None:
    counts, deltas = draw_counts(seed, 120), draw_deltas(seed, 120)
    other = counts.copy()
    other[cut:] = draw_counts(seed + 77, 120 - cut) + 5
    for many in (multi_scale_many, five_window_many):
        one, two = many(features_many(counts, deltas)), many(features_many(other, deltas))
        assert same(one[:cut], two[:cut])
        assert not same(one[cut:], two[cut:])


def test_scales_count_only_what_is_known() -> None:
    counts = np.zeros((8, WINDOW_BINS, len(FIELDS)), dtype=np.int64)
    counts[:, 0, column("rx_datagrams")] = counts[:, 0, column("bad_header")] = range(1, 9)
    rows = features_many(counts, None)
    rows[5] = np.nan
    place = {name: number for number, name in enumerate(MULTI_SCALE_NAMES)}
    last = multi_scale_many(rows)[-1]
    assert last[place["bad_header"]] == 8
    assert last[place["bad_header_mean5"]] == pytest.approx((4 + 5 + 7 + 8) / 4)
    assert last[place["bad_header_mean20"]] == pytest.approx((1 + 2 + 3 + 4 + 5 + 7 + 8) / 7)
    assert last[place["bad_header_peak100"]] == 8 and last[place["refused_run20"]] == 1
    assert last[place["known5"]] == 4 and last[place["known100"]] == 7
    assert np.isnan(last[place["if_rx_dropped_mean20"]])


def test_a_gap_is_unknown_and_a_long_one_starts_anew() -> None:
    counts, deltas = draw_counts(3, 3), draw_deltas(3, 3)
    stream = FeatureStream()
    stream.push(WindowInput(10, counts[0], deltas[0]))
    stream.push(WindowInput(13, counts[1], deltas[1]))
    assert stream.sequence()[1][-4:].tolist() == [True, False, False, True]
    assert (stream.pushed, stream.resets, stream.last_k) == (2, 0, 13)
    stream.push(WindowInput(13 + HISTORY_WINDOWS, counts[2], deltas[2]))
    assert (stream.pushed, stream.resets, stream.history_windows) == (1, 1, 1)
    stream.reset()
    assert (stream.pushed, stream.resets, stream.last_k) == (0, 2, None)
    assert not stream.sequence()[1].any()
    with pytest.raises(FeatureError):
        _ = stream.latest


def test_a_window_out_of_order_is_refused() -> None:
    counts, deltas = draw_counts(4, 1)[0], draw_deltas(4, 1)[0]
    stream = FeatureStream()
    stream.push(WindowInput(5, counts, deltas))
    for k in (5, 4):
        with pytest.raises(FeatureError, match=f"window {k} after window 5"):
            stream.push(WindowInput(k, counts, deltas))


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(FeatureError):
        features_many(np.zeros((2, 29, len(FIELDS)), dtype=np.int64), None)
    with pytest.raises(FeatureError):
        features_many(np.zeros((2, WINDOW_BINS, len(FIELDS)), dtype=np.int64), np.zeros((3, len(DELTAS))))
    with pytest.raises(FeatureError):
        multi_scale_many(np.zeros((2, 3), dtype=np.float32))
    with pytest.raises(FeatureError):
        FeatureStream().push_row(1, np.zeros(3, dtype=np.float32))
    with pytest.raises(FeedError):
        WindowInput(1, np.zeros((3, 3), dtype=np.int64), unknown_deltas())


def test_fields_are_found_by_name() -> None:
    shuffled = ["something_new", *reversed(FIELDS)]
    assert [shuffled[place] for place in places(shuffled)] == list(FIELDS)
    with pytest.raises(FeedError, match="lack rx_filled, rx_control"):
        places([name for name in FIELDS if name not in ("rx_filled", "rx_control")])
