"""Rekeys measured beside their model, cold beside pooled handshakes, and what a long session leaves behind.

Each section appears only where its table is in the bundle.
"""

from __future__ import annotations

from pqevidence.analysis.claims import NOT_DISTINGUISHABLE
from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Block, Cell, Column, Figure, Section, Table, label, number, verdict
from pqevidence.report.source import RawRow, Source, anchor, cell_link, record_link, why_missing
from pqevidence.report.svg import significant
from pqtunnel.blackout import ROW_BYTES

FEW = "fewer than 3 runs"
NO_PAIR = "no condition without rekeys to pair with"
HOSTS = {"drone": "drone", "gcs": "GCS"}
WORDS = {"rss_mb": "resident memory", "thread_count": "threads", "fd_count": "open files"}

NO_LEDGER_HERE = "no part of it, or no ledger was kept"


def rekeys(source: Source) -> Section | None:
    """Per suite and interval: model, measured blackout, measured CPU; then every cell."""
    if not source.has("rekeys"):
        return None
    parts: list[Block] = []
    sweep = source.rows("rekey_sweep") if source.has("rekey_sweep") else []
    if sweep:
        drawn = _figure(source, sweep)
        parts += [drawn] if drawn is not None else []
        parts += [_sweep(source, sweep), _cpu(source, sweep)]
    parts.append(_cells(source, source.rows("rekeys")))
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
            "svg-rekey-sweep", "Rekey share: model and measurement", "rekey interval R, s (log scale)",
            "share of the session, % (log scale)", lines, logarithmic=True,
        ),
        source.ring,
        "analysis/rekey_sweep.csv",
    )  # fmt: skip


def _interval(row: RawRow, name: str, unit: str, reason: str) -> Cell:
    low, high = row[f"{name}_low_{unit}"], row[f"{name}_high_{unit}"]
    if not low or not high:
        return Cell(INSUFFICIENT, kind="null short", title=reason)
    return label(f"{significant(float(low))} – {significant(float(high))}")


def _sweep(source: Source, rows: list[RawRow]) -> Table:
    lines = [
        [
            label(r["suite_id"]), label(r["condition"]), number(r["every_s"]), blocks.count(r["n_cells"]),
            blocks.count(r["completed_count"], reason="no cell passed"),
            number(r["duration_median_ms"], reason="no rekey completed"),
            number(r["phi_model_pct"], reason="no rekey completed"), _interval(r, "phi", "pct", FEW),
            number(r["blackout_share_pct"], reason="no switch within the traffic window"),
            _interval(r, "blackout", "pct", FEW),
            number(r["excess_mean_pct"], reason="no cell has both"),
            _interval(r, "excess", "pct", FEW), label(r["blackout_verdict"]),
            number(r["blackout_max_ms"], reason="no switch within the traffic window"),
            blocks.count(r["late_count"], reason="no switch within the traffic window"),
            blocks.count(r["lost_count"], reason="no switch within the traffic window"),
            _links(source, r["cells"]),
        ]
        for r in rows
    ]  # fmt: skip
    return Table(
        "rekey-sweep-table",
        "Rekey share by suite and interval: the model Φ(R), and the blackout that was measured",
        (
            Column("suite"), Column("condition"), Column("R asked", "s", True), Column("cells", "n", True),
            Column("rekeys", "n", True), Column("T, measured", "ms", True),
            Column("Φ, model", "%", True), Column("95 % interval"),
            Column("blackout, measured", "%", True), Column("95 % interval"),
            Column("measured − model", "points", True), Column("95 % interval"), Column("verdict"),
            Column("longest blackout", "ms", True), Column("late", "packets", True),
            Column("lost", "packets", True), Column("first cell"),
        ),
        blocks.rows_of(lines),
        source.ring,
        "analysis/rekey_sweep.csv",
        "Medians over the cells; intervals of their mean (of Φ: geometric), Student's t below ten. Φ is the "
        "model at the interval asked for, with the measured T. Lost packets are those around a switch.",
    )  # fmt: skip


def _cpu(source: Source, rows: list[RawRow]) -> Table:
    lines = []
    for r in rows:
        for role, name in HOSTS.items():
            told = r[f"cpu_{role}_verdict"]
            lines.append(
                [
                    label(r["suite_id"]), label(r["condition"]), number(r["every_s"]), label(name),
                    number(r["phi_model_pct"], reason="no rekey completed"),
                    number(r[f"cpu_{role}_mean_points"], reason=NO_PAIR),
                    _interval(r, f"cpu_{role}", "points", FEW),
                    number(r[f"cpu_{role}_p_holm"], reason=FEW),
                    number(r[f"cpu_{role}_floor_points"], reason=NO_PAIR), label(told),
                    label(r["reference"] or "none"), blocks.count(r["n_pairs"]), _links(source, r["cells"]),
                ]
            )  # fmt: skip
    return Table(
        "rekey-cpu-table",
        "CPU that rekeys cost, beside the model's share",
        (
            Column("suite"), Column("condition"), Column("R asked", "s", True), Column("host"),
            Column("Φ, model", "%", True), Column("CPU more", "points", True), Column("95 % interval"),
            Column("p (Holm)", "", True), Column("noise floor", "points", True), Column("verdict"),
            Column("against"), Column("pairs", "n", True), Column("first cell"),
        ),
        blocks.rows_of(lines),
        source.ring,
        "analysis/rekey_sweep.csv",
        f"Points of one core of the tunnel's process. “{NOT_DISTINGUISHABLE}”: no claim, whatever the mean.",
    )  # fmt: skip


