"""Drift over the blocks of the run: a small drawing, the table, and what may be claimed of a block."""

from __future__ import annotations

from pqevidence.analysis.drift import FASTER, NAME, SLOWER
from pqevidence.analysis.table import to_float
from pqevidence.limits import MIN_RUNS_COUNT
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Figure, Finding, Section, Table, label, number
from pqevidence.report.inference import amount
from pqevidence.report.over_blocks import BlockPanel, BlockRatio, over_blocks
from pqevidence.report.source import RawRow, Source, cell_link
from pqevidence.report.svg import significant

CLAIMS = (SLOWER, FASTER)
SAID = (
    "Each cell's cold handshake stands against the median of its suite over all blocks of the condition; "
    "a block is a repetition of the whole matrix. The suites are the witnesses: n counts suites, the "
    "interval is of their mean in this block, and what is said is about this block of this run. A claim "
    "needs Holm's p ≤ 0.05 over the blocks of the condition and an effect beyond the noise floor, which is "
    "measured on the other blocks."
)


def rows_of(source: Source) -> list[RawRow]:
    """Rows of the table; [] where the run has one block, and so no drift to speak of."""
    rows = source.rows(NAME)
    return rows if any(int(row["blocks_count"]) > 1 for row in rows) else []


def drift(source: Source) -> Section | None:
    """Where at least three blocks are there it is drawn; below that the table says insufficient."""
    rows = rows_of(source)
    if not rows:
        return None
    drawn = _figure(source, rows)
    parts: tuple[blocks.Block, ...] = (_table(source, rows),)
    return Section("drift", "Drift over blocks", parts if drawn is None else (drawn, *parts), SAID)


def _figure(source: Source, rows: list[RawRow]) -> Figure | None:
    panels: dict[str, list[BlockRatio]] = {}
    for row in rows:
        if row["median_ratio"]:
            low, high = (to_float(row[name]) for name in ("low_ratio", "high_ratio"))
            claimed = _change(row) if row["verdict"] in CLAIMS else None
            one = BlockRatio(str(_nth(rows, row)), float(row["median_ratio"]), low, high, claimed)
            panels.setdefault(row["condition"], []).append(one)
    if not panels:
        return None
    legend = [("s-1", "median over suites, and the interval of the mean")]
    if any(block.claimed for panel in panels.values() for block in panel):
        legend.append(("s-2", "claimed"))
    return Figure(
        "fig-drift",
        "Handshake in each block against each suite's median over all blocks",
        over_blocks(
            "svg-drift", "Drift over blocks", [BlockPanel(n, tuple(panel)) for n, panel in panels.items()]
        ),
        source.ring,
        f"analysis/{NAME}.csv",
        tuple(legend),
    )


def _nth(rows: list[RawRow], row: RawRow) -> int:
    """A block as people count, from 1 on, in the order of time."""
    return [r for r in rows if r["condition"] == row["condition"]].index(row) + 1


def _table(source: Source, rows: list[RawRow]) -> Table:
    few = f"fewer than {MIN_RUNS_COUNT} blocks"
    lines = []
    for row in rows:
        why = row["reason"] or few

        def value(name: str, row: RawRow = row, why: str = why) -> Cell:
            return number(row[name]) if row[name] else Cell("insufficient", kind="null short", title=why)

        interval = (
            label(f"{_shown(row['low_ratio'])} – {_shown(row['high_ratio'])}")
            if row["low_ratio"]
            else Cell("insufficient", kind="null short", title=why)
        )
        lines.append(
            [
                label(row["condition"]),
                label(f"{_nth(rows, row)} of {row['blocks_count']}"),
                label(row["earlier_run"] or "this one"),
                blocks.count(row["n_suites"]),
                value("median_ratio"),
                value("mean_ratio"),
                interval,
                label(row["method"]),
                value("p_holm"),
                number(row["floor_ratio"]),
                label(f"{row['floor_method']}, {row['floor_pairs']} pairs"),
                value("visible_ratio"),
                label(row["verdict"]),
                label(row["ring"]),
            ]
        )
    return Table(
        "drift-table",
        "Blocks in the order of time: ratio to each suite's median over all blocks",
        (
            Column("condition"),
            Column("block"),
            Column("run"),
            Column("suites", "n", True),
            Column("median", "ratio", True),
            Column("mean", "ratio", True),
            Column("95 % interval of the mean"),
            Column("method"),
            Column("p (Holm)", "", True),
            Column("noise floor", "ratio", True),
            Column("floor from"),
            Column("seen from", "ratio", True),
            Column("verdict"),
            Column("ring"),
        ),
        blocks.rows_of(lines),
        source.ring,
        f"analysis/{NAME}.csv",
        f"Insufficient: {few}, or fewer than {MIN_RUNS_COUNT} suites that passed in {MIN_RUNS_COUNT} "
        "blocks, or faults on one side. Seen from: a smaller drift would not have been seen in four of five "
        "such campaigns.",
        collapsed=len(lines) > 40,
    )


def _shown(text: str) -> str:
    return significant(float(text))


def _change(row: RawRow) -> str:
    """`30 % slower`."""
    ratio = float(row["mean_ratio"])
    if row["verdict"] == SLOWER:
        return f"{amount(ratio, 'ratio')} slower"
    return f"{significant(100 * (1 - ratio), 2)} % faster"


def drift_findings(source: Source) -> list[Finding]:
    """One a block that is claimed to have been slower or faster."""
    rows = rows_of(source)
    return [_finding(source, rows, row) for row in rows if row["verdict"] in CLAIMS]


def _finding(source: Source, rows: list[RawRow], row: RawRow) -> Finding:
    place, count = _nth(rows, row), int(row["blocks_count"])
    name = {1: "the first", count: "the last"}.get(place, f"block {place}")
    under = f"under {row['condition']} " if source.many_conditions else ""
    said = f"{under}{name} of {count} blocks was {_change(row)} than its suites' medians over all blocks."
    interval = f"{_shown(row['low_ratio'])} to {_shown(row['high_ratio'])}, 95 % {row['method']}"
    return Finding(
        statement=said[0].upper() + said[1:],
        effect=f"ratio {_shown(row['mean_ratio'])} ({interval}; median over suites "
        f"{_shown(row['median_ratio'])})",
        basis=f"n = {row['n_suites']} suites in this block; Holm p {_shown(row['p_holm'])} of "
        f"{row['family_count']} blocks; noise floor {row['floor_method']}, {_shown(row['floor_ratio'])}",
        ring=row["ring"],
        cells=tuple(cell_link(i, source.cells[i].suite_id) for i in row["cells"].split()),
    )
