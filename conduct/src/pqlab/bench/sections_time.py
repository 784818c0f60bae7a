"""The page's parts on time, sizes and integrity: `primitives-2026-01` §1–§11 and its appendix, recomputed."""

from __future__ import annotations

from collections.abc import Sequence

from pqbase.text import utc_page
from pqevidence.analysis.table import Row
from pqevidence.analysis.table import Table as Values
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import (
    Block,
    Cell,
    Column,
    Facts,
    Figure,
    Paragraphs,
    Section,
    Table,
    label,
    number,
)
from pqevidence.report.boxes import Box, boxes
from pqevidence.report.svg import counted, significant
from pqlab.bench.sections_families import families_table, levels_table
from pqlab.bench.tree import Measured, Tree
from pqtunnel.suites import AEADS, KEM_FAMILIES, KEMS, SIG_FAMILIES, SIGS, get

CATEGORIES = {
    "kem": "KEM",
    "sig": "signature",
    "aead": "AEAD",
    "suites": "full handshake",
    "ladder": "ladder",
}
_NOT_PUBLISHED = "not in primitives-2026-01"
_TIME_COLUMNS = (
    Column("operation"), Column("median", "ms", True), Column("published median", "ms, Raspberry Pi 4", True),
    Column("mean", "ms", True), Column("published mean", "ms", True), Column("minimum", "ms", True),
    Column("published minimum", "ms", True), Column("maximum", "ms", True),
    Column("published maximum", "ms", True), Column("n", "", True), Column("ring"), Column("host"),
)  # fmt: skip


def published_cell(value: object, reason: str = _NOT_PUBLISHED) -> Cell:
    """A published number, or that there is none."""
    return blocks.number(value) if isinstance(value, (int, float)) else Cell(reason, kind="none")


def shown(value: object, reason: object) -> Cell:
    """A measured number, or its reason."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return blocks.missing(str(reason) if reason else None)
    return blocks.number(value)


def name_of(row: Row) -> str:
    """ML-KEM-512 keygen; AES-256-GCM encrypt 64 B; a suite's id."""
    if row["category"] == "suites":
        return str(row["algorithm"])
    size = f" {row['payload_bytes']} B" if row["payload_bytes"] else ""
    return f"{row['algorithm']} {row['operation']}{size}"


def summary(tree: Tree, times: Values) -> Section:
    """§1: counts, success, duration, fastest."""
    total = sum(one.row["n"] + one.row["failed"] for one in tree.files)
    good = sum(one.row["n"] for one in tree.files)
    first = min(one.first_ns for one in tree.files)
    last = max(one.last_ns for one in tree.files)
    facts: list[tuple[str, Cell]] = [
        ("raw files", blocks.count(len(tree.files))),
        ("iterations", blocks.count(total)),
        ("published files and iterations", label("98, 19,600")),
        ("success rate", label(f"{100 * good / total:.2f} %")),
        ("from first to last iteration", label(f"{(last - first) / 60e9:.1f} min")),
    ]
    facts += [
        (f"{word} files", blocks.count(len(tree.of(category)))) for category, word in CATEGORIES.items()
    ]
    rows = []
    for category in ("kem", "sig", "aead"):
        own = [r for r in times.rows if r["category"] == category and r["median_ms"] is not None]
        for row in sorted(own, key=_median)[:2]:
            rows.append(
                [
                    label(f"{CATEGORIES[category]}: {name_of(row)}"),
                    number(_median(row)),
                    published_cell(row["published_median_ms"]),
                ]
            )
    fastest = Table(
        "bench-fastest",
        "Shortest medians by category",
        (Column("operation"), Column("median", "ms", True), Column("published median", "ms", True)),
        blocks.rows_of(rows),
        _where(tree),
        "analysis/times.csv",
    )
    return Section("summary", "Summary", (Facts("bench-facts", "What was measured", tuple(facts)), fastest))


def _median(row: Row) -> float:
    value = row["median_ms"]
    if not isinstance(value, (int, float)):
        raise ValueError("only rows with a median are ranked")
    return float(value)


def _where(tree: Tree) -> str:
    return f"{tree.ring}, {tree.host}"


def setting(environment: dict[str, object]) -> Section:
    """§2 and §3: the machine, the builds, how it was measured."""
    keys = (
        "host",
        "machine",
        "board",
        "cpu",
        "kernel",
        "governor",
        "pinned_cpu",
        "load_average",
        "timer",
        "timer_overhead_ns",
        "build",
    )
    items = tuple((key.replace("_", " "), _fact(environment.get(key))) for key in keys)
    answers = environment.get("selftest")
    told = answers if isinstance(answers, list) else []
    states = [item.get("ok") for item in told if isinstance(item, dict)]
    text = f"{states.count(True)} right, {states.count(False)} wrong, {states.count(None)} not in this build"
    items += (("known answers before timing", label(text)),)
    sentences = (
        "Every operation is made ready outside the timer; time.perf_counter_ns is read before and after, "
        "time.time_ns around both, and no overhead is subtracted.",
        "Warm-up iterations are kept in the raw files, marked, and enter no number here.",
        "One core, no collection of garbage inside the timer; heavy-tailed key generation is shown as it is.",
        "The published column is of another machine: it is context and no comparison of versions.",
    )
    return Section(
        "setting",
        "Machine and method",
        (
            Facts("bench-environment", "Where this ran", items),
            Paragraphs("bench-method", sentences, as_list=True),
        ),
    )


def _fact(value: object) -> Cell:
    if value is None:
        return blocks.missing("not reported by this host")
    if isinstance(value, list):
        return label(", ".join(f"{part:.2f}" if isinstance(part, float) else str(part) for part in value))
    return label(value)


def coverage(tree: Tree) -> Section:
    """§4 and the appendix: which algorithms, their level, family, standard and lifecycle."""
    done: dict[str, set[str]] = {}
    for one in tree.files:
        done.setdefault(str(one.head["algorithm"]), set()).add(str(one.head["operation"]))
    rows = []
    for kind, registry in (("KEM", KEMS), ("signature", SIGS)):
        for algorithm in registry.values():
            rows.append(
                [
                    label(algorithm.name),
                    label(kind),
                    label(algorithm.level),
                    label(algorithm.family),
                    label(algorithm.standard),
                    label(str(algorithm.lifecycle)),
                    _done(done.get(algorithm.name)),
                ]
            )
    for aead in AEADS.values():
        rows.append(
            [
                label(aead.name),
                label("AEAD"),
                blocks.not_applicable(),
                blocks.not_applicable(),
                label(aead.standard),
                label(str(aead.lifecycle)),
                _done(done.get(aead.name)),
            ]
        )
    columns = tuple(
        Column(c) for c in ("algorithm", "kind", "level", "family", "standard", "state", "measured")
    )
    table = Table("bench-coverage", "Algorithms", columns, blocks.rows_of(rows), _where(tree), None)
    where = _where(tree)
    parts = (table, levels_table(where), families_table(where))
    return Section("coverage", "Coverage, levels, standards, families", parts)


def _done(operations: set[str] | None) -> Cell:
    return label(", ".join(sorted(operations))) if operations else blocks.missing("not part of this run")


def times_section(tree: Tree, times: Values, category: str, title: str) -> Section | None:
    """§5 to §8: one table, box plots, and all operations of an algorithm in one line."""
    own = [row for row in times.rows if row["category"] == category]
    if not own:
        return None
    rows = [_time_row(row) for row in own]
    drawn = (_drawing(tree, category, title), _boxes(tree, category, title))
    parts: list[Block] = [one for one in drawn if one is not None]
    parts.append(
        Table(
            f"bench-{category}",
            f"{title}: time an operation",
            _TIME_COLUMNS,
            blocks.rows_of(rows),
            _where(tree),
            "analysis/times.csv",
        )
    )
    return Section(category, title, tuple(parts))


