"""What a report says first: what was compared, how long each suite takes, what packets meet, what is odd."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from pqbase.documents import texts_of
from pqbase.stats import TOO_FEW
from pqevidence.analysis.load import Cell, read_json
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import to_float
from pqevidence.record.raw import attempts_in
from pqevidence.report.blocks import Block, Figure, Paragraphs, Section
from pqevidence.report.figures import FAMILY_LEGEND
from pqevidence.report.layouts import Drawing
from pqevidence.report.ranks import Rank, Ranking, narrow, wide
from pqevidence.report.sections.drift import drift_findings
from pqevidence.report.source import RawRow, Source, anchor
from pqevidence.report.svg import counted, significant

#: as many rows fit on a first screen of 900 pixels
MOST_ROWS = 14
#: of these, so many are the fastest where there are more
_FASTEST = 9
#: sentences on what is odd; the findings name everything
_MOST_ODD = 5
_SESSION = "traffic"
_ABSENT = "–"
HEADS = ("lost", "p50, ms", "p99, ms")
_TOLD = {
    "fail": "failed",
    "invalid": "is invalid",
    "not-run": "did not run",
    "unsupported": "is not supported here",
}


def answer(source: Source) -> Section:
    """Sentence, drawing, oddities; no drawing where nothing passed or no time is a claim, but the reason."""
    rows = source.rows("by_suite")
    parts: list[Block] = [Paragraphs("compared", (_compared(source, rows),))]
    if rows and not source.bundle.untimed:
        parts.append(_figure(source, rows))
    parts.append(Paragraphs("odd", tuple(_odd(source)), as_list=True))
    return Section("answer", "In short", tuple(parts))


# ---------------------------------------------------------------------- what was compared


def _compared(source: Source, rows: list[RawRow]) -> str:
    cells = source.bundle.cells
    suites = len({cell.suite_id for cell in cells})
    names = list(dict.fromkeys(cell.condition for cell in cells))
    under = f"condition {names[0]}" if len(names) == 1 else counted(len(names), "condition")
    head = f"{counted(suites, 'suite')} under {under}, {_times(source.repetitions)}"
    passed = source.verdict_counts["pass"]
    told = f"{head}: {passed:,} of {counted(len(cells), 'cell')} passed."
    if not rows:
        return f"{told} There is no time to show."
    if source.bundle.untimed:
        return f"{told} Times of these hosts are no claim, so suites are not ranked."
    shown, under = _ranked(source, rows)
    ordered = sorted(shown, key=_time)
    first, last = ordered[0], ordered[-1]
    virtual = " in virtual time" if source.ring == "sim" else ""
    if first is last:
        n = counted(int(first["n_cells"]), "cell")
        return f"{told} A link takes {_ms(first)}{virtual}, the median of {n}."
    if under:
        return (
            f"{told} Under condition {first['condition']} the shortest time to a link{virtual} is "
            f"{_ms(first)}, of {_name(first)}; the longest is {_ms(last)}, of {_name(last)} (medians)."
        )
    return (
        f"{told} The shortest time to a link{virtual} is {_ms(first)}, of {_said(source, first)}; the "
        f"longest is {_ms(last)}, of {_said(source, last)} (medians)."
    )


def _ranked(source: Source, rows: list[RawRow]) -> tuple[list[RawRow], str]:
    """The rows that are ranked, and the words that say which: all, or where one screen cannot hold them those
    of one condition."""
    if len(rows) > MOST_ROWS and source.many_conditions:
        return source.of_one_condition(rows)
    return rows, ""


def _said(source: Source, row: RawRow) -> str:
    name = _name(row)
    return f"{name} under condition {row['condition']}" if source.many_conditions else name


def _times(repetitions: int) -> str:
    return {1: "once", 2: "twice"}.get(repetitions, f"{repetitions} times") + " each"


def _time(row: RawRow) -> tuple[float, str, str]:
    return float(row["median_ms"]), row["suite_id"], row["condition"]


def _ms(row: RawRow) -> str:
    return f"{significant(float(row['median_ms']))} ms"


def _name(row: RawRow, *, with_condition: bool = False) -> str:
    name = row["suite_id"].removeprefix("cs-")
    return f"{name}, {row['condition']}" if with_condition else name


# ---------------------------------------------------------------------- the drawing


def _figure(source: Source, rows: list[RawRow]) -> Figure:
    shown, under = _ranked(source, rows)
    named = source.many_conditions and not under
    shown = sorted(shown, key=_time)
    omitted = None
    if len(shown) > MOST_ROWS:
        omitted = (_FASTEST, len(shown) - MOST_ROWS)
        shown = [*shown[:_FASTEST], *shown[len(shown) - (MOST_ROWS - _FASTEST) :]]
    beside, spreads, first = _traffic(source), _spreads(source), _first_cells(source)
    beside = beside if any(_key(row) in beside for row in shown) else {}
    heads = HEADS if beside else ()  # a run of handshakes alone has no datagrams
    ranking = Ranking(
        tuple(
            Rank(
                _name(row, with_condition=named),
                _family(first[_key(row)]),
                float(row["median_ms"]),
                _interval(row),
                spreads.get(_key(row)),
                beside.get(_key(row), (_ABSENT,) * len(heads)),
                anchor(first[_key(row)].cell_id),
            )
            for row in shown
        ),
        heads,
        "cold handshake at the drone, ms (log scale)",
        omitted=omitted,
    )
    families = {row.family for row in ranking.rows}
    lines = ("95 % interval of the mean", "least to greatest single handshake, where cells are too few")
    used = [any(row.interval for row in ranking.rows), not all(row.interval for row in ranking.rows)]
    marks = [
        (shade, text) for shade, text, there in zip(("thick", "thin"), lines, used, strict=True) if there
    ]
    title = f"Time to a link{', and what its packets then met' if heads else ''}"
    return Figure(
        "fig-answer",
        "Time to a link by suite, shortest first"
        f"{'; lost datagrams and latency drone → GCS beside it' if heads else ''}{under}",
        Drawing(wide("svg-answer", title, ranking), narrow("svg-answer-narrow", title, ranking)),
        source.ring,
        "analysis/by_suite.csv",
        (*((c, n) for c, n in FAMILY_LEGEND if n in families), *marks),
    )


def _family(cell: Cell) -> str | None:
    return cell.facts.kem_family if cell.facts else None


def _key(row: RawRow) -> tuple[str, str]:
    return row["suite_id"], row["condition"]


def _first_cells(source: Source) -> dict[tuple[str, str], Cell]:
    """The first cell that passed, of each suite and condition."""
    found: dict[tuple[str, str], Cell] = {}
    for cell in source.bundle.cells:
        if cell.verdict == "pass":
            found.setdefault((cell.suite_id, cell.condition), cell)
    return found


def _interval(row: RawRow) -> tuple[float, float] | None:
    low, high = to_float(row["interval_low_ms"]), to_float(row["interval_high_ms"])
    return None if low is None or high is None else (low, high)


def _spreads(source: Source) -> dict[tuple[str, str], tuple[float, float]]:
    """Least and greatest single cold handshake of the cells that passed, ms."""
    ends: dict[tuple[str, str], list[float]] = {}
    for row in source.rows("handshakes"):
        for name in ("drone_wall_min_ms", "drone_wall_max_ms"):
            if row["verdict"] == "pass" and (value := to_float(row[name])) is not None:
                ends.setdefault(_key(row), []).append(value)
    return {key: (min(values), max(values)) for key, values in ends.items()}


def _traffic(source: Source) -> dict[tuple[str, str], tuple[str, ...]]:
    """Lost share of all datagrams, and medians over cells of p50 and p99 on the way down, as texts."""
    sent: dict[tuple[str, str], list[int]] = {}
    lost: dict[tuple[str, str], list[int]] = {}
    late: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in source.rows("traffic"):
        if (row["window"], row["verdict"]) != (_SESSION, "pass"):
            continue
        sent.setdefault(_key(row), []).append(int(row["sent_count"]))
        lost.setdefault(_key(row), []).append(int(row["lost_count"]))
        for name in ("p50", "p99"):
            value = to_float(row[f"latency_{name}_ms"])
            if row["direction"] == "down" and value is not None:
                late.setdefault(_key(row), {}).setdefault(name, []).append(value)
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for key, counts in sent.items():
        total = math.fsum(counts)
        share = f"{significant(100 * math.fsum(lost[key]) / total)} %" if total else _ABSENT
        known = late.get(key, {})
        p50, p99 = (median(known.get(name, [])) for name in ("p50", "p99"))
        tail = significant(p99) if p99 is not None else TOO_FEW if p50 is not None else _ABSENT
        found[key] = (share, _ABSENT if p50 is None else significant(p50), tail)
    return found


# ---------------------------------------------------------------------- what is odd


def _odd(source: Source) -> list[str]:
    """A sentence a kind of oddity, gravest first; one that says that there is none."""
    cells = source.bundle.cells
    told = []
    for verdict, words in _TOLD.items():
        told += _several(source, [cell for cell in cells if cell.verdict == verdict], words, _reason)
    again = [cell for cell in cells if next(_repeated(cell), None) is not None]
    told += _several(source, again, "was measured again", lambda cell: next(_repeated(cell)))
    told += [finding.statement for finding in drift_findings(source)]
    told += [f"{text[0].upper()}{text[1:]}." for text in texts_of(source.bundle.run, "warnings", []) if text]
    if _no_latency(source):
        told.append(f"No latency: {_no_latency(source)}.")
    if len(told) > _MOST_ODD:
        told = [*told[: _MOST_ODD - 1], f"{len(told) - _MOST_ODD + 1} more: see what was found."]
    return told or ["Nothing odd: no cell failed, was invalid or was measured again."]


def _several(source: Source, cells: list[Cell], words: str, reason: Callable[[Cell], str]) -> list[str]:
    if not cells:
        return []
    name = f"{cells[0].suite_id.removeprefix('cs-')}, repetition {source.nth(cells[0].repetition)}"
    if len(cells) == 1:
        return [f"1 cell {words} ({name}): {reason(cells[0])}"]
    plural = {"is": "are", "was": "were"}
    first, _, rest = words.partition(" ")
    words = f"{plural.get(first, first)} {rest}".strip()
    return [f"{len(cells)} cells {words}, the first ({name}): {reason(cells[0])}"]


def _reason(cell: Cell) -> str:
    return str(cell.record.get("reason") or "no reason is recorded")


def _repeated(cell: Cell) -> Iterator[str]:
    """Why each earlier attempt of a cell did not count, as the attempt's own record says."""
    for folder in attempts_in(cell.directory):
        if not (folder / "record.json").exists():
            continue
        record = read_json(folder / "record.json")
        yield str(record.get("reason") or f"it was {record.get('verdict')}")


def _no_latency(source: Source) -> str | None:
    """Why no cell that passed has a latency; None where one has, or where none had traffic."""
    rows = [row for row in source.rows("traffic") if (row["window"], row["verdict"]) == (_SESSION, "pass")]
    if not rows or any(row["latency_p50_ms"] for row in rows):
        return None
    return rows[0]["latency_reason"] or "no reason is recorded"
