"""The tables of `suites-2026-01`: summary, detail per suite and iteration, the eight-row checklist."""

from __future__ import annotations

from pqevidence.analysis.stats import MIN_RUNS_COUNT, mean, median, sd
from pqevidence.analysis.table import to_float
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Paragraphs, Section, Table, label, missing, number, verdict
from pqevidence.report.source import RawRow, Source, analysis_link, anchor, record_link, why_missing
from pqevidence.report.svg import counted, significant

NO_POWER = (
    "Power and energy columns are left out: no sensor of the drone's supply took part in this run, and a "
    "figure without a sensor would be invented."
)


def suite_benchmark(source: Source) -> Section:
    """Summary over repetitions and one row a cell, with the columns of the published report."""
    detail = [_detail(source, row) for row in source.rows("handshakes")]
    lines: list[blocks.Block] = [
        _summary(source, detail),
        Paragraphs("suite-averages", tuple(_averages(source, detail))),
        _detail_table(source, detail),
    ]
    if not source.has("supply"):
        lines.append(Paragraphs("suite-no-power", (NO_POWER,)))
    return Section("suites", "Suite benchmark", tuple(lines))


#: A mean over more suites than this describes none of them.
MAX_AVERAGED_SUITES_COUNT = 12


class _Detail:
    """One cell with everything the two tables print."""

    def __init__(self, handshake: RawRow, bulk: RawRow | None, cpu: RawRow | None) -> None:
        self.handshake = handshake
        self.bulk = bulk
        self.cpu = cpu

    @property
    def passed(self) -> bool:
        return self.handshake["verdict"] == "pass"

    def value(self, column: str) -> float | None:
        return to_float(self.handshake[column])

    @property
    def goodput(self) -> float | None:
        return to_float(self.bulk["goodput_mbps"]) if self.bulk else None

    @property
    def temperature(self) -> float | None:
        return to_float(self.cpu["temperature_mean_c"]) if self.cpu else None

    @property
    def temperature_reason(self) -> str:
        return (self.cpu or {}).get("temperature_reason") or "no telemetry in this cell"

    @property
    def no_goodput(self) -> str:
        return "no bulk window" if self.passed else why_missing(self.handshake)


def _detail(source: Source, row: RawRow) -> _Detail:
    rungs = [r for r in source.rows("throughput") if r["cell_id"] == row["cell_id"]]
    best = max(rungs, key=lambda r: to_float(r["goodput_mbps"]) or 0.0, default=None)
    cpu = next(
        (r for r in source.rows("cpu") if r["cell_id"] == row["cell_id"] and r["host"] == "drone"), None
    )
    return _Detail(row, best, cpu)


def _offered(details: list[_Detail]) -> str:
    rates = sorted({float(d.bulk["offered_pps"]) for d in details if d.bulk})
    sizes = sorted({d.bulk["size_bytes"] for d in details if d.bulk and d.bulk["size_bytes"]})
    if not rates:
        return ""
    return (
        f"Throughput is bulk goodput of {' / '.join(sizes)} B datagrams, offered at up to "
        f"{rates[-1]:,.0f} a second."
    )


def _summary(source: Source, details: list[_Detail]) -> Table:
    groups: dict[tuple[str, str], list[_Detail]] = {}
    for d in details:
        groups.setdefault((d.handshake["suite_id"], d.handshake["condition"]), []).append(d)
    rows = []
    for (suite, condition), members in groups.items():
        passed = [d for d in members if d.passed]
        words = sorted({d.handshake["verdict"] for d in members})
        why = why_missing(members[0].handshake)
        temperatures = [t for d in passed if (t := d.temperature) is not None]
        row: list[Cell] = [label(suite, href=anchor(members[0].handshake["cell_id"]))]
        if source.many_conditions:
            row.append(label(condition))
        row += [
            blocks.count(len(passed)),
            number(
                median([v for d in passed if (v := d.value("drone_wall_median_ms")) is not None]), reason=why
            ),
            number(
                median([v for d in passed if (v := d.value("crypto_sum_median_ms")) is not None]), reason=why
            ),
            number(median([v for d in passed if (v := d.goodput) is not None]), reason=members[0].no_goodput),
            number(median(temperatures), reason=members[0].temperature_reason),
            verdict(words[0]) if len(words) == 1 else label(" / ".join(words)),
        ]
        rows.append(row)
    columns = [Column("suite")]
    if source.many_conditions:
        columns.append(Column("condition"))
    columns += [
        Column("cells passed", "n", True),
        Column("handshake, total", "ms", True),
        Column("of which primitives", "ms", True),
        Column("throughput", "Mbit/s", True),
        Column("temperature", "°C", True),
        Column("verdict"),
    ]
    return Table(
        "suite-summary",
        "Results by suite: medians over the cells that passed",
        tuple(columns),
        blocks.rows_of(rows),
        source.ring,
        "analysis/handshakes.csv",
        _offered(details) or None,
        collapsed=len(rows) > 24,
        also=_further(source, "by_suite"),
    )


