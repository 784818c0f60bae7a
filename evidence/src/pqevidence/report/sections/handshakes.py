"""Handshake of all suites, primitives inside it and the rekey-share model."""

from __future__ import annotations

from pqevidence.analysis.groups import REKEY_INTERVALS_S
from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import to_float
from pqevidence.record.waiting import BEFORE_MEASURED
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Cell, Column, Figure, Section, Table, label, number, verdict
from pqevidence.report.scatter import Point, scatter
from pqevidence.report.sections.parts import wall_parts
from pqevidence.report.source import RawRow, Source, anchor, record_link, why_missing
from pqevidence.report.svg import counted, significant

MS = "ms"
FAMILY_LEGEND = (("f-mlkem", "ML-KEM"), ("f-hqc", "HQC"), ("f-mceliece", "Classic-McEliece"))


def all_suites(source: Source) -> Section:
    """Dots, heat map and table of every suite."""
    rows = source.rows("handshakes")
    one, under = source.of_one_condition(rows)
    drawn: list[blocks.Block] = [_dots(source, one, under)]
    heat = _heat(source, one, under)
    if heat is not None:
        drawn.append(heat)
    trade = _size_trade(source, one, under)
    if trade is not None:
        drawn.append(trade)
    drawn.append(_table(source, rows))
    drawn.append(wall_parts(source, one, under))
    drawn.append(_waiting(source, rows))
    return Section(
        "handshakes",
        "Handshake of all suites",
        tuple(drawn),
        "Cold handshakes: a fresh key pair each time. Wall is measured on the drone from connect to the "
        "verified "
        "Finished; the crypto sum adds the five primitives of that same handshake on both ends.",
    )


def _level(suite_id: str) -> str:
    """NIST level, or the word that stands in its place."""
    facts = suite_facts(suite_id)
    return facts.level_name if facts else "unknown"


def _group(suite_id: str) -> str:
    facts = suite_facts(suite_id)
    if facts is None:
        return "outside the registry"
    return f"NIST level {facts.level}" if facts.has_level else "no NIST level"


