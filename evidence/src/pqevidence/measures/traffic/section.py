"""Traffic contract, latency and throughput per cell."""

from __future__ import annotations

from collections.abc import Sequence

from pqevidence.analysis.column import Column, pick
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import to_float
from pqevidence.analysis.traffic import COLUMNS
from pqevidence.measures.traffic.tables import KNEE_LOSS_PCT, KNEE_OFFERED_PCT, THROUGHPUT_COLUMNS
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Cell, Figure, Section, Table, label, not_applicable, number
from pqevidence.report.columns import RAW, Show, because, cells, counts, heads, of_cell, values, which_cell
from pqevidence.report.sections import over_time
from pqevidence.report.source import RawRow, Source, record_link

WORDS = {"down": "drone → GCS", "up": "GCS → drone"}


def traffic(source: Source) -> Section | None:
    """Contract table and latency table of the MAVLink window."""
    rows = [r for r in source.rows("traffic") if r["window"] == "traffic"]
    if not rows:
        return None
    special = of_cell(source) | OF_TRAFFIC
    contract = pick(COLUMNS, *which_cell(source), *CONTRACT)
    latencies = pick(COLUMNS, *which_cell(source), "direction", "latency_n", *LATENCIES)

    def lines(shown: Sequence[Column]) -> tuple[tuple[Cell, ...], ...]:
        return blocks.rows_of([[*cells(row, shown, special), record_link(row["cell_id"])] for row in rows])

    return Section(
        "traffic",
        "MAVLink traffic and latency",
        (
            *over_time.latency(source),
            Table(
                "traffic-table",
                "Traffic contract: what one end sealed and the other end opened, per direction",
                (*heads(contract), RAW),
                lines(contract),
                source.ring,
                "analysis/traffic.csv",
                "Digest: the sum of a 64-bit hash of sequence and plaintext of every datagram; equal "
                "digests mean the "
                "same bytes arrived, whatever their order.",
                collapsed=len(rows) > 60,
            ),
            Table(
                "latency-table",
                "One-way latency through the tunnel: plaintext at the sender's kernel to plaintext handed on",
                (*heads(latencies), RAW),
                lines(latencies),
                source.ring,
                "analysis/traffic.csv",
                "Both ends stamp with one clock here; rows join on epoch and 64-bit sequence.",
                collapsed=len(rows) > 60,
            ),
        ),
    )


def _rate(row: RawRow) -> Cell:
    """An offered rate as it was asked for: whole numbers without decimals."""
    value = float(row["offered_pps"])
    return Cell(f"{value:,.0f}" if value.is_integer() else f"{value:,g}", sort=value, kind="num")


def _if_due(name: str, digits: int = 3) -> Show:
    """A number that one direction alone has."""
    return lambda row: number(row[name], digits=digits) if row[name] else not_applicable()


def _late(name: str) -> Show:
    return lambda row: blocks.tail(row[name], n=row["latency_n"], reason=row["latency_reason"])


LATENCIES = ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_max_ms")
COUNTS = ("sent_count", "received_count", "lost_count")
CONTRACT = (
    *("direction", "source", "duration_s", *COUNTS, "loss_pct", "achieved_rate_hz", "nominal_rate_hz"),
    *("rate_deviation_pct", "digest_equal", "verdict"),
)
LADDER = (
    *("offered_pps", "source_pps", "taken_pps", "offered_mbps", "goodput_mbps", "sent_count"),
    *("received_count", "loss_pct", "corrupt_count", "holds", "knee"),
)
#: columns of which the page shows more than number or text
OF_TRAFFIC: dict[str, Show] = {
    "direction": lambda row: label(WORDS[row["direction"]]),
    "source": lambda row: label(row["source"] or "not named"),
    **values("duration_s", digits=4, why=because("the gate times are missing")),
    **counts(*COUNTS),
    **values("loss_pct", why=because("nothing was sent")),
    **values("achieved_rate_hz", why=because("no duration")),
    "nominal_rate_hz": _if_due("nominal_rate_hz"),
    "rate_deviation_pct": _if_due("rate_deviation_pct", 2),
    "digest_equal": lambda row: label("equal" if row["digest_equal"] == "true" else "differ"),
    "latency_n": lambda row: blocks.count(row["latency_n"] or "0"),
    **{name: _late(name) for name in LATENCIES},
}
OF_LADDER: dict[str, Show] = {
    "offered_pps": _rate,
    **values("source_pps", digits=4, why=because("the source gave no account")),
    **values("taken_pps", digits=4),
    **values("offered_mbps", why=because("datagram size not recorded")),
    **counts("sent_count", "received_count"),
    **values("loss_pct", why=because("none sent")),
    **counts("corrupt_count", why=because("the sink did not report it")),
    "holds": lambda row: label({"true": "yes", "false": "no"}.get(row["holds"], "–")),
    "knee": lambda row: label(row["knee"] or "–"),
}


def throughput(source: Source) -> Section | None:
    """Offered-rate ladder: goodput, loss, knee."""
    rows = source.rows("throughput")
    if not rows:
        return None
    shown = pick(THROUGHPUT_COLUMNS, *which_cell(source), *LADDER)
    special = of_cell(source) | OF_LADDER
    parts: list[blocks.Block] = []
    chart = _ladder(source, rows)
    if chart is not None:
        parts.append(chart)
    parts.append(
        Table(
            "throughput-table",
            "Bulk throughput by offered rate; goodput is plaintext delivered, one direction",
            (*heads(shown), RAW),
            blocks.rows_of([[*cells(row, shown, special), record_link(row["cell_id"])] for row in rows]),
            source.ring,
            "analysis/throughput.csv",
            "Sent by the source: from its own first and last datagram. Taken in: what the tunnel read "
            "from its "
            "socket; the rest never reached it. Loss is between the two ends of the tunnel. A rung holds "
            "when at "
            f"most {KNEE_LOSS_PCT:g} % is lost and at least {KNEE_OFFERED_PCT:g} % of the offered rate is "
            "taken in; "
            "the knee is the last rung before the first that does not hold.",
            collapsed=len(rows) > 60,
        )
    )
    return Section("throughput", "Throughput", tuple(parts))


def _ladder(source: Source, rows: list[RawRow]) -> Figure | None:
    groups: dict[str, dict[float, list[float]]] = {}
    one, under = source.of_one_condition(rows)
    for r in one:
        offered, goodput = to_float(r["offered_mbps"]), to_float(r["goodput_mbps"])
        if r["verdict"] == "pass" and offered is not None and goodput is not None:
            groups.setdefault(r["suite_id"], {}).setdefault(offered, []).append(goodput)
    if max((len(steps) for steps in groups.values()), default=0) < 3:
        return None
    lines = [
        figures.Curve(
            suite.removeprefix("cs-"),
            None,
            tuple((offered, median(values) or 0.0) for offered, values in sorted(steps.items())),
            f"s-{index % 5 + 1}",
        )
        for index, (suite, steps) in enumerate(groups.items())
    ]
    return Figure(
        "fig-throughput",
        f"Goodput over offered rate{under}; on the dashed line everything offered is delivered",
        figures.curves(
            "svg-throughput",
            "Goodput over offered rate",
            "offered, Mbit/s",
            "goodput, Mbit/s",
            lines,
            logarithmic=False,
        ),
        source.ring,
        "analysis/throughput.csv",
    )