def _links(source: Source, cells: str) -> Cell:
    first, *rest = cells.split() or [""]
    if not first:
        return blocks.missing("no cell passed")
    text = f"{first[:8]} and {len(rest)} more" if rest else None
    return cell_link(source.cells[first].cell_id, text)


def _cells(source: Source, rows: list[RawRow]) -> Table:
    lines = []
    for r in rows:
        why = why_missing(r)
        lines.append(
            [
                label(r["suite_id"], href=anchor(r["cell_id"])), label(r["condition"]),
                blocks.count(source.nth(r["repetition"])),
                *(blocks.count(r[f"{n}_count"], reason=why) for n in ("completed", "failed", "coalesced")),
                number(r["interval_median_ms"], reason=why), number(r["duration_median_ms"], reason=why),
                number(r["blackout_max_ms"], reason=why), number(r["gap_max_ms"], reason=why),
                number(r["send_gap_max_ms"], reason=why), blocks.count(r["late_count"], reason=why),
                blocks.count(r["lost_count"], reason=why), verdict(r["verdict"]), record_link(r["cell_id"]),
            ]
        )  # fmt: skip
    return Table(
        "rekey-cells-table",
        "Rekeys of every cell",
        (
            Column("suite"), Column("condition"), Column("rep", "", True), Column("completed", "n", True),
            Column("failed", "n", True), Column("coalesced", "n", True), Column("interval", "ms", True),
            Column("duration", "ms", True), Column("blackout", "ms", True), Column("largest gap", "ms", True),
            Column("source's gap then", "ms", True), Column("late", "packets", True),
            Column("lost", "packets", True), Column("verdict"), Column("raw"),
        ),
        blocks.rows_of(lines),
        source.ring,
        "analysis/rekeys.csv",
        "Blackout: what a gap grew by on the way. The source's own gap is no blackout.",
        collapsed=len(lines) > 40,
    )  # fmt: skip


def pooled(source: Source) -> Section | None:
    """Cold and pooled handshakes of the same cells, side by side."""
    rows = source.rows("pooled") if source.has("pooled") else []
    if not rows:
        return None
    lines = [
        [
            label(r["suite_id"]), label(r["condition"]), blocks.count(r["n_cells"]),
            number(r["cold_median_ms"]), blocks.count(r["n_cold"]),
            number(r["pooled_median_ms"]), blocks.count(r["n_pooled"]), number(r["ratio"]),
            Cell(INSUFFICIENT, kind="null short", title=FEW)
            if not r["ratio_low"]
            else label(f"{significant(float(r['ratio_low']))} – {significant(float(r['ratio_high']))}"),
            label(r["verdict"]), _links(source, r["cells"]),
        ]
        for r in rows
    ]  # fmt: skip
    return Section(
        "pooled",
        "Cold and pooled handshakes",
        (
            Table(
                "pooled-table",
                "Handshakes that make their key pair, and handshakes that find one ready, in the same cells",
                (
                    Column("suite"), Column("condition"), Column("cells", "n", True),
                    Column("cold", "ms", True), Column("handshakes", "n", True),
                    Column("pooled", "ms", True), Column("handshakes", "n", True),
                    Column("pooled / cold", "", True), Column("95 % interval"), Column("verdict"),
                    Column("first cell"),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/pooled.csv",
            ),
        ),
        "Every other table of this report is about cold handshakes. A pool moves the key generation out of "
        "the handshake, it does not save it: the ground makes the next pair meanwhile, on the same cores.",
    )  # fmt: skip


def growth(source: Source) -> Section | None:
    """Memory, threads and open files from begin to end of long sessions."""
    rows = source.rows("growth") if source.has("growth") else []
    if not rows:
        return None
    lines = []
    for r in rows:
        why = why_missing(r)
        lines.append(
            [
                label(r["suite_id"], href=anchor(r["cell_id"])), label(r["condition"]),
                label(HOSTS[r["host"]]), label(WORDS[r["quantity"]]),
                label("MB" if r["quantity"] == "rss_mb" else ""),
                number(r["session_s"], digits=4, reason=why),
                blocks.count(r["rekeys_count"], reason="no rekey in this cell"),
                *(number(r[c], reason=why) for c in ("begin", "end", "growth")),
                number(r["ledger_mb"], reason=r["reason"] or NO_LEDGER_HERE),
                *(number(r[c], reason=why) for c in ("slope_per_h", "low", "high")),
                blocks.count(r["n_samples"]), verdict(r["verdict"]), record_link(r["cell_id"]),
            ]
        )  # fmt: skip
    return Section(
        "growth",
        "Growth over long sessions",
        (
            Table(
                "growth-table",
                "Both tunnels' memory, threads and open files over the traffic window",
                (
                    Column("suite"), Column("condition"), Column("host"), Column("quantity"), Column("unit"),
                    Column("session", "s", True), Column("rekeys", "n", True), Column("begin", "", True),
                    Column("end", "", True), Column("growth", "", True),
                    Column("of it ledger", "MB", True), Column("slope an hour", "", True),
                    Column("least", "", True), Column("most", "", True), Column("samples", "n", True),
                    Column("verdict"), Column("raw"),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/growth.csv",
                "Begin and end: medians of the first and last tenth. Of it ledger: rows that an end keeps in "
                f"memory until its cell is over, {ROW_BYTES} bytes a datagram sent or received in the whole "
                "window; an end that has had cells before may keep them in memory it already held. "
                "Slope: Theil and Sen. One session is one run: these are observations, not claims.",
            ),
        ),
    )  # fmt: skip
