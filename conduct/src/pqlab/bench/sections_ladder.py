"""The embedded ladder beside the published ESP32-C6 and, where its log was given, one's own board."""

from __future__ import annotations

from pqevidence.analysis.table import Table as Values
from pqevidence.report import blocks
from pqevidence.report.blocks import Block, Cell, Column, Paragraphs, Section, Table, label
from pqlab.bench.board import BoardLog
from pqlab.bench.sections_time import published_cell, shown

REMARK = (
    "The published board reads 14 or 15 µs for SHA-256 at every size from 64 B to 32 KiB. A hash of 512 "
    "times the data takes longer on any hardware: there the work was not inside the timer. The column is "
    "shown as published and is no measure of SHA-256.",
    "RSA-2048 is a modular exponentiation of 2,048-bit numbers. This bench states its exponent: 2,048 bits, "
    "as in a private operation without the Chinese remainder theorem, and 65537. The published text names "
    "none; its value stands beside the full exponent.",
    "AES-256-CTR throughput is size divided by the median time of one call with a fresh context.",
)
_PARTS = (("AES-256-CTR", "ladder-aes"), ("SHA-256", "ladder-sha"), ("RSA-2048", "ladder-rsa"))


def ladder_section(ladder: Values, board: BoardLog | None) -> Section | None:
    """Three tables and the remark; None where neither this host nor a log has a rung."""
    if not ladder.rows:
        return None
    parts: list[Block] = []
    for algorithm, table_id in _PARTS:
        own = [row for row in ladder.rows if row["algorithm"] == algorithm]
        if not own:
            continue
        unit = str(own[0]["unit"])
        heads = [
            Column("step"),
            Column("measured", unit, True),
            Column("published", f"{unit}, ESP32-C6", True),
        ]
        if board is not None:
            heads.append(Column("own board", unit, True))
        rows = []
        for row in own:
            size = "" if row["size_bytes"] is None else f" {row['size_bytes']} B"
            cells: list[Cell] = [
                label(f"{row['operation']}{size}"),
                shown(row["measured"], row["reason"] or "no run"),
                published_cell(row["published"], "not published"),
            ]
            if board is not None:
                cells.append(shown(row["board"], "not in the log"))
            rows.append([*cells, label(row["ring"] or "–"), label(row["host"] or "–")])
        columns = (*heads, Column("ring"), Column("host"))
        places = {str(row["ring"]) for row in own if row["ring"]}
        ring = ", ".join(sorted(places)) or "board log"
        parts.append(Table(table_id, algorithm, columns, blocks.rows_of(rows), ring, "analysis/ladder.csv"))
    timer = next((row for row in ladder.rows if row["algorithm"] == "timer"), None)
    sentences = list(REMARK)
    if timer is not None and timer["measured"] is not None:
        sentences.append(f"The timer around nothing reads {timer['measured']:.3f} µs.")
    if board is not None and board.refused:
        told = "; ".join(f"line {one.line}: {one.reason}" for one in board.refused[:8])
        sentences.append(f"Lines of the board's log that were left out ({len(board.refused)}): {told}.")
    parts.append(Paragraphs("ladder-remarks", tuple(sentences), as_list=True))
    return Section("ladder", "Embedded ladder", tuple(parts))
