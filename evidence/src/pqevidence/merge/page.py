"""The page of a merged bundle: whose it is, effects on these boards, on boards like these, by host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pqbase.documents import Json, exact_of, exact_or_none, part_of, parts_of, rows_of, texts_of
from pqevidence.analysis.claims import ALL_SUITES
from pqevidence.analysis.hosts import DIFFER
from pqevidence.analysis.merged import PARTS, MergedData
from pqevidence.analysis.metrics import BY_NAME
from pqevidence.analysis.stats import INSUFFICIENT, MIN_RUNS_COUNT
from pqevidence.analysis.table import Row, Table
from pqevidence.record.untimed import untimed_sentence
from pqevidence.report import blocks
from pqevidence.report.between import effect_text, interval_text, real
from pqevidence.report.blocks import Cell, Column, Paragraphs, Report, Section, label
from pqevidence.report.inference import HOST_UNITS, UNITS
from pqevidence.report.svg import counted, significant
from pqevidence.report.words import with_words

VERDICTS = ("pass", "fail", "unsupported", "invalid", "not-run")


def page(data: MergedData, lineage: Json, tables: Mapping[str, Table], numbers_sha256: str) -> Report:
    """The whole page. lineage: what merge.json says; tables: by name."""
    ring = str(lineage["ring"])
    counts = Counter(cell.verdict for cell in data.cells)
    sections = [
        _parts(lineage, ring),
        _hosts(lineage, ring),
        *_these(tables, ring),
        _over(tables["effects_over_hosts"], ring),
        _by_host(tables["effects_by_host"], ring),
        _left_out(tables["leave_one_host_out"], ring),
        _differences(tables["host_differences"], ring),
        _times(tables["times_by_host"], ring),
    ]
    answer, *told = with_words([_answer(data, lineage, tables), *(s for s in sections if s is not None)])
    return Report(
        title=str(data.scenario.get("title") or data.scenario.get("name") or "Campaign"),
        subtitle="Post-quantum MAVLink tunnel lab, several pairs of hosts",
        run_id=str(lineage["run_id"]),
        ring=ring,
        verdicts=tuple((verdict, counts[verdict]) for verdict in VERDICTS),
        head=(),
        numbers_sha256=numbers_sha256,
        sections=tuple(told),
        notice=untimed_sentence(data.untimed),
        answer=answer,
        footer="It is the digest of the tables below data/analysis. Each part has its own page, records and "
        "raw files; ./pqlab verify checks them and makes this page again.",
    )


def hosts_sentence(data: MergedData) -> str:
    """How many pairs and hosts, and what that allows to say."""
    pairs, hosts = len(data.boards), len(set(data.boards.values()))
    said = f"{counted(len(data.parts), 'part')} of {counted(pairs, 'pair')} of hosts"
    if hosts < pairs:
        said += f"; pairs share machines, so they count as {counted(hosts, 'host')}"
    if hosts < MIN_RUNS_COUNT:
        said += f". Nothing is said of boards like these: an interval over hosts needs {MIN_RUNS_COUNT} hosts"
    return said + "."


def missing_sentence(data: MergedData) -> str:
    """Which blocks nobody measured."""
    if not data.missing:
        return f"All {counted(data.blocks_count, 'block')} of the campaign are here."
    numbers = ", ".join(map(str, data.missing))
    return (
        f"{len(data.missing)} of {counted(data.blocks_count, 'block')} are missing (repetition {numbers}): "
        "their pair gave no bundle, and no other pair measured them."
    )


def _answer(data: MergedData, lineage: Json, tables: Mapping[str, Table]) -> Section:
    rows = tables["effects_over_hosts"].rows
    claims = [row for row in rows if row["verdict"] not in (INSUFFICIENT, "not distinguishable")]
    told = [
        f"{hosts_sentence(data)} Ring {lineage['ring']}, {counted(len(data.cells), 'cell')}.",
        missing_sentence(data),
        "Every effect is made within one pair of hosts. Absolute times stand by host and are never pooled.",
    ]
    if rows:
        verb = "is" if len(claims) == 1 else "are"
        told.append(f"On boards like these, {len(claims)} of {len(rows)} effects {verb} claimed.")
    return Section("answer", "In short", (Paragraphs("merged", tuple(told)),))


def _table(
    block_id: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    ring: str,
    source: str | None = None,
    note: str | None = None,
) -> blocks.Table:
    return blocks.Table(
        block_id,
        caption,
        tuple(columns),
        blocks.rows_of(rows),
        ring,
        source=source,
        note=note,
        collapsed=len(rows) > blocks.MOST_OPEN_ROWS,
    )


def _parts(lineage: Json, ring: str) -> Section:
    columns = (
        Column("part"),
        Column("pair"),
        Column("share"),
        Column("repetitions"),
        Column("cells", "n", True),
        Column("ended"),
        Column("attested"),
        Column("tag manifest, SHA-512"),
    )
    rows = [
        [
            label(str(part["run_id"]), href=f"{PARTS}/{part['run_id']}/data/report.html"),
            label(str(part["pair"])),
            label("{number}/{of}".format(**part_of(part, "share"))),
            label(", ".join(texts_of(part, "repetitions"))),
            blocks.count(exact_of(part, "cells_count")),
            label(str(part["ended_utc"])),
            label("by both ends" if part["attestation"] else "no"),
            _digest(str(part["tagmanifest_sha512"])),
        ]
        for part in rows_of(lineage, "parts")
    ]
    table = _table("parts", "Parts of this bundle, each whole", columns, rows, ring, "merge.json")
    return Section("section-parts", "Whose parts these are", (table,))


def _digest(text: str) -> Cell:
    return Cell(text[:12] + "…", title=text, kind="id")


def _hosts(lineage: Json, ring: str) -> Section:
    columns = (
        Column("pair"),
        Column("end"),
        Column("counts as host"),
        Column("machine"),
        Column("processor"),
        Column("cores", "n", True),
        Column("kernel"),
        Column("board"),
    )
    rows = [
        [
            label(pair),
            label(role),
            label(str(told["counts_as_host"])),
            label(str(host["machine"] or "not told")),
            label(str(host["cpu_model"] or "not told")),
            blocks.count(exact_or_none(host, "cpu_count"), reason="not told"),
            label(str(host["kernel"] or "not told")),
            label(str(host["board_revision"] or "none told")),
        ]
        for pair, told in parts_of(lineage, "pairs").items()
        for role, host in parts_of(told, "hosts").items()
    ]
    return Section(
        "section-hosts",
        "Hosts by pair",
        (_table("hosts", "Hosts by pair", columns, rows, ring, "merge.json"),),
        "Pairs that share a machine count as one host: two witnesses on one board are one.",
    )


def _metric(name: object) -> str:
    metric = BY_NAME.get(str(name))
    return metric.label if metric else str(name)


def _effect(row: Row, reason: str = "reason") -> list[Cell]:
    """Effect, interval, or why there is none."""
    shown = label(effect_text(row)) if row["mean_effect"] is not None else blocks.missing("no value")
    if row["low_effect"] is None:
        return [shown, blocks.missing(str(row[reason] or INSUFFICIENT))]
    return [shown, label(interval_text(row))]


def _these(tables: Mapping[str, Table], ring: str) -> list[Section]:
    return [*_these_conditions(tables.get("condition_effects"), ring), *_these_families(tables, ring)]


def _these_conditions(table: Table | None, ring: str) -> Iterator[Section]:
    rows = [row for row in table.rows if row["scope"] == ALL_SUITES] if table is not None else []
    if not rows:
        return
    columns = (
        Column("condition"),
        Column("against"),
        Column("metric"),
        Column("blocks", "n", True),
        Column("mean effect"),
        Column("95 % interval"),
        Column("p (Holm)", "", True),
        Column("verdict"),
    )
    lines = [
        [
            label(row["condition"]),
            label(row["reference"]),
            label(_metric(row["metric"])),
            blocks.count(str(row["n_pairs"])),
            *_effect(row),
            _p(row),
            label(row["verdict"]),
        ]
        for row in rows
    ]
    made = _table(
        "these-conditions",
        "Conditions on these boards",
        columns,
        lines,
        ring,
        "analysis/condition_effects.csv",
    )
    yield Section("section-these", "On these boards: conditions", (made,), f"{UNITS['block']} {THESE}")


def _these_families(tables: Mapping[str, Table], ring: str) -> Iterator[Section]:
    table = tables.get("effects")
    if table is None or not table.rows:
        return
    columns = (
        Column("part"),
        Column("family"),
        Column("against"),
        Column("suites", "n", True),
        Column("ratio"),
        Column("interval"),
        Column("verdict"),
    )
    lines = [
        [
            label(row["part"]),
            label(row["family"]),
            label(row["reference"]),
            blocks.count(str(row["n_suites"])),
            *_ratio(row),
            label(row["verdict"]),
        ]
        for row in table.rows
    ]
    made = _table("these-families", "Families on these boards", columns, lines, ring, "analysis/effects.csv")
    yield Section("section-families", "On these boards: families", (made,), f"{UNITS['suite']} {THESE}")


#: what an interval of all blocks says of hosts
THESE = (
    "Blocks of all pairs are taken together, and no other boards are meant: where hosts differ, that widens "
    "the interval."
)


def _ratio(row: Row) -> list[Cell]:
    if row["ratio"] is None or row["low_ratio"] is None:
        return [blocks.missing(INSUFFICIENT), blocks.missing(INSUFFICIENT)]
    low, high = (significant(real(row[f"{end}_ratio"])) for end in ("low", "high"))
    return [label(f"{significant(real(row['ratio']))} ×"), label(f"{low} – {high}")]


def _p(row: Row) -> Cell:
    return blocks.number(None if row["p_holm"] is None else real(row["p_holm"]), reason="no test")


def _contrast(row: Row) -> list[Cell]:
    return [label(row["contrast"]), label(row["reference"]), label(_metric(row["metric"]))]


_CONTRAST = (Column("contrast"), Column("against"), Column("metric"))


def _amount(row: Row, name: str) -> str:
    unit = " points" if row["scale"] == "difference" else " ×"
    return "–" if row[name] is None else significant(real(row[name])) + unit


def hangs_on(row: Row) -> str:
    """Hosts without which the verdict would be another; not told where none of so few may be left out."""
    if int(str(row["n_hosts"])) <= MIN_RUNS_COUNT:
        return "not told"
    return str(row["hangs_on_host"] or "–")


def _over(table: Table, ring: str) -> Section | None:
    if not table.rows:
        return None
    columns = (
        *_CONTRAST,
        Column("hosts", "n", True),
        Column("mean effect"),
        Column("95 % interval"),
        Column("p (Holm)", "", True),
        Column("spread of hosts"),
        Column("hosts, least to most"),
        Column("one left out, least to most"),
        Column("hangs on"),
        Column("verdict"),
    )
    rows = [
        [
            *_contrast(row),
            blocks.count(str(row["n_hosts"])),
            *_effect(row),
            _p(row),
            label(_amount(row, "spread")),
            label(f"{_amount(row, 'least_host_effect')} to {_amount(row, 'most_host_effect')}"),
            label(f"{_amount(row, 'least_left_out_effect')} to {_amount(row, 'most_left_out_effect')}"),
            label(hangs_on(row)),
            label(row["verdict"]),
        ]
        for row in table.rows
    ]
    made = _table(
        "over-hosts",
        "Effects on boards like these",
        columns,
        rows,
        ring,
        "analysis/effects_over_hosts.csv",
        "Spread: standard deviation of the hosts' values (of a ratio: its factor). Hangs on: hosts without "
        "which the verdict would be another; not told of three hosts, of which two are too few for one.",
    )
    return Section("section-over", "On boards like these", (made,), HOST_UNITS)


def _by_host(table: Table, ring: str) -> Section | None:
    if not table.rows:
        return None
    columns = (
        *_CONTRAST,
        Column("host"),
        Column("n", "", True),
        Column("of"),
        Column("effect"),
        Column("95 % interval"),
    )
    rows = [
        [
            *_contrast(row),
            label(row["host"]),
            blocks.count(str(row["n_units"])),
            label(row["unit_of_inference"]),
            *_effect(row),
        ]
        for row in table.rows
    ]
    made = _table("by-host", "Effects by host", columns, rows, ring, "analysis/effects_by_host.csv")
    return Section(
        "section-by-host",
        "Effects by host",
        (made,),
        "Each interval is of one host: conditions by its blocks, families by suites. It says what further "
        "units would give on that very host.",
    )


def _left_out(table: Table, ring: str) -> Section | None:
    if not table.rows:
        return None
    columns = (
        *_CONTRAST,
        Column("without"),
        Column("hosts", "n", True),
        Column("mean effect"),
        Column("95 % interval"),
        Column("verdict"),
    )
    rows = [
        [
            *_contrast(row),
            label(row["left_out_host"]),
            blocks.count(str(row["n_hosts"])),
            *_effect(row),
            label(row["verdict"]),
        ]
        for row in table.rows
    ]
    made = _table("left-out", "One host left out", columns, rows, ring, "analysis/leave_one_host_out.csv")
    return Section("section-left-out", "One host left out", (made,), HOST_UNITS)


def _differences(table: Table, ring: str) -> Section | None:
    if not table.rows:
        return None
    columns = (
        *_CONTRAST,
        Column("host"),
        Column("other"),
        Column("difference"),
        Column("p (Holm)", "", True),
        Column("verdict"),
    )
    rows = [
        [
            *_contrast(row),
            label(row["host"]),
            label(row["other_host"]),
            label(_amount(row, "difference_effect")),
            _p(row),
            label(row["verdict"]),
        ]
        for row in table.rows
    ]
    differing = sum(row["verdict"] == DIFFER for row in table.rows)
    made = _table(
        "host-differences", "Hosts two by two", columns, rows, ring, "analysis/host_differences.csv"
    )
    return Section(
        "section-differences",
        "Do hosts differ in an effect?",
        (made,),
        f"{differing} of {len(table.rows)} comparisons differ (Welch's t over blocks, Holm over the metrics "
        "and pairs of hosts of a contrast). The unit is the block on either host: nothing is said of other "
        "hosts.",
    )


def _times(table: Table, ring: str) -> Section | None:
    if not table.rows:
        return None
    columns = (
        Column("pair"),
        Column("suite"),
        Column("condition"),
        Column("cells", "n", True),
        Column("median", "ms", True),
        Column("95 % interval of the mean", "ms"),
    )
    rows = [
        [
            label(row["pair"]),
            label(row["suite_id"]),
            label(row["condition"]),
            blocks.count(str(row["n_cells"])),
            blocks.number(real(row["median_ms"])),
            _interval(row),
        ]
        for row in table.rows
    ]
    made = _table(
        "times", "Cold handshake at the drone, by host", columns, rows, ring, "analysis/times_by_host.csv"
    )
    return Section("section-times", "Times by host, never pooled", (made,), UNITS["repetition"])


def _interval(row: Row) -> Cell:
    if row["interval_low_ms"] is None:
        return blocks.missing(str(row["interval_method"] or INSUFFICIENT))
    low, high = (significant(real(row[f"interval_{end}_ms"])) for end in ("low", "high"))
    return label(f"{low} – {high}")
