"""Rows of features from a cell's bins, in plain Python: what a detector of trees was given.

Schema `pqdetect/features/v1` (docs/DETECTORS.md), written down a second time: of the detector's package it
takes the number of bins in a window alone. Sums are whole numbers and every other step is one rounding of a
double, so that rows are equal to the detector's to the last bit.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pqdetect.service.verdict import BINS
from pqevidence.record.raw import Json, RawDataError

#: counts of a bin by name, in the order of a row's first columns
SUMS = (
    "rx_datagrams", "rx_bytes", "rx_data", "rx_keepalive", "rx_control", "bad_header", "unknown_index",
    "auth_failed", "replay", "old_epoch", "sequence_gap", "rx_filled", "new_source", "queue_full",
    "tx_data", "tx_bytes",
)  # fmt: skip
#: counted, too, and no column of a row
SQUARES = "rx_bytes_sq"
REFUSED = ("bad_header", "unknown_index", "auth_failed", "replay", "old_epoch")
AUTHENTIC = ("rx_data", "rx_keepalive", "rx_control")
#: Ethernet, IPv4 and UDP headers of a datagram
HEADER_BYTES = 42
WIDTH = len(SUMS) + 21
NAN = math.nan
Row = tuple[float, ...]
#: what a window that the detector never judged is to it
UNKNOWN: Row = (NAN,) * WIDTH


@dataclass(frozen=True)
class Bins:
    """A cell's bins.ndjson. missing: fields that features need and the header does not name; counts: by bin
    and field; moved: by window and counter, what the host's own counters moved by."""

    missing: tuple[str, ...]
    counts: dict[int, dict[str, int]]
    moved: dict[int, dict[str, int]]

    @property
    def windows(self) -> range:
        """Numbers of the windows that were recorded from end to end; empty where there is none."""
        return range(min(self.moved), max(self.moved) + 1) if self.moved else range(0)

    def row(self, k: int) -> Row:
        """(37,) features of window `k` in single precision; OverflowError beyond its range."""
        held = [self.counts.get(number) for number in range(k * BINS, (k + 1) * BINS)]
        return tuple(_single(value) for value in _features(held, self.moved.get(k, {})))


def read_bins(path: Path) -> Bins:
    """A cell's bins. Raises RawDataError for a line that is none, OSError."""
    places: dict[str, int] = {}
    missing: tuple[str, ...] = (*SUMS, SQUARES)
    counts: dict[int, dict[str, int]] = {}
    moved: dict[int, dict[str, int]] = {}
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                told = json.loads(text)
                if isinstance(told, list):
                    row = told[1]
                    counts[int(told[0])] = {name: int(row[place]) for name, place in places.items()}
                elif "fields" in told:
                    fields = list(told["fields"])
                    places = {name: fields.index(name) for name in (*SUMS, SQUARES) if name in fields}
                    missing = tuple(name for name in (*SUMS, SQUARES) if name not in fields)
                elif "k" in told:
                    moved[int(told["k"])] = _moved(told)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                raise RawDataError(path, f"line {number}: {error!r}") from error
    return Bins(missing, counts, moved)


def _moved(told: Json) -> dict[str, int]:
    return {
        f"{prefix}_{name}": int(value)
        for block, prefix in (("interface", "if"), ("udp", "udp"))
        for name, value in (told.get(block) or {}).items()
    }


def five_window(rows: Sequence[Row]) -> Row:
    """The last five rows, newest first."""
    return tuple(value for row in rows for value in row)


def _features(held: Sequence[dict[str, int] | None], moved: dict[str, int]) -> list[float]:
    there = [bin_ for bin_ in held if bin_]
    total = {name: sum(bin_[name] for bin_ in there) for name in (*SUMS, SQUARES)}
    rx = [bin_["rx_datagrams"] for bin_ in there]
    tx = [bin_["tx_data"] for bin_ in there]
    refused_bins = [sum(bin_[name] for name in REFUSED) for bin_ in there]
    authentic_bins = [sum(bin_[name] for name in AUTHENTIC) if bin_ else 0 for bin_ in held]
    datagrams, refused, authentic = total["rx_datagrams"], sum(refused_bins), sum(authentic_bins)
    missing = max(0, total["sequence_gap"] - total["rx_filled"])
    size_mean = _ratio(total["rx_bytes"], datagrams, NAN)
    size_spread = _ratio(total[SQUARES], datagrams, NAN) - size_mean * size_mean
    bin_mean = datagrams / BINS
    spread = sum(count * count for count in rx) / BINS - bin_mean * bin_mean
    quiet = next((age for age, count in enumerate(reversed(authentic_bins)) if count > 0), BINS)
    excess = _excess(moved)
    return [
        *(float(total[name]) for name in SUMS),
        refused,
        _ratio(refused, datagrams, 0.0),
        authentic,
        missing,
        _ratio(missing, missing + authentic, 0.0),
        size_mean,
        NAN if math.isnan(size_spread) else math.sqrt(max(0.0, size_spread)),
        _ratio(total["tx_bytes"], total["tx_data"], NAN),
        sum(count > 0 for count in rx),
        max(rx, default=0),
        _ratio(max(0.0, spread), bin_mean, 0.0),
        sum(count > 0 for count in refused_bins),
        max(refused_bins, default=0),
        quiet,
        sum(count > 0 for count in tx),
        max(tx, default=0),
        excess("if_rx_packets", datagrams + total["queue_full"]),
        excess("if_rx_bytes", total["rx_bytes"] + HEADER_BYTES * datagrams),
        *(float(moved.get(name, NAN)) for name in ("if_rx_dropped", "udp_no_ports", "udp_in_errors")),
    ]


def _excess(moved: dict[str, int]) -> Callable[[str, int], float]:
    """What a counter of the host moved by beyond what is explained, at least 0; NaN where it was not read."""
    return lambda name, explained: float(max(moved[name] - explained, 0)) if name in moved else NAN


def _ratio(above: float, below: float, otherwise: float) -> float:
    return above / below if below > 0 else otherwise


def _single(value: float) -> float:
    """The nearest number of single precision. Raises OverflowError beyond its range."""
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded
