"""Rekeys measured beside their model; there where the table of them is in the bundle."""

from __future__ import annotations

from pqevidence.analysis.claims import NOT_DISTINGUISHABLE
from pqevidence.analysis.column import pick
from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.measures.rekey.tables import COLUMNS, CPU_COLUMNS, REKEYS, SWEEP, SWEEP_COLUMNS
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Block, Cell, Column, Figure, Section, Table, label, number, verdict
from pqevidence.report.columns import heads
from pqevidence.report.links import first_of
from pqevidence.report.source import RawRow, Source, analysis_link, anchor, record_link, why_missing
from pqevidence.report.svg import significant

FEW = "fewer than 3 runs"
NO_PAIR = "no condition without rekeys to pair with"
HOSTS = {"drone": "drone", "gcs": "GCS"}
COUNTED = ("completed_count", "failed_count", "coalesced_count")
TIMED = ("interval_median_ms", "duration_median_ms", "blackout_max_ms", "gap_max_ms", "send_gap_max_ms")
AT_SWITCHES = ("late_count", "lost_count")


def rekeys(source: Source) -> Section | None:
    """Per suite and interval: model, measured blackout, measured CPU; then every cell."""
    if not source.has(REKEYS):
        return None
    parts: list[Block] = []
    sweep = source.rows(SWEEP) if source.has(SWEEP) else []
    if sweep:
        drawn = _figure(source, sweep)
        parts += [drawn] if drawn is not None else []
        parts += [_sweep(source, sweep), _cpu(source, sweep)]
    parts.append(_cells(source, source.rows(REKEYS)))
    return Section(
        "rekeys",
        "Rekeys: model and measurement",
        tuple(parts),
        "Φ(R) = T/(R+T) is the published model: it takes every rekey for a pause of T. A make-before-break "
        "rekey sends on while the new keys are made. Measured: how much pauses of the traffic grew on the "
        "way around each switch, from both ledgers, and the CPU that rekeys cost, in points of one core "
        "against the same suite and block without them.",
    )


def _figure(source: Source, rows: list[RawRow]) -> Figure | None:
    lines = []
    for suite_id in dict.fromkeys(row["suite_id"] for row in rows):
        facts = suite_facts(suite_id)
        mine = sorted((r for r in rows if r["suite_id"] == suite_id), key=lambda r: float(r["every_s"]))
        if len({row["every_s"] for row in mine}) < len(mine):
            continue  # one interval in two conditions, over two links say: no curve over the interval
        for name, column in (("model", "phi_model_pct"), ("blackout", "blackout_share_pct")):
            # a logarithmic axis has no zero; the table beside it has
            points = tuple(
                (float(r["every_s"]), float(r[column])) for r in mine if r[column] and float(r[column]) > 0
            )
            if len(points) > 1:
                family = facts.kem_family if facts else "other"
                lines.append(figures.Curve(f"{facts.kem if facts else suite_id}, {name}", family, points))
    if not lines:
        return None
    return Figure(
        "fig-rekey-sweep",
        "Share of the session over the rekey interval: the model, and the measured growth of pauses",
        figures.curves(
            "svg-rekey-sweep",
            "Rekey share: model and measurement",
            "rekey interval R, s (log scale)",
            "share of the session, % (log scale)",
            lines,
            logarithmic=True,
        ),
        source.ring,
        analysis_link(SWEEP),
    )


def _interval(row: RawRow, name: str, unit: str, reason: str) -> Cell:
    low, high = row[f"{name}_low_{unit}"], row[f"{name}_high_{unit}"]
    if not low or not high:
        return Cell(INSUFFICIENT, kind="null short", title=reason)
    return label(f"{significant(float(low))} – {significant(float(high))}")


