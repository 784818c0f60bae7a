"""The rekey-share model Φ(R) of every suite."""

from __future__ import annotations

from pqevidence.analysis.groups import REKEY_INTERVALS_S
from pqevidence.analysis.load import suite_facts
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Column, Figure, Section, Table, label, number
from pqevidence.report.figures import FAMILY_LEGEND
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import significant


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
                    Column("T, measured", "ms", True),
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
