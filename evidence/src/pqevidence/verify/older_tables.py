"""Tables of a version that took statistics otherwise, held against today's cell by cell.

Columns that both work out alike are equal. Of the others: a tail lies between the values that it is of, an
interval around its estimate, a share of the processor near today's, the ratio of an effect is that of its
pairs. Standard errors, tests and verdicts of such a version are its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

Row = Mapping[str, str]
Rows = Sequence[Row]
#: tables are written with nine digits
ROUNDING: Final = 1e-7
SHARE_PCT, POINTS_PCT = 5.0, 2.0

_STATISTICS = {"p95_ms": ("min_ms", "max_ms"), "geomean_ms": ("min_ms", "max_ms"), "mad_ms": ("", "max_ms")}
_MEANS = ("system_mean_pct", "process_mean_pct", "container_mean_pct", "sampler_mean_pct")
#: table → column → columns of the same row between which it lies; "" is no bound
BETWEEN: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "handshakes": {
        f"{end}_wall_p95_ms": (f"{end}_wall_min_ms", f"{end}_wall_max_ms") for end in ("drone", "gcs")
    },
    "traffic": {f"latency_{tail}_ms": ("latency_p50_ms", "latency_max_ms") for tail in ("p95", "p99")},
    **{
        name: {
            **_STATISTICS,
            "interval_low_ms": ("", "geomean_ms"),
            "interval_high_ms": ("geomean_ms", ""),
            "interval_method": ("", ""),
        }
        for name in ("by_suite", "by_level", "by_family")
    },
    "cpu": {"n_samples": ("", ""), "reason": ("", "")},
    "comparison": {"measured": ("", ""), "measured_n": ("", ""), "known_wrong": ("", "")},
}
#: tables of which the rows are others: by these columns
_KEYS = {"comparison": ("quantity", "subject", "source")}
_OTHER_ROWS = ("primitives", "effects", "condition_effects", "checklist")
_WALL = "drone_wall_median_ms"
_PARTS = {
    "kem": ("kem_family", ("level", "sig", "aead")),
    "sig": ("sig_family", ("level", "kem", "aead")),
    "aead": ("aead", ("level", "kem", "sig")),
}


def compared(name: str, told: Rows, due: Rows, handshakes: Rows) -> Iterator[str]:
    """What is wrong with a table. told: as it lies there; due: today's; handshakes: today's, of each cell."""
    if name == "effects":
        yield from _effects(told, handshakes)
    if name == "primitives":
        yield from _primitives(told, due)
    if name in _OTHER_ROWS:
        return
    if len(told) != len(due):
        yield f"{name}.csv has {len(told)} rows, the files beneath it give {len(due)}"
        return
    for number, (theirs, ours) in enumerate(zip(told, due, strict=True), 1):
        for column, value in theirs.items():
            if (wrong := _cell(name, column, value, theirs, ours)) is not None:
                yield f"{name}.csv, row {number}: {column} {value}, {wrong}"


def checked_off(told: Rows, due: Rows) -> Iterator[str]:
    """What is wrong with the points of the checklist; how their evidence is worded is another matter."""
    points = [[(row["position"], row["name"], row["status"]) for row in rows] for rows in (told, due)]
    if len(told) != len(due):
        yield f"checklist.csv has {len(told)} points, {len(due)} are due"
    for theirs, ours in zip(*points, strict=False):
        if theirs != ours:
            said = f"checklist.csv: point {theirs[0]} {theirs[1]!r} {theirs[2]}"
            yield f"{said}, the bundle gives {ours[1]!r} {ours[2]}"


def _cell(name: str, column: str, value: str, theirs: Row, ours: Row) -> str | None:
    if column not in ours:
        return "and there is no such column"
    limits = BETWEEN.get(name, {}).get(column)
    if limits is not None:
        low, high = (_number(theirs.get(limit, "")) for limit in limits)
        told = _number(value)
        if told is None or (
            (low is None or low <= told * (1 + ROUNDING)) and (high is None or told <= high * (1 + ROUNDING))
        ):
            return None
        return f"beyond {' or '.join(limit for limit in limits if limit)} of its row"
    told, due = _number(value), _number(ours[column])
    if name == "cpu" and column in _MEANS:
        near = told is not None and due is not None
        reach = abs(due or 0.0) * SHARE_PCT / 100 + POINTS_PCT
        same = due is None or (near and abs((told or 0.0) - (due or 0.0)) <= reach)
    elif told is None or due is None:
        same = value == ours[column]
    else:
        same = math.isclose(told, due, rel_tol=ROUNDING, abs_tol=1e-12)
    return None if same else f"the files beneath it give {ours[column]}"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _primitives(told: Rows, due: Rows) -> Iterator[str]:
    """Rows of today are by condition, too: extremes and counts of all conditions together."""
    keys = ("algorithm", "operation", "host")
    bounds: tuple[tuple[str, Callable[[list[float]], float]], ...] = (
        ("min_ms", min),
        ("max_ms", max),
        ("n_handshakes", sum),
    )
    for row in told:
        mine = [each for each in due if all(each[key] == row[key] for key in keys)]
        for column, of_all in bounds:
            values = [value for each in mine if (value := _number(each[column])) is not None]
            value = _number(row[column])
            if not values or value is None or not math.isclose(value, of_all(values), rel_tol=ROUNDING):
                yield f"primitives.csv: {column} {row[column]} of {row['algorithm']} {row['operation']}"
        low, high = _number(row["min_ms"]), _number(row["max_ms"])
        for column in ("median_ms", "q1_ms", "q3_ms", "mean_ms"):
            value = _number(row[column])
            if value is not None and low is not None and high is not None and not low <= value <= high:
                yield f"primitives.csv: {column} {value} of {row['algorithm']} {row['operation']}"
        medians = [value for each in mine if (value := _number(each["median_ms"])) is not None]
        value = _number(row["median_ms"])
        if medians and value is not None and not _within(value, medians):
            yield f"primitives.csv: median_ms {value} of {row['algorithm']} {row['operation']}"


def _within(value: float, values: list[float]) -> bool:
    return min(values) * (1 - ROUNDING) <= value <= max(values) * (1 + ROUNDING)


def _effects(told: Rows, handshakes: Rows) -> Iterator[str]:
    """The ratio of an effect is the geometric mean over pairs of cells that differ in that part alone."""
    passed = [row for row in handshakes if row["verdict"] == "pass" and row[_WALL]]
    for row in told:
        column, agree = _PARTS[row["part"]]
        same = ("condition", "repetition", *agree)
        ours = {tuple(each[key] for key in same): each for each in passed if each[column] == row["reference"]}
        logs = [
            math.log(float(each[_WALL]) / float(ours[key][_WALL]))
            for each in passed
            if each[column] == row["family"] and (key := tuple(each[name] for name in same)) in ours
        ]
        ratio = _number(row["ratio"])
        if row["n_pairs"] != str(len(logs)):
            yield f"effects.csv: {row['n_pairs']} pairs of {row['family']}, there are {len(logs)}"
        elif ratio is not None and logs:
            due = math.exp(sum(logs) / len(logs))
            if not math.isclose(ratio, due, rel_tol=1e-6):
                yield f"effects.csv: ratio {ratio:.6g} of {row['family']}, its pairs give {due:.6g}"
            low, high = _number(row["low_ratio"]), _number(row["high_ratio"])
            if low is not None and high is not None and not low <= ratio <= high:
                yield f"effects.csv: {row['family']}, an interval without its estimate"
