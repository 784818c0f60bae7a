"""What observing costs, from observer_effect.csv; nothing in a run in which every observer was always on."""

from __future__ import annotations

from pqevidence.measures.observers.tables import COLUMNS, NAME
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Section, Table, label, number
from pqevidence.report.columns import Show, cells, heads
from pqevidence.report.inference import UNITS
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import significant


def observers(source: Source) -> Section | None:
    """One table: each condition and metric against the cells with every observer on, A/A rows among them."""
    rows = source.rows(NAME) if source.has(NAME) else []
    if not rows:
        return None
    return Section(
        "observers",
        "Observer effect",
        (_table(source, rows),),
        "Sampler, Telegraf with its database, and ledger stand still in some cells; capture (the bins of the "
        "drone's sealed side) is added in others. The kernel's own accounts were read around each traffic "
        "window. Effects are condition minus reference: a negative one is what the observer that was left "
        "out costs, a positive one what an added observer costs. Without a ledger there is no latency.",
    )


def _table(source: Source, rows: list[RawRow]) -> Table:
    return Table(
        "observer-effect",
        "Left out or added, against all observers on",
        heads(COLUMNS),
        blocks.rows_of([cells(row, COLUMNS, SPECIAL) for row in rows]),
        source.ring,
        f"analysis/{NAME}.csv",
        "improved: less of it in the condition; regressed: more. The floor is what a mean over as many A/A "
        "pairs comes to (99 %) where ten or more were measured, else assumed. Seen from: a smaller effect "
        f"would not have been seen. {UNITS['block']}",
    )


def _few(row: RawRow) -> str:
    return row["reason"] or "fewer than 3 pairs"


def _value(name: str) -> Show:
    """A number that too few pairs do not give."""

    def show(row: RawRow) -> Cell:
        few = _few(row)
        return number(row[name], reason=few) if row[name] else Cell("–", kind="null short", title=few)

    return show


def _plain(name: str) -> Show:
    return lambda row: label(row[name]) if row[name] else Cell("–", kind="none")


def _interval(row: RawRow) -> Cell:
    if not row["low_effect"]:
        return Cell("insufficient", kind="null short", title=_few(row))
    return label(f"{significant(float(row['low_effect']))} to {significant(float(row['high_effect']))}")


NEED_PAIRS = ("reference_median", "condition_median", "mean_effect", "p_holm", "visible_effect")
#: columns of which the page shows more than number or text
SPECIAL: dict[str, Show] = {
    **{name: _plain(name) for name in ("left_out", "added")},
    **{name: _value(name) for name in NEED_PAIRS},
    "n_pairs": lambda row: blocks.count(row["n_pairs"]),
    "low_effect": _interval,
    "floor_method": lambda row: label(f"{row['floor_method']}, {row['floor_pairs']} pairs"),
}
