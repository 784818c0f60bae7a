"""Published reference values beside the measured ones, each with what is known to be wrong with it.

The published tables live in results/reference/; provenance.csv there holds source, host and known defects.
They were taken on other machines: the comparison prints them side by side and claims no effect. Nothing was
impaired or watched there, so a suite (primitive, group) is compared under its first condition of the scenario
alone: values of two conditions have no common median.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

from pqevidence.analysis.conditions import first_conditions, scenario_order
from pqevidence.analysis.groups import WALL, passing
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Row, Table, number, read_rows, to_float
from pqevidence.paths import project_root
from pqevidence.record.handshake import PRIMITIVE_HOST

COLUMNS = (
    "quantity", "subject", "unit", "measured", "measured_n", "ring", "published", "published_n", "source",
    "published_host", "known_wrong",
)  # fmt: skip


def reference_dir() -> Traversable | None:
    """The published tables: those packed with a checker that stands alone, else results/reference of the
    checkout; None where the package was installed without them."""
    packed = resources.files("pqevidence") / "reference"
    if (packed / "provenance.csv").is_file():
        return packed
    found = project_root() / "results" / "reference"
    return found if (found / "provenance.csv").is_file() else None


def comparison_table(
    bundle: BundleData,
    handshakes: Table,
    primitives: Table,
    by_level: Table,
    by_family: Table,
    folder: Traversable | None,
) -> Table:
    """All comparable pairs; empty when the published tables are not at hand."""
    table = Table("comparison", COLUMNS)
    if folder is None:
        return table
    first = first_conditions(bundle)
    own = [row for row in passing(handshakes.rows) if row["condition"] == first.get(str(row["suite_id"]))]
    order = scenario_order(bundle)
    provenance = {row["file"]: row for row in read_rows(folder / "provenance.csv")}
    for file, rows in (
        ("suites-2026-01-summary.csv", _smoke(folder, own)),
        ("published-72-suites.csv", _suites(folder, own)),
        ("handshake-floor-x86.csv", _floor(folder, own)),
        ("pqc-mav-2026-02-primitives.csv", _primitives(folder, primitives, "pqc-mav-2026-02-primitives.csv")),
        ("primitives-2026-01.csv", _primitives(folder, primitives, "primitives-2026-01.csv")),
        ("pqc-mav-2026-02-statistics.csv", _statistics(folder, by_level, by_family, order)),
    ):
        about = provenance[file]
        for row in rows:
            table.add(
                **{"published_n": about["n"], **row},
                source=about["source"],
                published_host=about["host"],
                known_wrong=about["known_wrong"],
            )
    return table


def _measured(handshakes: list[Row], column: str) -> dict[str, tuple[float, int, str]]:
    """suite → (median over cells, number of cells, ring)."""
    values: dict[str, list[Row]] = {}
    for row in handshakes:
        values.setdefault(str(row["suite_id"]), []).append(row)
    found = {}
    for suite_id, rows in values.items():
        middle = median([float(r[column]) for r in rows if r[column] is not None])  # type: ignore[arg-type]
        if middle is not None:
            found[suite_id] = (middle, len(rows), str(rows[0]["ring"]))
    return found


def _pairs(
    quantity: str, measured: dict[str, tuple[float, int, str]], published: dict[str, float]
) -> list[Row]:
    return [
        {
            "quantity": quantity,
            "subject": subject,
            "unit": "ms",
            "measured": measured[subject][0],
            "measured_n": measured[subject][1],
            "ring": measured[subject][2],
            "published": published[subject],
        }
        for subject in sorted(measured)
        if subject in published
    ]


def _smoke(folder: Traversable, handshakes: list[Row]) -> list[Row]:
    published = {
        row["suite_id"]: value
        for row in read_rows(folder / "suites-2026-01-summary.csv")
        if (value := to_float(row["handshake_ms"])) is not None
    }
    return _pairs("handshake, total", _measured(handshakes, WALL), published)


def _suites(folder: Traversable, handshakes: list[Row]) -> list[Row]:
    rows = [r for r in read_rows(folder / "published-72-suites.csv") if r["base_handshake_ok"] == "True"]
    walls = {r["suite_id"]: v for r in rows if (v := to_float(r["base_handshake_ms"])) is not None}
    sums = {r["suite_id"]: v for r in rows if (v := to_float(r["base_crypto_sum_ms"])) is not None}
    return [
        *_pairs("handshake, baseline", _measured(handshakes, WALL), walls),
        *_pairs("crypto sum, baseline", _measured(handshakes, "crypto_sum_median_ms"), sums),
    ]


def _floor(folder: Traversable, handshakes: list[Row]) -> list[Row]:
    floor = {
        r["suite"]: v
        for r in read_rows(folder / "handshake-floor-x86.csv")
        if (v := to_float(r["floor_ms"])) is not None
    }
    return _pairs("crypto sum, floor", _measured(handshakes, "crypto_sum_median_ms"), floor)


def _primitives(folder: Traversable, primitives: Table, file: str) -> list[Row]:
    measured: dict[str, tuple[float, int, str]] = {}
    for r in primitives.rows:
        if r["host"] == PRIMITIVE_HOST[str(r["operation"])]:  # not what a signing drone adds
            figures = number(r, "median_ms"), int(str(r["n_handshakes"])), str(r["ring"])
            # the scenario's first condition comes first, and stands for what was published
            measured.setdefault(f"{r['algorithm']} {r['operation']}", figures)
    published = {
        f"{r['algorithm']} {r['operation']}": v
        for r in read_rows(folder / file)
        if (v := to_float(r["median_ms"])) is not None
    }
    return _pairs("primitive, median", measured, published)


def _statistics(folder: Traversable, by_level: Table, by_family: Table, order: dict[str, int]) -> list[Row]:
    grouped = [(f"L{row['level']}", row) for row in by_level.rows]
    grouped += [(str(row["family"]), row) for row in by_family.rows if row["part"] == "kem"]
    measured: dict[str, Row] = {}
    for group, figures in sorted(grouped, key=lambda one: order.get(str(one[1]["condition"]), len(order))):
        measured.setdefault(group, figures)
    rows: list[Row] = []
    for row in read_rows(folder / "pqc-mav-2026-02-statistics.csv"):
        own = measured.get(row["group"])
        if own is None or own["status"] != "ok":
            continue
        for name in ("median_ms", "mean_ms", "p95_ms", "max_ms"):
            rows.append(
                {
                    "quantity": f"handshake by group, {name.removesuffix('_ms')}",
                    "subject": row["group"],
                    "unit": "ms",
                    "measured": own[name],
                    "measured_n": own["n_cells"],
                    "ring": own["ring"],
                    "published": float(row[name]),
                    "published_n": row["n"],
                }
            )
    return rows
