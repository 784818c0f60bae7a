"""What each detector's ATTACK score is worth at every threshold: attacked windows found, quiet ones named.

By window and by the score alone, without the rule that makes an alarm of several windows. A window counts as
attacked while a visible attack lasts in it, as quiet where an alarm in it would be false; what lies between
is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from pqdetect.service.verdict import WINDOW_NS
from pqevidence.analysis.column import Column, names
from pqevidence.analysis.load import BundleData, Cell, read_ndjson
from pqevidence.analysis.table import Table
from pqevidence.measures.detector.record import episodes_of
from pqevidence.measures.detector.watched import alarm_is_caused, due_windows_of, watched_cells

COLUMNS = (
    Column("detector", "detector"),
    Column("n_cells", "cells that it watched"),
    Column("attacked_count", "windows in which a visible attack lasted"),
    Column("quiet_count", "windows in which an alarm would be false"),
    Column("area", "area under the curve"),
    Column("threshold", "score of this corner; none at the origin"),
    Column("found_pct", "attacked windows at or above it"),
    Column("false_pct", "quiet windows at or above it"),
)
#: (threshold, attacked windows at or above it, quiet ones at or above it); no threshold at the origin
Corner = tuple[float | None, int, int]


def roc_table(bundle: BundleData) -> Table:
    """detector_roc.csv: the corners of each detector's curve; none of one without both kinds of windows."""
    table = Table("detector_roc", names(COLUMNS))
    for detector, cells in watched_cells(bundle).items():
        windows = [window for cell in cells for window in _windows(cell)]
        attacked = sum(attack for _, attack in windows)
        quiet = len(windows) - attacked
        if not attacked or not quiet:
            continue
        found = corners(windows)
        for threshold, hits, errors in found:
            table.add(
                detector=detector,
                n_cells=len(cells),
                attacked_count=attacked,
                quiet_count=quiet,
                area=area(found),
                threshold=threshold,
                found_pct=100.0 * hits / attacked,
                false_pct=100.0 * errors / quiet,
            )
    return table


def _windows(cell: Cell) -> list[tuple[float, bool]]:
    """(score, attacked) of each window of the session that has a verdict and counts as one or the other."""
    due = due_windows_of(cell)
    episodes = episodes_of(read_ndjson(cell.directory / "attack.ndjson"))
    found = []
    for line in read_ndjson(cell.directory / "detector.ndjson"):
        k = int(line["k"])
        if line["state"] != "ready" or k not in due:
            continue
        attacked = any(on < (k + 1) * WINDOW_NS and k * WINDOW_NS < off for on, off in episodes)
        if attacked or not alarm_is_caused(k, episodes):
            found.append((float(line["attack_score"]), attacked))
    return found


def corners(windows: Iterable[tuple[float, bool]]) -> list[Corner]:
    """The curve's corners from the highest threshold to the lowest; equal scores are one step, and a point on
    a straight line between two others is none."""
    steps: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for score, attacked in windows:
        steps[score][not attacked] += 1
    found: list[Corner] = [(None, 0, 0)]
    for score in sorted(steps, reverse=True):
        hits, errors = found[-1][1] + steps[score][0], found[-1][2] + steps[score][1]
        if len(found) > 1 and _straight(found[-2], found[-1], hits, errors):
            found.pop()
        found.append((score, hits, errors))
    return found


def _straight(first: Corner, second: Corner, hits: int, errors: int) -> bool:
    (_, hits_1, errors_1), (_, hits_2, errors_2) = first, second
    return (hits_2 - hits_1) * (errors - errors_2) == (hits - hits_2) * (errors_2 - errors_1)


def area(found: list[Corner]) -> float | None:
    """Area under the curve: how often an attacked window scores above a quiet one, ties as one half."""
    _, attacked, quiet = found[-1]
    if not attacked or not quiet:
        return None
    doubled = sum((right - left) * (low + high) for (_, low, left), (_, high, right) in pairwise(found))
    return doubled / (2 * attacked * quiet)
