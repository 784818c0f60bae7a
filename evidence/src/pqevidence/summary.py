"""The end of a campaign in a few lines: how long until a link, what was lost, how late it came, what is odd.

Every figure stands in the bundle's analysis tables and in its report; nothing is computed here but the sum of
counts and which row is the least or the most.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from pqbase.documents import texts_of
from pqbase.stats import TOO_FEW
from pqevidence.analysis.load import Cell
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import significant
from pqevidence.terminal import COLUMNS

MOST_LINES = 10
#: lines that say what is odd, where there is much of it; the report names all
_MOST_ODD = 4
#: verdicts that are told with a reason, worst first
_TOLD = {"fail": "failed", "invalid": "invalid", "not-run": "not run", "unsupported": "unsupported"}
_SESSION = "traffic"


def closing_lines(root: Path) -> list[str]:
    """Lines of at most 80 columns, ten at most, of a bundle that has its tables; [] of one without them.

    Raises LabError where a table or record is damaged. Nothing timed is said where no time is a claim.
    """
    if not (root / "data" / "analysis" / "by_suite.csv").is_file():
        return []
    source = Source(root)
    odd = _odd(source)
    if len(odd) > _MOST_ODD:
        odd = [*odd[: _MOST_ODD - 1], f"odd: {len(odd) - _MOST_ODD + 1} more, see the report"]
    measured = [*_loss(source), *([] if source.bundle.untimed else _latency(source))]
    room = MOST_LINES - len(odd) - len(measured)
    handshakes = [] if source.bundle.untimed else _handshakes(source, room)
    return [_cut(line) for line in (*handshakes, *measured, *odd)]


def _cut(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1].rstrip() + "…"


# ---------------------------------------------------------------------- handshakes


def _handshakes(source: Source, room: int) -> list[str]:
    """A heading, then the suites by their median: all that fit, else the fastest and the slowest."""
    rows, under = source.of_one_condition(source.rows("by_suite"))
    rows = sorted(rows, key=lambda row: float(row["median_ms"]))
    if not rows:
        return []
    counts = sorted({int(row["n_cells"]) for row in rows})
    cells = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    of = f"median of {cells} cell{'' if counts[-1] == 1 else 's'}"
    begin = f"cold handshake, ms{_kind(source)}{under}: "
    # the longest that has room
    ends = (f"{of}, 95 % interval of the mean", f"{of}, 95 % interval", of)
    head = begin + next((end for end in ends if len(begin + end) <= COLUMNS), of)
    lines = room - 1
    if len(rows) <= lines:
        return [head, *_suites(rows)]
    slowest = (lines - 1) // 2
    fastest = lines - 1 - slowest
    chosen = _suites([*rows[:fastest], *rows[len(rows) - slowest :]])
    between = f"  … {len(rows) - fastest - slowest} suites between them"
    return [head, *chosen[:fastest], between, *chosen[fastest:]]


def _suites(rows: list[RawRow]) -> list[str]:
    """Suite, median and interval in columns."""
    names = [row["suite_id"].removeprefix("cs-") for row in rows]
    medians = [significant(float(row["median_ms"])) for row in rows]
    wide, high = max(map(len, names)), max(map(len, medians))
    return [
        f"  {name:<{wide}}  {median:>{high}}  {_interval(row)}"
        for name, median, row in zip(names, medians, rows, strict=True)
    ]


def _interval(row: RawRow) -> str:
    if not row["interval_low_ms"]:
        return f"({TOO_FEW})"
    low, high = (significant(float(row[f"interval_{end}_ms"])) for end in ("low", "high"))
    return f"{low} – {high}"


def _kind(source: Source) -> str:
    return " (synthetic)" if source.ring == "sim" else ""


# ---------------------------------------------------------------------- datagrams


def _loss(source: Source) -> list[str]:
    rows = [row for row in source.rows("traffic") if row["window"] == _SESSION]
    sent = sum(int(row["sent_count"]) for row in rows)
    lost = sum(int(row["lost_count"]) for row in rows)
    if not sent:
        return []
    told = f"lost: {lost:,} of {sent:,} datagrams"
    if not lost:
        return [told]
    most = max((row for row in rows if row["loss_pct"]), key=lambda row: float(row["loss_pct"]))
    where = most["condition"] if source.many_conditions else most["suite_id"].removeprefix("cs-")
    return [f"{told}; at most {significant(float(most['loss_pct']))} % ({where})"]


def _latency(source: Source) -> list[str]:
    """p50 and p99 of the session's datagrams, a line a direction: the least and the most of passed cells."""
    rows, under = source.of_one_condition(source.rows("traffic"))
    lines = []
    for direction, words in (("down", "drone → GCS"), ("up", "GCS → drone")):
        cells = [
            row
            for row in rows
            if (row["window"], row["direction"], row["verdict"]) == (_SESSION, direction, "pass")
            and row["latency_p50_ms"]
        ]
        if cells:
            p50, p99 = (_range(cells, f"latency_{name}_ms") for name in ("p50", "p99"))
            unit = "" if p99 == TOO_FEW else " ms"
            told = [f"latency {words}{_kind(source)}{of}: p50 {p50}, p99 {p99}{unit}" for of in (under, "")]
            lines.append(told[len(told[0]) > COLUMNS])
    return lines


def _range(rows: list[RawRow], column: str) -> str:
    """The least and the most of a column, ms; where too few datagrams carry a tail, the table has none."""
    known = sorted(float(row[column]) for row in rows if row[column])
    ends = dict.fromkeys(significant(value) for value in (*known[:1], *known[-1:]))
    return "–".join(ends) or TOO_FEW


# ---------------------------------------------------------------------- what is odd


def _odd(source: Source) -> list[str]:
    """One line a kind of oddity, gravest first; one that says that there is none."""
    cells = source.bundle.cells
    lines = [f"odd: no time counts: {reason}" for reason in source.bundle.untimed]
    for verdict, words in _TOLD.items():
        lines += _told([cell for cell in cells if cell.verdict == verdict], words, _reason)
    again = [cell for cell in cells if next(_repeated(cell), None) is not None]
    lines += _told(again, "measured again", lambda cell: next(_repeated(cell)))
    lines += [f"odd: {text}" for text in texts_of(source.bundle.run, "warnings", [])]
    return lines or ["odd: nothing; no cell failed, was invalid or was measured again"]


def _told(cells: list[Cell], what: str, reason: Callable[[Cell], str]) -> list[str]:
    if not cells:
        return []
    first = f"{reason(cells[0])} ({cells[0].suite_id.removeprefix('cs-')})"
    if len(cells) == 1:
        return [f"odd: 1 cell {what}: {first}"]
    return [f"odd: {len(cells)} cells {what}, the first: {first}"]


def _reason(cell: Cell) -> str:
    return str(cell.record.get("reason") or "no reason given")


def _repeated(cell: Cell) -> Iterator[str]:
    """Why each earlier attempt of a cell did not count, as the attempt's own record says."""
    for path in sorted(cell.directory.glob("attempt-*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        yield str(record.get("reason") or f"it was {record.get('verdict')}")
