"""Faults on purpose: what was done, by suite, and how long it took until all was as before.

Only where its table is in the bundle.
"""

from __future__ import annotations

from pqevidence.analysis.stats import median
from pqevidence.report import blocks
from pqevidence.report.blocks import Column, Section, Table, label, number, verdict
from pqevidence.report.source import RawRow, Source, anchor, record_link
from pqevidence.report.svg import significant


def faults(source: Source) -> Section | None:
    """Recovery by suite and kind, then every event of every cell."""
    rows = source.rows("fault_recovery") if source.has("fault_recovery") else []
    if not rows:
        return None
    return Section(
        "faults",
        "Faults on purpose, and the way back",
        (_by_suite(source, rows), _events(source, rows)),
        "Recovery counts from the end of the fault, after a kill from the kill. After a kill it is a session "
        "again: the container starts, its self-test runs, and the drone dials; it notices a ground station "
        "that is gone after 3 s without a packet. After a cut it is the first datagram at both ends.",
    )


def _by_suite(source: Source, rows: list[RawRow]) -> Table:
    groups: dict[tuple[str, str, str, str], list[RawRow]] = {}
    for row in rows:
        groups.setdefault((row["suite_id"], row["kind"], row["role"], row["until"]), []).append(row)
    lines = []
    for (suite_id, kind, role, until), mine in groups.items():
        known = [float(row["recovery_ms"]) for row in mine if row["recovery_ms"]]
        why = next((row["reason"] for row in mine if row["reason"]), None)
        spread = f"{significant(min(known))} – {significant(max(known))}" if known else ""
        lines.append(
            [
                label(suite_id),
                label(kind),
                label(role or "both"),
                blocks.count(len(mine)),
                label(until),
                blocks.count(len(known)),
                number(median(known) if known else None, reason=why),
                label(spread) if known else blocks.missing(why),
            ]
        )
    return Table(
        "fault-suites-table",
        "Recovery by suite and kind of fault",
        (
            Column("suite"),
            Column("fault"),
            Column("end"),
            Column("faults", "n", True),
            Column("until"),
            Column("known", "n", True),
            Column("recovery, median", "ms", True),
            Column("least – most", "ms"),
        ),
        blocks.rows_of(lines),
        source.ring,
        "analysis/fault_recovery.csv",
        "Observations: a handful of faults a suite supports no claim about a difference between suites.",
    )


def _events(source: Source, rows: list[RawRow]) -> Table:
    lines = [
        [
            label(r["suite_id"], href=anchor(r["cell_id"])),
            label(r["condition"]),
            blocks.count(source.nth(r["repetition"])),
            label(r["kind"]),
            label(r["role"] or "both"),
            number(r["at_s"]),
            number(r["for_s"]) if r["for_s"] else blocks.not_applicable(),
            label(r["until"]),
            number(r["recovery_ms"], reason=r["reason"]),
            verdict(r["verdict"]),
            record_link(r["cell_id"]),
        ]
        for r in rows
    ]
    return Table(
        "fault-events-table",
        "Every fault that took place",
        (
            Column("suite"),
            Column("condition"),
            Column("rep", "", True),
            Column("fault"),
            Column("end"),
            Column("at", "s", True),
            Column("lasted", "s", True),
            Column("until"),
            Column("recovery", "ms", True),
            Column("verdict"),
            Column("raw"),
        ),
        blocks.rows_of(lines),
        source.ring,
        "analysis/fault_recovery.csv",
        collapsed=len(lines) > 40,
    )