def _time_row(row: Row) -> list[Cell]:
    cells = [label(name_of(row))]
    for name in ("median_ms", "mean_ms", "min_ms", "max_ms"):
        cells += [shown(row[name], row["reason"]), published_cell(row[f"published_{name}"])]
    return [*cells, blocks.count(str(row["n"])), label(row["ring"]), label(row["host"])]


_LETTERS = {"encapsulate": "encaps", "decapsulate": "decaps", "encrypt": "encaps", "decrypt": "decaps"}


def _dots(tree: Tree, category: str) -> list[figures.Dot]:
    return [
        figures.Dot(
            _dot_label(one),
            _LETTERS.get(str(one.head["operation"]), str(one.head["operation"])),
            one.row["median_ms"],
            *one.quartiles_ms,
        )
        for one in tree.of(category)
        if one.row["median_ms"] and one.quartiles_ms
    ]


def answer(tree: Tree, times: Values) -> Section:
    """How much was timed, the shortest and the longest of it, and every KEM and signature as a drawing."""
    known = sorted((row for row in times.rows if row["median_ms"] is not None), key=_median)
    told = f"{counted(len(known), 'operation')} timed on {tree.host}."
    if known:
        first, last = known[0], known[-1]
        told += (
            f" The shortest median is {significant(_median(first))} ms ({name_of(first)}), the longest "
            f"{significant(_median(last))} ms ({name_of(last)})."
        )
    parts: list[Block] = [Paragraphs("compared", (told,))]
    dots = [*_dots(tree, "kem"), *_dots(tree, "sig")]
    if dots:
        parts.append(
            Figure(
                "fig-bench-answer",
                "Time of each operation by algorithm: median and quartiles",
                figures.dot_rows("svg-bench-answer", "Operations", "median time, ms (log scale)", dots),
                _where(tree),
                "analysis/times.csv",
                (
                    ("s-1", "K keygen"),
                    ("s-2", "E encaps"),
                    ("s-3", "D decaps"),
                    ("s-4", "S sign"),
                    ("s-5", "V verify"),
                ),
            )
        )
    return Section("answer", "In short", tuple(parts))


def _drawing(tree: Tree, category: str, title: str) -> Figure | None:
    dots = _dots(tree, category)
    if not dots or category == "suites":
        return None
    what = "median time, ms (log scale)"
    svg = figures.dot_rows(f"fig-{category}-timing", f"{title}: time", what, dots)
    return Figure(
        f"fig-{category}-timing",
        f"{title}: median and quartiles of each operation",
        svg,
        _where(tree),
        "analysis/times.csv",
    )


def _boxes(tree: Tree, category: str, title: str) -> Figure | None:
    rows = []
    for one in sorted(tree.of(category), key=lambda o: str(o.head["operation"])):  # stable: registry's order
        if one.row["median_ms"] and one.quartiles_ms and one.row["min_ms"] and one.row["max_ms"]:
            operation = "" if category == "suites" else f" {one.head['operation']}"
            rows.append(
                Box(
                    f"{_dot_label(one).removeprefix('cs-')}{operation}",
                    _family_name(one),
                    one.row["n"],
                    one.row["min_ms"],
                    one.quartiles_ms[0],
                    one.row["median_ms"],
                    one.quartiles_ms[1],
                    one.row["p95_ms"],
                    one.row["max_ms"],
                )
            )
    if not rows:
        return None
    figure_id = f"fig-{category}-boxes"
    name = figure_id.replace("fig", "svg")
    svg = boxes(name, f"{title}: distributions", "ms (log scale)", rows, left=350.0)
    caption = f"{title}: distribution of every operation over its iterations"
    return Figure(figure_id, caption, svg, _where(tree), "analysis/times.csv")