def _averages(source: Source, details: list[_Detail]) -> list[str]:
    passed = [d for d in details if d.passed]
    suites = len({d.handshake["suite_id"] for d in passed})
    if suites > MAX_AVERAGED_SUITES_COUNT:
        return [f"No average over {suites} different suites; see the statistics by level and family."]
    sentences = []
    # a mean over links, or over what else sets conditions apart, would describe none of them
    for condition in dict.fromkeys(d.handshake["condition"] for d in passed):
        under = f" under {condition}" if source.many_conditions else ""
        sentences += _means(source, [d for d in passed if d.handshake["condition"] == condition], under)
    return sentences or ["No cell passed, so there is no average."]


def _means(source: Source, passed: list[_Detail], under: str) -> list[str]:
    """One sentence a quantity over these cells."""
    sentences = []
    for name, unit, values in (
        ("handshake", "ms", [v for d in passed if (v := d.value("drone_wall_median_ms")) is not None]),
        ("throughput", "Mbit/s", [v for d in passed if (v := d.goodput) is not None]),
        ("temperature", "°C", [v for d in passed if (v := d.temperature) is not None]),
    ):
        middle, spread = mean(values), sd(values)
        if middle is None:
            continue
        if len(values) < MIN_RUNS_COUNT or spread is None:
            tail = f"(n = {counted(len(values), 'cell')}; spread: insufficient)"
        else:
            tail = f"± {significant(spread, 2)} {unit} (mean and sd over n = {len(values)} cells)"
        sentences.append(
            f"Average {name} of the cells that passed{under}: {significant(middle)} {unit} {tail}, ring "
            f"{source.ring}."
        )
    return sentences


def _detail_table(source: Source, details: list[_Detail]) -> Table:
    rows = []
    for d in details:
        h = d.handshake
        why = why_missing(h)
        row: list[Cell] = [label(h["suite_id"], href=anchor(h["cell_id"]))]
        if source.many_conditions:
            row.append(label(h["condition"]))
        row += [
            blocks.count(source.nth(h["repetition"])),
            blocks.count(h["n"]),
            number(h["gcs_wall_median_ms"], reason=why),
            number(h["drone_wall_median_ms"], reason=why),
            number(h["drone_wall_median_ms"], reason=why),
            number(h["crypto_sum_median_ms"], reason=why),
            number(d.goodput, reason=d.no_goodput),
            number(d.temperature, reason=d.temperature_reason),
            verdict(h["verdict"]),
            record_link(h["cell_id"]),
        ]
        rows.append(row)
    columns = [Column("suite")]
    if source.many_conditions:
        columns.append(Column("condition"))
    columns += [
        Column("iteration", "", True),
        Column("handshakes", "n", True),
        Column("handshake GCS", "ms", True),
        Column("handshake drone", "ms", True),
        Column("handshake total", "ms", True),
        Column("primitives", "ms", True),
        Column("throughput", "Mbit/s", True),
        Column("temperature", "°C", True),
        Column("verdict"),
        Column("raw"),
    ]
    return Table(
        "suite-detail",
        "Results by suite and iteration: medians over the cold handshakes of the cell",
        tuple(columns),
        blocks.rows_of(rows),
        source.ring,
        "analysis/handshakes.csv",
        "GCS: accept to Finished sent. Drone: connect to verified Finished; that wall spans the whole "
        "exchange and "
        "so is the total, measured and not added up from two machines.",
        collapsed=len(rows) > 40,
        also=_further(source),
    )


def _further(source: Source, *names: str) -> tuple[str, ...]:
    """Files beside handshakes.csv that a column of these tables is of."""
    return tuple(analysis_link(name) for name in (*names, "throughput", "cpu", "supply") if source.has(name))


#: status of a checklist row → (word, verdict class)
CHECK_WORDS = {
    "ok": ("verified", "pass"),
    "warn": ("warning", "invalid"),
    "fail": ("not verified", "fail"),
    "not measured": ("not measured", "not-run"),
}


def checklist_section(source: Source) -> Section:
    """The eight published verification rows, with evidence computed from this bundle."""
    rows = []
    for row in source.rows("checklist"):
        word, shade = CHECK_WORDS[row["status"]]
        evidence = label(row["evidence"]) if row["evidence"] else missing("no evidence")
        rows.append(
            (
                blocks.count(row["position"]),
                label(row["name"]),
                Cell(word, kind=f"verdict v-{shade}"),
                evidence,
            )
        )
    table = Table(
        "checklist",
        "Verification checklist with the evidence found in this bundle",
        (Column("#", "", True), Column("check"), Column("status"), Column("evidence")),
        tuple(rows),
        source.ring,
        "analysis/checklist.csv",
        sortable=False,
    )
    return Section(
        "verification",
        "Verification checklist",
        (table,),
        "The rows of suites-2026-01. Evidence is recomputed from the raw files; ./pqlab verify runs the "
        "full list.",
    )
