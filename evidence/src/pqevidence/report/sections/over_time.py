"""How late datagrams came as curves, and one cell of each condition over its time."""

from __future__ import annotations

from pqevidence.analysis.table import to_float
from pqevidence.report.blocks import Figure, Section
from pqevidence.report.shares import ShareCurve, shares
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import counted
from pqevidence.report.timelines import Band, Line, Strip, timeline

#: more curves than this cannot be told apart, more time lines are nobody's first question
MOST_CURVES = 10
MOST_CELLS = 6
SHADES_COUNT = 5
#: kind of band → CSS class
KINDS = {"rekey": "s-1", "impairment": "s-2", "attack": "f-sphincs", "canary": "s-4", "event": "s-5"}
NO_LEDGER = "not measured: no ledger of both ends"
NO_CPU = "not measured: no sample that counts"


def _shade(place: int) -> str:
    return f"s-{place % SHADES_COUNT + 1}"


def _in_order(source: Source, names: list[str]) -> list[str]:
    """Conditions in the order of the scenario; those it does not name come last."""
    planned = [str(c["name"]) for c in source.bundle.conditions]
    return [name for name in dict.fromkeys((*planned, *names)) if name in names]


def latency(source: Source) -> list[Figure]:
    """How much of what was sent had arrived within each time, a curve a condition; [] without latency."""
    rows = source.rows("latency_shares") if source.has("latency_shares") else []
    by_name: dict[str, list[RawRow]] = {}
    for row in rows:
        if row["direction"] == "down":
            by_name.setdefault(row["condition"], []).append(row)
    names = _in_order(source, list(by_name))
    if not names:
        return []
    curves = [
        ShareCurve(
            f"{name}, {counted(int(by_name[name][0]['n_cells']), 'cell')}",
            _shade(place),
            tuple((float(row["within_ms"]), float(row["share_pct"])) for row in by_name[name]),
        )
        for place, name in enumerate(names[:MOST_CURVES])
    ]
    left = f"; the first {MOST_CURVES} of {len(names)} conditions" if len(names) > MOST_CURVES else ""
    return [
        Figure(
            "fig-latency",
            "Share of the datagrams sent drone → GCS that had arrived within a time, all suites together"
            f"{left}",
            shares(
                "svg-latency",
                "Latency by condition",
                "one-way latency, ms (log scale)",
                "arrived, % of those sent",
                curves,
            ),
            source.ring,
            "analysis/latency_shares.csv",
        )
    ]


def over_time(source: Source) -> Section | None:
    """Rate, loss and CPU of the first cell of each condition that passed, with what happened in it."""
    if not source.has("timeline"):
        return None
    cells: dict[str, list[RawRow]] = {}
    for row in source.rows("timeline"):
        cells.setdefault(row["cell_id"], []).append(row)
    drawn = [_drawn(source, place, rows) for place, rows in enumerate(list(cells.values())[:MOST_CELLS])]
    if not drawn:
        return None
    lead = "The first cell that passed of each condition, by the drone's clock."
    if len(cells) > MOST_CELLS:
        lead += f" The first {MOST_CELLS} of {len(cells)} conditions are drawn."
    return Section("over-time", "One cell over time", tuple(drawn), lead)


def _drawn(source: Source, place: int, rows: list[RawRow]) -> Figure:
    first = rows[0]
    bands, used = bands_of(source, first["cell_id"])
    strips = (
        Strip("rate, drone → GCS", "datagrams/s", (_line("rate", "s-1", rows, "rate_hz"),), NO_LEDGER),
        Strip("lost", "% of those sent", (_line("lost", "s-2", rows, "loss_pct"),), NO_LEDGER),
        Strip(
            "CPU of the tunnel",
            "% of a core",
            (_line("drone", "s-3", rows, "cpu_drone_pct"), _line("GCS", "s-4", rows, "cpu_gcs_pct")),
            NO_CPU,
        ),
    )
    return Figure(
        f"fig-over-time-{place + 1}",
        f"{first['condition']}: {first['suite_id'].removeprefix('cs-')} over its traffic window",
        timeline(
            f"svg-over-time-{place + 1}",
            f"One cell over time: {first['condition']}",
            float(rows[-1]["to_s"]),
            KINDS,
            bands,
            strips,
        ),
        source.ring,
        "analysis/timeline.csv",
        used,
    )


def _line(label: str, shade: str, rows: list[RawRow], column: str) -> Line:
    points = tuple(((float(row["from_s"]) + float(row["to_s"])) / 2, to_float(row[column])) for row in rows)
    return Line(label, shade, points)


def bands_of(source: Source, cell_id: str) -> tuple[list[Band], tuple[tuple[str, str], ...]]:
    """What happened in a cell, and the legend of its kinds."""
    bands = [
        Band(row["kind"], float(row["from_s"]), float(row["to_s"]), row["told"])
        for row in source.rows("timeline_bands")
        if row["cell_id"] == cell_id
    ]
    kinds = {band.kind for band in bands}
    return bands, tuple((shade, kind) for kind, shade in KINDS.items() if kind in kinds)
