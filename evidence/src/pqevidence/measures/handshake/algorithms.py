"""Primitives inside the handshake, and what of them travels."""

from __future__ import annotations

from pqevidence.analysis.column import pick
from pqevidence.analysis.handshakes import PRIMITIVE_COLUMNS
from pqevidence.measures.handshake.tables import SIZE_COLUMNS
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Cell, Figure, Section, Table
from pqevidence.report.columns import Show, cells, heads
from pqevidence.report.source import RawRow, Source


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
    shown = pick(
        PRIMITIVE_COLUMNS,
        "algorithm",
        "level",
        "operation",
        "host",
        *(["condition"] if many else []),
        *("n_cells", "n_handshakes", "median_ms", "q1_ms", "q3_ms", "mean_ms", "min_ms", "max_ms", "ring"),
    )
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
                heads(shown),
                blocks.rows_of([cells(row, shown, COUNTED) for row in rows]),
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
                heads(SIZES),
                blocks.rows_of([cells(row, SIZES, OF_SIZES) for row in rows]),
                source.ring,
                "analysis/sizes.csv",
            ),
        ),
    )


def _count(name: str) -> Show:
    return lambda row: blocks.count(row[name])


def _size(name: str) -> Show:
    """A size of that kind of algorithm; the other kind has none."""

    def show(row: RawRow) -> Cell:
        if (row["kind"] == "sig") != (name == "signature_bytes"):
            return blocks.not_applicable()
        return blocks.count(row[name], reason="the records of its cells do not agree on it")

    return show


COUNTED: dict[str, Show] = {
    **{name: _count(name) for name in ("level", "n_cells", "n_handshakes")},
    "condition": lambda row: blocks.label(row.get("condition", "all")),
}
SIZES_BYTES = ("public_key_bytes", "ciphertext_bytes", "shared_secret_bytes", "signature_bytes")
SIZES = pick(SIZE_COLUMNS, "algorithm", "family", "level", *SIZES_BYTES, "n_cells")
OF_SIZES = COUNTED | {name: _size(name) for name in SIZES_BYTES}
