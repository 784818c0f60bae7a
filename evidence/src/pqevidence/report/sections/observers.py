"""What observing costs, from observer_effect.csv; nothing in a run in which every observer was always on."""

from __future__ import annotations

from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Section, Table, label, number
from pqevidence.report.inference import UNITS
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import significant

NAME = "observer_effect"


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
        (
            Column("condition"), Column("without"), Column("with"), Column("kind"), Column("metric"),
            Column("unit"), Column("n", "pairs", True), Column("reference", "median", True),
            Column("condition", "median", True), Column("effect", "mean", True), Column("95 % interval"),
            Column("p (Holm)", "", True), Column("noise floor", "", True), Column("floor from"),
            Column("seen from", "", True), Column("verdict"), Column("ring"),
        ),
        blocks.rows_of([_row(row) for row in rows]),
        source.ring,
        f"analysis/{NAME}.csv",
        "improved: less of it in the condition; regressed: more. The floor is what a mean over as many A/A "
        "pairs comes to (99 %) where ten or more were measured, else assumed. Seen from: a smaller effect "
        f"would not have been seen. {UNITS['block']}",
    )  # fmt: skip


def _row(row: RawRow) -> list[Cell]:
    few = row["reason"] or "fewer than 3 pairs"

    def value(name: str) -> Cell:
        return number(row[name], reason=few) if row[name] else Cell("–", kind="null short", title=few)

    def plain(name: str) -> Cell:
        return label(row[name]) if row[name] else Cell("–", kind="none")

    interval = (
        label(f"{significant(float(row['low_effect']))} to {significant(float(row['high_effect']))}")
        if row["low_effect"]
        else Cell("insufficient", kind="null short", title=few)
    )
    return [
        label(row["condition"]), plain("left_out"), plain("added"), label(row["kind"]), label(row["label"]),
        label(row["unit"]), blocks.count(row["n_pairs"]), value("reference_median"),
        value("condition_median"), value("mean_effect"), interval, value("p_holm"),
        number(row["floor_effect"]), label(f"{row['floor_method']}, {row['floor_pairs']} pairs"),
        value("visible_effect"), label(row["verdict"]), label(row["ring"]),
    ]  # fmt: skip