def _sweep(source: Source, rows: list[RawRow]) -> Table:
    lines = [
        [
            label(r["suite_id"]),
            label(r["condition"]),
            number(r["every_s"]),
            blocks.count(r["n_cells"]),
            blocks.count(r["completed_count"], reason="no cell passed"),
            number(r["duration_median_ms"], reason="no rekey completed"),
            number(r["phi_model_pct"], reason="no rekey completed"),
            _interval(r, "phi", "pct", FEW),
            number(r["blackout_share_pct"], reason="no switch within the traffic window"),
            _interval(r, "blackout", "pct", FEW),
            number(r["excess_mean_pct"], reason="no cell has both"),
            _interval(r, "excess", "pct", FEW),
            label(r["blackout_verdict"]),
            number(r["blackout_max_ms"], reason="no switch within the traffic window"),
            blocks.count(r["late_count"], reason="no switch within the traffic window"),
            blocks.count(r["lost_count"], reason="no switch within the traffic window"),
            first_of(source, r["cells"]),
        ]
        for r in rows
    ]
    return Table(
        "rekey-sweep-table",
        "Rekey share by suite and interval: the model Φ(R), and the blackout that was measured",
        heads(
            pick(
                SWEEP_COLUMNS,
                "suite_id",
                "condition",
                "every_s",
                "n_cells",
                "completed_count",
                "duration_median_ms",
                "phi_model_pct",
                "phi_low_pct",
                "blackout_share_pct",
                "blackout_low_pct",
                "excess_mean_pct",
                "excess_low_pct",
                "blackout_verdict",
                "blackout_max_ms",
                "late_count",
                "lost_count",
                "cells",
            )
        ),
        blocks.rows_of(lines),
        source.ring,
        analysis_link(SWEEP),
        "Medians over the cells; intervals of their mean (of Φ: geometric), Student's t below ten. Φ is the "
        "model at the interval asked for, with the measured T. Lost packets are those around a switch.",
    )


def _cpu(source: Source, rows: list[RawRow]) -> Table:
    lines = []
    for r in rows:
        for role, name in HOSTS.items():
            told = r[f"cpu_{role}_verdict"]
            lines.append(
                [
                    label(r["suite_id"]),
                    label(r["condition"]),
                    number(r["every_s"]),
                    label(name),
                    number(r["phi_model_pct"], reason="no rekey completed"),
                    number(r[f"cpu_{role}_mean_points"], reason=NO_PAIR),
                    _interval(r, f"cpu_{role}", "points", FEW),
                    number(r[f"cpu_{role}_p_holm"], reason=FEW),
                    number(r[f"cpu_{role}_floor_points"], reason=NO_PAIR),
                    label(told),
                    label(r["reference"] or "none"),
                    blocks.count(r["n_pairs"]),
                    first_of(source, r["cells"]),
                ]
            )
    return Table(
        "rekey-cpu-table",
        "CPU that rekeys cost, beside the model's share",
        (
            *heads(pick(SWEEP_COLUMNS, "suite_id", "condition", "every_s")),
            Column("host"),
            *heads(pick(SWEEP_COLUMNS, "phi_model_pct")),
            *heads(CPU_COLUMNS["drone"]),
            *heads(pick(SWEEP_COLUMNS, "reference", "n_pairs", "cells")),
        ),
        blocks.rows_of(lines),
        source.ring,
        analysis_link(SWEEP),
        f"Points of one core of the tunnel's process. “{NOT_DISTINGUISHABLE}”: no claim, whatever the mean.",
    )


def _cells(source: Source, rows: list[RawRow]) -> Table:
    lines = []
    for r in rows:
        why = why_missing(r)
        lines.append(
            [
                label(r["suite_id"], href=anchor(r["cell_id"])),
                label(r["condition"]),
                blocks.count(source.nth(r["repetition"])),
                *(blocks.count(r[name], reason=why) for name in COUNTED),
                *(number(r[name], reason=why) for name in TIMED),
                *(blocks.count(r[name], reason=why) for name in AT_SWITCHES),
                verdict(r["verdict"]),
                record_link(r["cell_id"]),
            ]
        )
    return Table(
        "rekey-cells-table",
        "Rekeys of every cell",
        (
            *heads(pick(COLUMNS, "suite_id", "condition", "repetition", *COUNTED, *TIMED, *AT_SWITCHES)),
            *heads(pick(COLUMNS, "verdict")),
            Column("raw"),
        ),
        blocks.rows_of(lines),
        source.ring,
        analysis_link(REKEYS),
        "Blackout: what a gap grew by on the way. The source's own gap is no blackout.",
        collapsed=len(lines) > 40,
    )
