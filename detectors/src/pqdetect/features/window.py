"""One row of features from one window: sums, shares, shape within the window, the host's own counters."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.errors import FeatureError
from pqdetect.feed import DELTAS, FIELDS, WINDOW_BINS, Floats, WindowInput

SCHEMA: Final = "pqdetect/features/v1"
Row = NDArray[np.float32]

SUMS: Final = (
    "rx_datagrams", "rx_bytes", "rx_data", "rx_keepalive", "rx_control", "bad_header", "unknown_index",
    "auth_failed", "replay", "old_epoch", "sequence_gap", "rx_filled", "new_source", "queue_full",
    "tx_data", "tx_bytes",
)  # fmt: skip
"""Taken over from the bins: counts in the window."""

DERIVED: Final = (
    "refused",  # datagrams dropped for whatever reason
    "refused_share",  # of the datagrams delivered, 0 to 1; 0 without any
    "authentic",  # packets that opened
    "missing",  # sequences skipped and not filled since, at least 0
    "missing_share",  # missing of (missing + authentic), 0 to 1; 0 without any
    "rx_size_mean",  # bytes a datagram; NaN without any
    "rx_size_std",
    "tx_size_mean",  # sealed bytes a data packet; NaN without any
    "rx_bins",  # bins in which something came, of 30
    "rx_peak",  # most datagrams in one bin
    "rx_dispersion",  # variance over mean of datagrams a bin: 1 is Poisson, 0 even or nothing
    "refused_bins",  # bins with a refused datagram
    "refused_peak",
    "quiet_bins",  # bins since the last authentic packet at the window's end, 30: none in it
    "tx_bins",
    "tx_peak",
    "if_excess_packets",  # what the interface received beyond the socket's datagrams, at least 0
    "if_excess_bytes",  # the same in bytes, 42 bytes of headers a datagram taken off
    "if_rx_dropped",
    "udp_no_ports",
    "udp_errors",  # in_errors, receive-buffer errors among them
)
FEATURE_NAMES: Final = SUMS + DERIVED
"""Columns of every row, in their order."""

FRAME_OVERHEAD_BYTES: Final = 42
"""Ethernet (14), IPv4 (20) and UDP (8) headers: /proc/net/dev counts them."""

_AT: Final = {name: place for place, name in enumerate(FIELDS)}
_DELTA: Final = {name: place for place, name in enumerate(DELTAS)}
_SUM_COLUMNS: Final = [_AT[name] for name in SUMS]
_REFUSED: Final = [
    _AT[name] for name in ("bad_header", "unknown_index", "auth_failed", "replay", "old_epoch")
]
_AUTHENTIC: Final = [_AT[name] for name in ("rx_data", "rx_keepalive", "rx_control")]


def features_many(counts: NDArray[np.integer], deltas: Floats | None) -> Row:
    """(K, len(FEATURE_NAMES)) float32 from counts (K, 30, len(FIELDS)) and deltas (K, len(DELTAS)) or None.

    Row k is what `window_features` gives for window k alone. Raises FeatureError for other shapes.
    """
    if counts.ndim != 3 or counts.shape[1:] != (WINDOW_BINS, len(FIELDS)):
        raise FeatureError(f"counts are {counts.shape}, not (K, {WINDOW_BINS}, {len(FIELDS)})")
    rows = len(counts)
    if deltas is None:
        deltas = np.full((rows, len(DELTAS)), np.nan)
    if deltas.shape != (rows, len(DELTAS)):
        raise FeatureError(f"deltas are {deltas.shape}, not ({rows}, {len(DELTAS)})")
    sums = counts.sum(axis=1, dtype=np.float64)
    by_name = {name: sums[:, place] for name, place in _AT.items()}
    rx_bins = counts[:, :, _AT["rx_datagrams"]]
    refused_bins = counts[:, :, _REFUSED].sum(axis=2)
    authentic_bins = counts[:, :, _AUTHENTIC].sum(axis=2)
    tx_bins = counts[:, :, _AT["tx_data"]]
    datagrams, refused = by_name["rx_datagrams"], refused_bins.sum(axis=1, dtype=np.float64)
    authentic = authentic_bins.sum(axis=1, dtype=np.float64)
    missing = np.maximum(0.0, by_name["sequence_gap"] - by_name["rx_filled"])
    size_mean = _ratio(by_name["rx_bytes"], datagrams, np.nan)
    size_square = _ratio(by_name["rx_bytes_sq"], datagrams, np.nan)
    bin_mean = datagrams / WINDOW_BINS
    spread = np.square(rx_bins, dtype=np.float64).mean(axis=1) - np.square(bin_mean)
    derived = (
        refused,
        _ratio(refused, datagrams, 0.0),
        authentic,
        missing,
        _ratio(missing, missing + authentic, 0.0),
        size_mean,
        np.sqrt(np.maximum(0.0, size_square - np.square(size_mean))),
        _ratio(by_name["tx_bytes"], by_name["tx_data"], np.nan),
        (rx_bins > 0).sum(axis=1),
        rx_bins.max(axis=1),
        _ratio(np.maximum(0.0, spread), bin_mean, 0.0),
        (refused_bins > 0).sum(axis=1),
        refused_bins.max(axis=1),
        _quiet_bins(authentic_bins),
        (tx_bins > 0).sum(axis=1),
        tx_bins.max(axis=1),
        _excess(deltas[:, _DELTA["if_rx_packets"]], datagrams + by_name["queue_full"]),
        _excess(deltas[:, _DELTA["if_rx_bytes"]], by_name["rx_bytes"] + FRAME_OVERHEAD_BYTES * datagrams),
        deltas[:, _DELTA["if_rx_dropped"]],
        deltas[:, _DELTA["udp_no_ports"]],
        deltas[:, _DELTA["udp_in_errors"]],
    )
    return np.concatenate([sums[:, _SUM_COLUMNS], np.stack(derived, axis=1)], axis=1).astype(np.float32)


def window_features(window: WindowInput) -> Row:
    """(len(FEATURE_NAMES),) float32 of one window."""
    row: Row = features_many(window.counts[None], window.deltas[None])[0]
    return row


def _ratio(above: Floats, below: Floats, otherwise: float) -> Floats:
    """above / below, and `otherwise` where below is 0."""
    known = below > 0
    return np.where(known, above / np.where(known, below, 1.0), otherwise)


def _excess(got: Floats, explained: Floats) -> Floats:
    """What is not explained; NaN stays NaN."""
    return np.maximum(got - explained, 0.0)


def _quiet_bins(authentic: NDArray[np.integer]) -> NDArray[np.integer]:
    """Bins after the last one that holds an authentic packet; 30 when none does."""
    backwards = authentic[:, ::-1] > 0
    return np.where(backwards.any(axis=1), backwards.argmax(axis=1), WINDOW_BINS)
