"""What a long session leaves behind; there where sessions were long."""

from __future__ import annotations

from pqevidence.analysis.column import pick
from pqevidence.measures.growth.tables import COLUMNS, NAME
from pqevidence.report import blocks
from pqevidence.report.blocks import Column, Section, Table, label, number, verdict
from pqevidence.report.columns import heads
from pqevidence.report.source import Source, analysis_link, anchor, record_link, why_missing
from pqtunnel.blackout import ROW_BYTES

HOSTS = {"drone": "drone", "gcs": "GCS"}
WORDS = {"rss_mb": "resident memory", "thread_count": "threads", "fd_count": "open files"}
NO_LEDGER_HERE = "no part of it, or no ledger was kept"
LEVELS = ("begin", "end", "growth")
SPREAD = ("slope_per_h", "low", "high")


def growth(source: Source) -> Section | None:
    """Memory, threads and open files from begin to end of long sessions."""
    rows = source.rows(NAME) if source.has(NAME) else []
    if not rows:
        return None
    lines = []
    for r in rows:
        why = why_missing(r)
        lines.append(
            [
                label(r["suite_id"], href=anchor(r["cell_id"])),
                label(r["condition"]),
                label(HOSTS[r["host"]]),
                label(WORDS[r["quantity"]]),
                label("MB" if r["quantity"] == "rss_mb" else ""),
                number(r["session_s"], digits=4, reason=why),
                blocks.count(r["rekeys_count"], reason="no rekey in this cell"),
                *(number(r[c], reason=why) for c in LEVELS),
                number(r["ledger_mb"], reason=r["reason"] or NO_LEDGER_HERE),
                *(number(r[c], reason=why) for c in SPREAD),
                blocks.count(r["n_samples"]),
                verdict(r["verdict"]),
                record_link(r["cell_id"]),
            ]
        )
    return Section(
        "growth",
        "Growth over long sessions",
        (
            Table(
                "growth-table",
                "Both tunnels' memory, threads and open files over the traffic window",
                (
                    *heads(pick(COLUMNS, "suite_id", "condition", "host", "quantity")),
                    Column("unit"),
                    *heads(pick(COLUMNS, "session_s", "rekeys_count", *LEVELS, "ledger_mb", *SPREAD)),
                    *heads(pick(COLUMNS, "n_samples", "verdict")),
                    Column("raw"),
                ),
                blocks.rows_of(lines),
                source.ring,
                analysis_link(NAME),
                "Begin and end: medians of the first and last tenth. Of it ledger: rows that an end keeps in "
                f"memory until its cell is over, {ROW_BYTES} bytes a datagram sent or received in the whole "
                "window; an end that has had cells before may keep them in memory it already held. "
                "Slope: Theil and Sen. One session is one run: these are observations, not claims.",
            ),
        ),
    )
