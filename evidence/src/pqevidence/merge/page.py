"""The page of a merged bundle: whose it is, effects on these boards, on boards like these, by host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

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

#: a column of a page's table: its head, and what a row of the analysis shows there
Shown = tuple[Column, Callable[[Row], Cell]]

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
    source: str,
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


def _effect(row: Row) -> Cell:
    return label(effect_text(row)) if row["mean_effect"] is not None else blocks.missing("no value")


def _effect_interval(row: Row) -> Cell:
    """The interval, or why there is none."""
    if row["low_effect"] is None:
        return blocks.missing(str(row["reason"] or INSUFFICIENT))
    return label(interval_text(row))


def _text(name: str, head: str | None = None) -> Shown:
    return Column(head or name), lambda row: label(row[name])


def _count(name: str, head: str) -> Shown:
    return Column(head, "n", True), lambda row: blocks.count(str(row[name]))


_METRIC: Shown = Column("metric"), lambda row: label(_metric(row["metric"]))
_CONTRAST = (_text("contrast"), _text("reference", "against"), _METRIC)
_EFFECT: tuple[Shown, Shown] = (
    (Column("mean effect"), _effect),
    (Column("95 % interval"), _effect_interval),
)
_P: Shown = (
    Column("p (Holm)", "", True),
    lambda row: blocks.number(None if row["p_holm"] is None else real(row["p_holm"]), reason="no test"),
)


def _drawn(
    block_id: str,
    caption: str,
    columns: Sequence[Shown],
    rows: Sequence[Row],
    ring: str,
    table: str,
    note: str | None = None,
) -> blocks.Table:
    """Rows of a table of the analysis, a cell a column."""
    lines = [[cell(row) for _, cell in columns] for row in rows]
    return _table(
        block_id, caption, [head for head, _ in columns], lines, ring, f"analysis/{table}.csv", note
    )


def _these(tables: Mapping[str, Table], ring: str) -> list[Section]:
    return [*_these_conditions(tables.get("condition_effects"), ring), *_these_families(tables, ring)]


def _these_conditions(table: Table | None, ring: str) -> Iterator[Section]:
    rows = [row for row in table.rows if row["scope"] == ALL_SUITES] if table is not None else []
    if not rows:
        return
    columns = (
        _text("condition"),
        _text("reference", "against"),
        _METRIC,
        _count("n_pairs", "blocks"),
        *_EFFECT,
        _P,
        _text("verdict"),
    )
    made = _drawn("these-conditions", "Conditions on these boards", columns, rows, ring, "condition_effects")
    yield Section("section-these", "On these boards: conditions", (made,), f"{UNITS['block']} {THESE}")


def _these_families(tables: Mapping[str, Table], ring: str) -> Iterator[Section]:
    table = tables.get("effects")
    if table is None or not table.rows:
        return
    columns = (
        _text("part"),
        _text("family"),
        _text("reference", "against"),
        _count("n_suites", "suites"),
        (Column("ratio"), lambda row: _ratio(row)[0]),
        (Column("interval"), lambda row: _ratio(row)[1]),
        _text("verdict"),
    )
    made = _drawn("these-families", "Families on these boards", columns, table.rows, ring, "effects")
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


def _amount(row: Row, name: str) -> str:
    unit = " points" if row["scale"] == "difference" else " ×"
    return "–" if row[name] is None else significant(real(row[name])) + unit


def _range(row: Row, name: str) -> Cell:
    return label(f"{_amount(row, f'least_{name}')} to {_amount(row, f'most_{name}')}")


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
        _count("n_hosts", "hosts"),
        *_EFFECT,
        _P,
        (Column("spread of hosts"), lambda row: label(_amount(row, "spread"))),
        (Column("hosts, least to most"), lambda row: _range(row, "host_effect")),
        (Column("one left out, least to most"), lambda row: _range(row, "left_out_effect")),
        (Column("hangs on"), lambda row: label(hangs_on(row))),
        _text("verdict"),
    )
    made = _drawn(
        "over-hosts",
        "Effects on boards like these",
        columns,
        table.rows,
        ring,
        "effects_over_hosts",
        "Spread: standard deviation of the hosts' values (of a ratio: its factor). Hangs on: hosts without "
        "which the verdict would be another; not told of three hosts, of which two are too few for one.",
    )
    return Section("section-over", "On boards like these", (made,), HOST_UNITS)


def _by_host(table: Table, ring: str) -> Section | None:
    if not table.rows:
        return None
    effect, interval = _EFFECT
    columns = (
        *_CONTRAST,
        _text("host"),
        (Column("n", "", True), lambda row: blocks.count(str(row["n_units"]))),
        _text("unit_of_inference", "of"),
        (Column("effect"), effect[1]),
        interval,
    )
    made = _drawn("by-host", "Effects by host", columns, table.rows, ring, "effects_by_host")
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
        _text("left_out_host", "without"),
        _count("n_hosts", "hosts"),
        *_EFFECT,
        _text("verdict"),
    )
    made = _drawn("left-out", "One host left out", columns, table.rows, ring, "leave_one_host_out")
    return Section("section-left-out", "One host left out", (made,), HOST_UNITS)


def _differences(table: Table, ring: str) -> Section | None:
    if not table.rows:
        return None
    columns = (
        *_CONTRAST,
        _text("host"),
        _text("other_host", "other"),
        (Column("difference"), lambda row: label(_amount(row, "difference_effect"))),
        _P,
        _text("verdict"),
    )
    differing = sum(row["verdict"] == DIFFER for row in table.rows)
    made = _drawn("host-differences", "Hosts two by two", columns, table.rows, ring, "host_differences")
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
        _text("pair"),
        _text("suite_id", "suite"),
        _text("condition"),
        _count("n_cells", "cells"),
        (Column("median", "ms", True), lambda row: blocks.number(real(row["median_ms"]))),
        (Column("95 % interval of the mean", "ms"), _interval),
    )
    made = _drawn("times", "Cold handshake at the drone, by host", columns, table.rows, ring, "times_by_host")
    return Section("section-times", "Times by host, never pooled", (made,), UNITS["repetition"])


def _interval(row: Row) -> Cell:
    if row["interval_low_ms"] is None:
        return blocks.missing(str(row["interval_method"] or INSUFFICIENT))
    low, high = (significant(real(row[f"interval_{end}_ms"])) for end in ("low", "high"))
    return label(f"{low} – {high}")
