"""Traffic contract, latency, throughput, CPU with steal, temperature and overhead per cell."""

from __future__ import annotations

from collections.abc import Sequence

from pqevidence.analysis.stats import median
from pqevidence.analysis.system import WAITING
from pqevidence.analysis.table import to_float
from pqevidence.analysis.traffic import KNEE_LOSS_PCT, KNEE_OFFERED_PCT
from pqevidence.record.system import LETTER
from pqevidence.record.waiting import BEFORE_MEASURED
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import (
    Cell,
    Column,
    Figure,
    Section,
    Table,
    label,
    missing,
    not_applicable,
    number,
    verdict,
)
from pqevidence.report.sections import over_time
from pqevidence.report.source import NO_FIGURE, RawRow, Source, anchor, record_link, why_missing
from pqevidence.report.svg import counted
from pqtunnel.quiet import STEAL_LIMIT_PCT

WORDS = {"down": "drone → GCS", "up": "GCS → drone"}


def _suite(source: Source, row: RawRow) -> list[Cell]:
    """The columns that say which cell a row belongs to."""
    cells = [label(row["suite_id"], href=anchor(row["cell_id"]))]
    if source.many_conditions:
        cells.append(label(row["condition"]))
    if source.repetitions > 1:
        cells.append(blocks.count(source.nth(row["repetition"])))
    return cells


def _suite_columns(source: Source) -> list[Column]:
    columns = [Column("suite")]
    if source.many_conditions:
        columns.append(Column("condition"))
    if source.repetitions > 1:
        columns.append(Column("rep", "", True))
    return columns


def traffic(source: Source) -> Section | None:
    """Contract table and latency table of the MAVLink window."""
    rows = [r for r in source.rows("traffic") if r["window"] == "traffic"]
    if not rows:
        return None
    contract = [
        [
            *_suite(source, r),
            label(WORDS[r["direction"]]),
            label(r["source"] or "not named"),
            number(r["duration_s"], digits=4, reason="the gate times are missing"),
            blocks.count(r["sent_count"]),
            blocks.count(r["received_count"]),
            blocks.count(r["lost_count"]),
            number(r["loss_pct"], reason="nothing was sent"),
            number(r["achieved_rate_hz"], reason="no duration"),
            number(r["nominal_rate_hz"]) if r["nominal_rate_hz"] else not_applicable(),
            number(r["rate_deviation_pct"], digits=2) if r["rate_deviation_pct"] else not_applicable(),
            label("equal" if r["digest_equal"] == "true" else "differ"),
            verdict(r["verdict"]),
            record_link(r["cell_id"]),
        ]
        for r in rows
    ]
    latency = [
        [
            *_suite(source, r),
            label(WORDS[r["direction"]]),
            blocks.count(r["latency_n"]) if r["latency_n"] else blocks.count("0"),
            *(
                blocks.tail(r[c], n=r["latency_n"], reason=r["latency_reason"])
                for c in ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_max_ms")
            ),
            record_link(r["cell_id"]),
        ]
        for r in rows
    ]
    return Section(
        "traffic",
        "MAVLink traffic and latency",
        (
            *over_time.latency(source),
            Table(
                "traffic-table",
                "Traffic contract: what one end sealed and the other end opened, per direction",
                (
                    *_suite_columns(source),
                    Column("direction"),
                    Column("source"),
                    Column("open", "s", True),
                    Column("sent", "datagrams", True),
                    Column("received", "datagrams", True),
                    Column("lost", "datagrams", True),
                    Column("loss", "%", True),
                    Column("rate", "Hz", True),
                    Column("nominal", "Hz", True),
                    Column("deviation", "%", True),
                    Column("digest of both ends"),
                    Column("verdict"),
                    Column("raw"),
                ),
                blocks.rows_of(contract),
                source.ring,
                "analysis/traffic.csv",
                "Digest: the sum of a 64-bit hash of sequence and plaintext of every datagram; equal "
                "digests mean the "
                "same bytes arrived, whatever their order.",
                collapsed=len(contract) > 60,
            ),
            Table(
                "latency-table",
                "One-way latency through the tunnel: plaintext at the sender's kernel to plaintext handed on",
                (
                    *_suite_columns(source),
                    Column("direction"),
                    Column("joined", "datagrams", True),
                    Column("p50", "ms", True),
                    Column("p95", "ms", True),
                    Column("p99", "ms", True),
                    Column("max", "ms", True),
                    Column("raw"),
                ),
                blocks.rows_of(latency),
                source.ring,
                "analysis/traffic.csv",
                "Both ends stamp with one clock here; rows join on epoch and 64-bit sequence.",
                collapsed=len(latency) > 60,
            ),
        ),
    )