def _family_name(one: Measured) -> str | None:
    algorithm = str(one.head["algorithm"])
    if one.head["category"] == "suites":
        algorithm = get(algorithm).kem.name
    families = {a.name: KEM_FAMILIES[a.family] for a in KEMS.values()}
    families |= {a.name: SIG_FAMILIES[a.family] for a in SIGS.values()}
    return families.get(algorithm)


def _dot_label(one: Measured) -> str:
    payload = one.head["sizes_bytes"].get("payload")
    return f"{one.head['algorithm']} {payload} B" if payload else str(one.head["algorithm"])


def sizes_section(tree: Tree, sizes: Values) -> Section | None:
    """§9."""
    parts = []
    for category, columns in (
        ("kem", ("public_key", "secret_key", "ciphertext", "shared_secret")),
        ("sig", ("public_key", "secret_key", "signature")),
    ):
        names = list(
            dict.fromkeys(
                str(o.head["algorithm"]) for o in tree.of(category) if o.head["operation"] == "keygen"
            )
        )
        values = {(r["algorithm"], r["quantity"]): r for r in sizes.rows}
        rows = []
        for name in names:
            cells = [label(name)]
            for column in columns:
                row = values.get((name, column), {})
                cells.append(shown(row.get("size_bytes"), "not reported"))
                cells.append(published_cell(row.get("published_bytes")))
            rows.append(cells)
        if rows:
            heads = [Column("algorithm")]
            for column in columns:
                word = column.replace("_", " ")
                heads += [Column(word, "B", True), Column(f"published {word}", "B", True)]
            parts.append(
                Table(
                    f"bench-{category}-sizes",
                    f"{CATEGORIES[category]} sizes",
                    tuple(heads),
                    blocks.rows_of(rows),
                    _where(tree),
                    "analysis/sizes.csv",
                )
            )
    return Section("sizes", "Sizes", tuple(parts)) if parts else None


def integrity_section(tree: Tree) -> Section:
    """§10 and §11: validation by category, checks, timeline, raw files."""
    rows, when = [], []
    for category, word in CATEGORIES.items():
        own = tree.of(category)
        if not own:
            continue
        good, bad = sum(o.row["n"] for o in own), sum(o.row["failed"] for o in own)
        rows.append(
            [
                label(word),
                *(blocks.count(n) for n in (len(own), good + bad, good, bad)),
                label(f"{100 * good / max(good + bad, 1):.2f} %"),
            ]
        )
        first, last = min(o.first_ns for o in own), max(o.last_ns for o in own)
        when.append([label(word), label(utc_page(first)), number((last - first) / 60e9)])
    checks = [
        [label(c.name), blocks.verdict("pass" if c.passed else "fail"), label(c.observed), label(c.expected)]
        for c in tree.checks
    ]
    files = [
        [label(o.path, href=f"performance/{o.path}"), blocks.count(o.row["n"]), blocks.count(o.size_bytes)]
        for o in tree.files
    ]
    counted = [Column("category"), *(Column(c, "", True) for c in ("files", "iterations", "good", "failed"))]
    where = _where(tree)
    parts: Sequence[Block] = (
        Table(
            "bench-integrity",
            "Validation by category",
            (*counted, Column("success rate")),
            blocks.rows_of(rows),
            where,
            "analysis/timeline.csv",
        ),
        Table(
            "bench-checks",
            "Consistency checks, recomputed from the raw files",
            tuple(Column(c) for c in ("check", "result", "observed", "expected")),
            blocks.rows_of(checks),
            where,
            "analysis/integrity.csv",
        ),
        Table(
            "bench-timeline",
            "When",
            (Column("category"), Column("first iteration", "UTC"), Column("to the last", "min", True)),
            blocks.rows_of(when),
            where,
            "analysis/timeline.csv",
        ),
        Table(
            "bench-raw",
            "Raw files",
            (Column("file"), Column("n", "", True), Column("size", "B", True)),
            blocks.rows_of(files),
            where,
            "analysis/files.csv",
            collapsed=True,
        ),
    )
    return Section("integrity", "Integrity and raw data", tuple(parts))