def _medians(rows: list[RawRow], column: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in rows:
        value = to_float(row[column])
        if row["verdict"] == "pass" and value is not None:
            values.setdefault(row["suite_id"], []).append(value)
    return {suite: m for suite, v in values.items() if (m := median(v)) is not None}


def _dots(source: Source, rows: list[RawRow], under: str) -> Figure:
    walls, sums = _medians(rows, "drone_wall_median_ms"), _medians(rows, "crypto_sum_median_ms")
    first = {row["suite_id"]: row for row in reversed(rows)}
    dots = [
        figures.SuiteDot(
            label=suite.removeprefix("cs-"),
            family=row["kem_family"] or None,
            value=walls.get(suite),
            marker=sums.get(suite),
            href=anchor(row["cell_id"]),
            group=_group(suite),
            missing=f"not measured: {row['verdict']}",
        )
        for suite, row in first.items()
    ]
    dots.sort(key=lambda b: (b.group, b.value is None, b.value or 0.0, b.label))
    used = {b.family for b in dots}
    return Figure(
        "fig-handshake-suites",
        f"Cold handshake of {counted(len(dots), 'suite')}, fastest first within each level{under}",
        figures.handshake_dots("svg-handshake-suites", "Cold handshake by suite", dots),
        source.ring,
        "analysis/handshakes.csv",
        (*((c, n) for c, n in FAMILY_LEGEND if n in used), ("mark", "sum of the five primitives")),
    )


def _heat(source: Source, rows: list[RawRow], under: str) -> Figure | None:
    cells: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        value = to_float(row["drone_wall_median_ms"])
        if row["verdict"] == "pass" and value is not None and row["kem"]:
            cells.setdefault((row["kem"], row["sig"]), []).append(value)
    values = {key: m for key, v in cells.items() if (m := median(v)) is not None}
    if len(values) < 6:  # a handful of suites is no grid
        return None
    order = {row["kem"]: (row["kem_family"], row["level"]) for row in rows if row["kem"]}
    sig_order = {row["sig"]: (row["sig_family"], row["level"]) for row in rows if row["sig"]}
    families = ["ML-KEM", "HQC", "Classic-McEliece", "ML-DSA", "Falcon", "SPHINCS+"]

    def rank(item: tuple[str, tuple[str, str]]) -> tuple[int, str]:
        return (families.index(item[1][0]) if item[1][0] in families else 9, item[1][1])

    kems = [k for k, _ in sorted(order.items(), key=rank)]
    sigs = [s for s, _ in sorted(sig_order.items(), key=rank)]
    return Figure(
        "fig-handshake-heat",
        f"Median handshake by KEM and signature, over AEADs and repetitions{under}",
        figures.heat_map("svg-handshake-heat", "Handshake by KEM and signature", kems, sigs, values, MS),
        source.ring,
        "analysis/handshakes.csv",
    )


def _size_trade(source: Source, rows: list[RawRow], under: str) -> Figure | None:
    """Handshake over the bytes that public key, ciphertext and signature put on the wire."""
    sizes: dict[str, int] = {}
    for r in source.rows("sizes"):
        parts = [r[c] for c in ("public_key_bytes", "ciphertext_bytes", "signature_bytes") if r[c]]
        if parts:
            sizes[r["algorithm"]] = sum(int(p) for p in parts)
    walls: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        wall = to_float(row["drone_wall_median_ms"])
        if row["verdict"] == "pass" and wall is not None and row["kem"] in sizes and row["sig"] in sizes:
            walls.setdefault((row["kem"], row["sig"], row["kem_family"]), []).append(wall)
    points = [
        Point(f"{kem} + {sig}", family, float(sizes[kem] + sizes[sig]), middle)
        for (kem, sig, family), values in walls.items()
        if (middle := median(values)) is not None
    ]
    if len(points) < 6:  # a handful of suites is no cloud
        return None
    families = {p.family for p in points}
    return Figure(
        "fig-handshake-size",
        f"Median handshake over the bytes of public key, ciphertext and signature{under}",
        scatter(
            "svg-handshake-size",
            "Handshake and size",
            "bytes on the wire (log scale)",
            "handshake, ms (log scale)",
            points,
            "B",
            MS,
        ),
        source.ring,
        "analysis/handshakes.csv",
        tuple((c, n) for c, n in FAMILY_LEGEND if n in families),
    )


def _table(source: Source, rows: list[RawRow]) -> Table:
    columns = [Column("suite"), Column("level", "", True)]
    if source.many_conditions:
        columns.append(Column("condition"))
    if source.repetitions > 1:
        columns.append(Column("rep", "", True))
    columns += [
        Column("verdict"),
        Column("n", "", True),
        Column("wall drone, median", MS, True),
        Column("p95", MS, True),
        Column("min", MS, True),
        Column("max", MS, True),
        Column("wall GCS, median", MS, True),
        Column("crypto sum", MS, True),
        Column("wall / crypto", "", True),
        Column("span cover drone", "%", True),
        Column("span cover GCS", "%", True),
        Column("raw"),
    ]
    lines = []
    for row in rows:
        why = why_missing(row)
        line: list[Cell] = [
            label(row["suite_id"], href=anchor(row["cell_id"])),
            label(_level(row["suite_id"])),
        ]
        if source.many_conditions:
            line.append(label(row["condition"]))
        if source.repetitions > 1:
            line.append(blocks.count(source.nth(row["repetition"])))
        line += [verdict(row["verdict"]), blocks.count(row["n"])]
        line += [
            number(row["drone_wall_median_ms"], reason=why),
            blocks.tail(row["drone_wall_p95_ms"], n=row["n"], reason=why),
        ]
        line += [
            number(row[name], reason=why)
            for name in (
                "drone_wall_min_ms",
                "drone_wall_max_ms",
                "gcs_wall_median_ms",
                "crypto_sum_median_ms",
                "wall_over_crypto_ratio",
            )
        ]
        line += [
            number(row[name], digits=4, reason=why)
            for name in ("coverage_drone_min_pct", "coverage_gcs_min_pct")
        ]
        line.append(record_link(row["cell_id"]))
        lines.append(line)
    return Table(
        "handshake-table",
        "Cold handshake of every cell; median, p95, min and max over its n handshakes",
        tuple(columns),
        blocks.rows_of(lines),
        source.ring,
        "analysis/handshakes.csv",
        "Span cover: the least share of a host's wall that its independently timed spans add up to.",
    )


def _waiting(source: Source, rows: list[RawRow]) -> Table:
    """Each end's wall in three parts, with the reason where a host does not tell them."""
    parts = (
        "processor_median_ms",
        "peer_wait_median_ms",
        "processor_wait_median_ms",
        "processor_wait_max_ms",
        "involuntary_count",
    )
    columns = [Column("suite")]
    if source.many_conditions:
        columns.append(Column("condition"))
    if source.repetitions > 1:
        columns.append(Column("rep", "", True))
    for end in ("drone", "GCS"):
        columns += [
            Column(f"{end}: work", MS, True),
            Column("for the peer", MS, True),
            Column("for a processor", MS, True),
            Column("at most", MS, True),
            Column("preempted", "", True),
        ]
    lines = []
    for row in rows:
        line: list[Cell] = [label(row["suite_id"], href=anchor(row["cell_id"]))]
        if source.many_conditions:
            line.append(label(row["condition"]))
        if source.repetitions > 1:
            line.append(blocks.count(source.nth(row["repetition"])))
        for role in ("drone", "gcs"):
            told = source.cells[row["cell_id"]].value("D", f"handshake_processor_{role}_ms") or {}
            why = str(why_missing(row) or told.get("reason") or BEFORE_MEASURED)
            line += [number(row.get(f"{role}_{part}"), reason=why) for part in parts]
        lines.append(line)
    return Table(
        "handshake-waiting",
        "What each end's wall of the cold handshake went into: work and waiting, medians over n handshakes",
        tuple(columns),
        blocks.rows_of(lines),
        source.ring,
        "analysis/handshakes.csv",
        "Work: processor time of the thread. For the peer: it slept, for the network and the other end. For "
        "a processor: it could have run and had none, because something else ran. The three make up each "
        "wall; their medians need not make up its median. Preempted: times it was taken off, over all "
        "handshakes.",
    )


def primitives(source: Source) -> Section | None:
    """Median time of each operation on the host that carried it out."""
    rows = source.rows("primitives")
    if not rows:
        return None
    dots = [
        figures.Dot(
            r["algorithm"], r["operation"], float(r["median_ms"]), float(r["q1_ms"]), float(r["q3_ms"])
        )
        for r in rows
        if r.get("condition") == rows[0].get("condition")  # tables of an earlier version pool them
    ]
    many = source.many_conditions
    condition = [Column("condition")] if many else []
    lines = [
        [
            label(r["algorithm"]),
            blocks.count(r["level"]),
            label(r["operation"]),
            label(r["host"]),
            *([label(r.get("condition", "all"))] if many else []),
            blocks.count(r["n_cells"]),
            blocks.count(r["n_handshakes"]),
            number(r["median_ms"]),
            number(r["q1_ms"]),
            number(r["q3_ms"]),
            number(r["mean_ms"]),
            number(r["min_ms"]),
            number(r["max_ms"]),
            label(r["ring"]),
        ]
        for r in rows
    ]
    return Section(
        "primitives",
        "Primitives inside the handshake",
        (
            Figure(
                "fig-primitives",
                "Primitive operations as the handshakes ran them"
                + (f", condition {rows[0].get('condition', 'all')}" if many else ""),
                figures.dot_rows("svg-primitives", "Primitive operations", "median, ms (log scale)", dots),
                source.ring,
                "analysis/primitives.csv",
                (
                    ("s-1", "K keygen"),
                    ("s-2", "E encaps"),
                    ("s-3", "D decaps"),
                    ("s-4", "S sign"),
                    ("s-5", "V verify"),
                ),
            ),
            Table(
                "primitive-table",
                "Primitive operations: median of cell medians, quartiles over cells, extremes over "
                "handshakes",
                (
                    Column("algorithm"),
                    Column("level", "", True),
                    Column("operation"),
                    Column("host"),
                    *condition,
                    Column("cells", "n", True),
                    Column("handshakes", "n", True),
                    Column("median", MS, True),
                    Column("Q1", MS, True),
                    Column("Q3", MS, True),
                    Column("mean", MS, True),
                    Column("min", MS, True),
                    Column("max", MS, True),
                    Column("ring"),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/primitives.csv",
            ),
        ),
        "One span each, on the host that did the work: the GCS makes keys, signs and decapsulates, the drone "
        "verifies and encapsulates. Cold caches and queueing between steps are part of them.",
    )


def sizes(source: Source) -> Section | None:
    """Sizes of what travels in a handshake."""
    rows = source.rows("sizes")
    if not rows:
        return None
    series = (
        ("public key", "public_key_bytes"),
        ("ciphertext", "ciphertext_bytes"),
        ("signature", "signature_bytes"),
    )
    dots = [
        figures.Dot(r["algorithm"], name, float(r[column]), float(r[column]), float(r[column]))
        for r in rows
        for name, column in series
        if r[column]
    ]
    columns = ("public_key_bytes", "ciphertext_bytes", "shared_secret_bytes", "signature_bytes")
    own = {"kem": columns[:3], "sig": columns[3:]}
    lines = [
        [
            label(r["algorithm"]),
            label(r["family"]),
            blocks.count(r["level"]),
            *(
                blocks.count(r[c], reason="the records of its cells do not agree on it")
                if c in own[r["kind"]]
                else blocks.not_applicable()
                for c in columns
            ),
            blocks.count(r["n_cells"]),
        ]
        for r in rows
    ]
    return Section(
        "sizes",
        "Sizes on the wire",
        (
            Figure(
                "fig-sizes",
                "Public key, ciphertext and signature of each algorithm",
                figures.dot_rows("svg-sizes", "Sizes on the wire", "bytes (log scale)", dots, "B"),
                source.ring,
                "analysis/sizes.csv",
                (("s-1", "P public key"), ("s-2", "C ciphertext"), ("s-4", "S signature")),
            ),
            Table(
                "sizes-table",
                "Sizes as the records hold them; a Falcon signature is at most this long",
                (
                    Column("algorithm"),
                    Column("family"),
                    Column("level", "", True),
                    Column("public key", "B", True),
                    Column("ciphertext", "B", True),
                    Column("shared secret", "B", True),
                    Column("signature", "B", True),
                    Column("cells", "n", True),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/sizes.csv",
            ),
        ),
    )


def phi(source: Source) -> Section | None:
    """Φ(R): fastest and slowest suite of each KEM family as curves, all suites as a table."""
    rows = source.rows("phi")
    if not rows:
        return None
    one, under = source.of_one_condition(rows)
    by_family: dict[str, list[RawRow]] = {}
    for row in one:
        facts = suite_facts(row["suite_id"])
        by_family.setdefault(facts.kem_family if facts else "other", []).append(row)
    lines = []
    for family, members in by_family.items():
        ordered = sorted(members, key=lambda r: (float(r["t_median_ms"]), r["suite_id"]))
        for row, word in ((ordered[0], "fastest"), (ordered[-1], "slowest"))[: 1 if len(ordered) == 1 else 2]:
            points = tuple((float(r), float(row[f"phi_{r}s_pct"])) for r in REKEY_INTERVALS_S)
            name = f"{family}, {word}: {significant(float(row['t_median_ms']))} ms"
            lines.append(figures.Curve(name, family, points))
    lines.sort(key=lambda c: -c.points[-1][1])
    table_rows = [
        [
            label(row["suite_id"]),
            *([label(row["condition"])] if source.many_conditions else []),
            number(row["t_median_ms"]),
            blocks.count(row["n_cells"]),
            *(number(row[f"phi_{r}s_pct"]) for r in REKEY_INTERVALS_S),
            label("model"),
        ]
        for row in sorted(rows, key=lambda r: (float(r["t_median_ms"]), r["suite_id"]))
    ]
    condition = [Column("condition")] if source.many_conditions else []
    return Section(
        "phi",
        "Rekey share Φ(R): model",
        (
            Figure(
                "fig-phi",
                f"Model of the share of time spent in handshakes when rekeying every R seconds{under}",
                figures.curves(
                    "svg-phi",
                    "Rekey share model",
                    "rekey interval R, s (log scale)",
                    "Φ, % (model, log scale)",
                    lines,
                    logarithmic=True,
                ),
                source.ring,
                "analysis/phi.csv",
                tuple((c, n) for c, n in FAMILY_LEGEND if n in by_family),
            ),
            Table(
                "phi-table",
                "Φ(R) = T / (R + T) as a model, from the measured median T of each suite",
                (
                    Column("suite"),
                    *condition,
                    Column("T, measured", MS, True),
                    Column("cells", "n", True),
                    *(Column(f"Φ({r} s)", "%", True) for r in REKEY_INTERVALS_S),
                    Column("kind"),
                ),
                blocks.rows_of(table_rows),
                source.ring,
                "analysis/phi.csv",
                collapsed=len(table_rows) > 12,
            ),
        ),
        "T is measured, Φ is computed: the published model takes a handshake as a pause. No rekey enters "
        "these figures, and a make-before-break rekey need not pause traffic.",
    )