def _rate(text: str) -> Cell:
    """An offered rate as it was asked for: whole numbers without decimals."""
    value = float(text)
    return Cell(f"{value:,.0f}" if value.is_integer() else f"{value:,g}", sort=value, kind="num")


def throughput(source: Source) -> Section | None:
    """Offered-rate ladder: goodput, loss, knee."""
    rows = source.rows("throughput")
    if not rows:
        return None
    lines = [
        [
            *_suite(source, r),
            _rate(r["offered_pps"]),
            number(r["source_pps"], digits=4, reason="the source gave no account"),
            number(r["taken_pps"], digits=4),
            number(r["offered_mbps"], reason="datagram size not recorded"),
            number(r["goodput_mbps"]),
            blocks.count(r["sent_count"]),
            blocks.count(r["received_count"]),
            number(r["loss_pct"], reason="none sent"),
            blocks.count(r["corrupt_count"], reason="the sink did not report it"),
            label({"true": "yes", "false": "no"}.get(r["holds"], "–")),
            label(r["knee"] or "–"),
            record_link(r["cell_id"]),
        ]
        for r in rows
    ]
    parts: list[blocks.Block] = []
    chart = _ladder(source, rows)
    if chart is not None:
        parts.append(chart)
    parts.append(
        Table(
            "throughput-table",
            "Bulk throughput by offered rate; goodput is plaintext delivered, one direction",
            (
                *_suite_columns(source),
                Column("offered", "1/s", True),
                Column("sent by the source", "1/s", True),
                Column("taken in", "1/s", True),
                Column("offered", "Mbit/s", True),
                Column("goodput", "Mbit/s", True),
                Column("sent", "datagrams", True),
                Column("received", "datagrams", True),
                Column("loss", "%", True),
                Column("corrupt", "datagrams", True),
                Column("holds"),
                Column("knee"),
                Column("raw"),
            ),
            blocks.rows_of(lines),
            source.ring,
            "analysis/throughput.csv",
            "Sent by the source: from its own first and last datagram. Taken in: what the tunnel read "
            "from its "
            "socket; the rest never reached it. Loss is between the two ends of the tunnel. A rung holds "
            "when at "
            f"most {KNEE_LOSS_PCT:g} % is lost and at least {KNEE_OFFERED_PCT:g} % of the offered rate is "
            "taken in; "
            "the knee is the last rung before the first that does not hold.",
            collapsed=len(lines) > 60,
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


def _why_no_wait(source: Source, row: RawRow, column: str) -> str:
    """The reason in the record; a record of an earlier version has no such field."""
    told = source.cells[row["cell_id"]].value(LETTER[row["host"]], column) or {}
    return str(told.get("reason") or BEFORE_MEASURED)


def cpu(source: Source) -> Section | None:
    """CPU, steal and temperature per cell and host."""
    rows = source.rows("cpu")
    if not rows:
        return None
    lines = []
    for r in rows:
        why = r["reason"] or why_missing(r)
        stolen = f"no: steal above {STEAL_LIMIT_PCT:g} %"
        valid = {"true": label("yes"), "false": label(f"no: {r['reason']}" if r["reason"] else stolen)}
        lines.append(
            [
                *_suite(source, r),
                label(r["host"]),
                blocks.count(r["n_samples"], reason=why),
                *(
                    number(r[c], reason=why)
                    for c in (
                        "process_mean_pct",
                        "process_max_pct",
                        "container_mean_pct",
                        "sampler_mean_pct",
                        "system_mean_pct",
                        "steal_mean_pct",
                        "steal_max_pct",
                        "rss_max_mb",
                    )
                ),
                *(number(r.get(c), reason=_why_no_wait(source, r, c)) for c in WAITING),
                number(r["temperature_mean_c"], reason=r["temperature_reason"]),
                valid.get(r["cpu_valid"], missing("no steal figure")),
                record_link(r["cell_id"]),
            ]
        )
    return Section(
        "cpu",
        "CPU, steal and temperature",
        (
            Table(
                "cpu-table",
                "CPU of each host over the traffic window, at ten samples a second",
                (
                    *_suite_columns(source),
                    Column("host"),
                    Column("samples", "n", True),
                    Column("tunnel, mean", "% of a core", True),
                    Column("tunnel, max", "% of a core", True),
                    Column("container", "% of a core", True),
                    Column("sampler", "% of a core", True),
                    Column("system", "% of all cores", True),
                    Column("steal, mean", "% of all cores", True),
                    Column("steal, max", "% of all cores", True),
                    Column("tunnel RSS, max", "MB", True),
                    Column("tunnel waited for a processor", "% of the window", True),
                    Column("some thread waited", "% of the window", True),
                    Column("temperature", "°C", True),
                    Column("valid for CPU claims"),
                    Column("raw"),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/cpu.csv",
                cpu_holds(rows, source.ring),
                collapsed=len(lines) > 60,
            ),
        ),
    )


def cpu_holds(rows: Sequence[RawRow], ring: str) -> str:
    """What these CPU figures hold beside the tunnel's own work, in words."""
    # bundles of older versions do not say
    kept, shared = ({row.get(name, "") for row in rows} for name in ("ledger", "controller_on_dut"))
    told = {
        frozenset({"true"}): "The ledger was on: the tunnel's share holds what it costs",
        frozenset({"false"}): "The ledger was off",
        frozenset({""}): "The table does not say whether the ledger was on",
    }.get(frozenset(kept), "The ledger was on where the table says so (column `ledger` of the data)")
    told += ". `observer-effect` measures the difference."
    if "true" in shared:
        told += " The controller ran on the drone's machine and is in the system's share."
    if ring == "lab":
        told += " Both ends share the cores of one machine: these figures are no claim about a board."
    return told


def overhead(source: Source) -> Section | None:
    """Time outside labelled windows."""
    rows = source.rows("overhead")
    ran = [r for r in rows if r["overhead_s"]]
    if not ran:
        return None
    values = tuple(float(r["overhead_s"]) for r in ran)
    lines = [
        [
            *_suite(source, r),
            number(r["wall_s"], digits=4, reason=why_missing(r)),
            *(
                number(r[c], digits=4, reason=NO_FIGURE.get(r["verdict"], "no such window in this cell"))
                for c in ("handshake_window_s", "traffic_window_s", "bulk_windows_s")
            ),
            number(r["overhead_s"], reason=why_missing(r)),
            verdict(r["verdict"]),
            record_link(r["cell_id"]),
        ]
        for r in rows
    ]
    parts: list[blocks.Block] = []
    if min(values) > 0:
        parts.append(
            Figure(
                "fig-overhead",
                f"Time outside labelled windows in {counted(len(values), 'cell')}",
                figures.strips(
                    "svg-overhead",
                    "Overhead per cell",
                    "s outside labelled windows (log scale)",
                    [figures.Strip("every cell", None, values, median(values))],
                    "s",
                ),
                source.ring,
                "analysis/overhead.csv",
            )
        )
    parts.append(
        Table(
            "overhead-table",
            "Where the time of each cell went; the rest lies outside every labelled window",
            (
                *_suite_columns(source),
                Column("cell wall", "s", True),
                Column("handshake window", "s", True),
                Column("traffic window", "s", True),
                Column("bulk windows", "s", True),
                Column("outside windows", "s", True),
                Column("verdict"),
                Column("raw"),
            ),
            blocks.rows_of(lines),
            source.ring,
            "analysis/overhead.csv",
            collapsed=len(lines) > 60,
        )
    )
    return Section("overhead", "Overhead per cell", tuple(parts))
