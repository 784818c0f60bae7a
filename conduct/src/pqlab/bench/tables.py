"""CSV tables of a bench bundle: every number with unit, n, host and ring, the published one beside it."""

from __future__ import annotations

from pqbase.text import utc_page
from pqevidence.analysis.table import Row, Table
from pqlab.bench.board import BoardLog
from pqlab.bench.energy import Run
from pqlab.bench.published import OPERATIONS, Published, value
from pqlab.bench.tree import Measured, Tree

TIMES = (
    "category", "algorithm", "operation", "payload_bytes", "median_ms", "published_median_ms", "mean_ms",
    "published_mean_ms", "min_ms", "published_min_ms", "max_ms", "published_max_ms", "median_low_ms",
    "median_high_ms", "stdev_ms", "p95_ms", "n", "failed", "ring", "host", "published_in", "reason",
)  # fmt: skip
SIZES = ("algorithm", "quantity", "size_bytes", "published_bytes", "ring", "host")
ENERGY = (
    "category", "algorithm", "operation", "payload_bytes", "energy_j", "published_energy_j", "u_energy_j",
    "gross_j", "time_ms", "published_time_ms", "power_w", "published_power_w", "idle_w", "operations",
    "blocks", "resolvable", "alone", "additive", "additivity_difference_j", "additivity_u_j", "voltage_v",
    "current_a", "ring", "host", "reason",
)  # fmt: skip
LADDER = (
    "algorithm", "operation", "size_bytes", "unit", "measured", "published", "board", "median_ms", "n",
    "ring", "host", "reason",
)  # fmt: skip
INTEGRITY = ("check", "passed", "observed", "expected")
FILES = ("category", "file", "n", "failed", "size_bytes")
TIMELINE = ("category", "files_count", "iterations", "good", "failed", "first_utc", "to_the_last_min")
ALL = ("times", "sizes", "energy", "ladder", "integrity", "files", "timeline")


def times(tree: Tree, published: Published) -> Table:
    """One row a raw file that is not of the ladder."""
    table = Table("times", TIMES)
    for one in tree.files:
        head, row = one.head, one.row
        category = str(head["category"])
        if category == "ladder":
            continue
        payload = head["sizes_bytes"].get("payload")
        theirs = published.time_of(category, str(head["algorithm"]), str(head["operation"]), payload)
        table.add(
            category=category,
            algorithm=head["algorithm"],
            operation=head["operation"],
            payload_bytes=payload,
            **{
                name: row[name] for name in ("median_ms", "mean_ms", "min_ms", "max_ms", "stdev_ms", "p95_ms")
            },
            **{
                f"published_{name}": value(theirs, name)
                for name in ("median_ms", "mean_ms", "min_ms", "max_ms")
            },
            median_low_ms=one.low_ms,
            median_high_ms=one.high_ms,
            n=row["n"],
            failed=row["failed"],
            ring=tree.ring,
            host=tree.host,
            published_in="primitives-2026-01" if theirs else None,
            reason=None if row["n"] else "no iteration succeeded",
        )
    return table


def sizes(tree: Tree, published: Published) -> Table:
    """Keys, ciphertexts and signatures of every measured KEM and signature scheme."""
    table = Table("sizes", SIZES)
    for one in [*tree.of("kem"), *tree.of("sig")]:
        if one.head["operation"] != "keygen":
            continue
        theirs = published.sizes.get(str(one.head["algorithm"]))
        for quantity, size in one.head["sizes_bytes"].items():
            if quantity != "message":
                table.add(
                    algorithm=one.head["algorithm"],
                    quantity=quantity,
                    size_bytes=size,
                    published_bytes=value(theirs, f"{quantity}_bytes"),
                    ring=tree.ring,
                    host=tree.host,
                )
    return table


def energy(run: Run, published: Published) -> Table:
    """One row an operation; joules are net of idle and of one operation."""
    table = Table("energy", ENERGY)
    for one in run.results:
        theirs = published.power.get((one.algorithm, OPERATIONS.get(one.operation, one.operation)))
        microjoules = value(theirs, "energy_uj")
        once = one.once
        additive = one.additivity
        table.add(
            category=one.category,
            algorithm=one.algorithm,
            operation=one.operation,
            payload_bytes=one.payload_bytes,
            energy_j=once.per_operation_j,
            published_energy_j=None if microjoules is None else microjoules / 1e6,
            u_energy_j=once.u_per_operation_j,
            gross_j=None if once.gross_j is None else once.gross_j / once.operations,
            time_ms=one.time_ms,
            published_time_ms=value(theirs, "time_ms"),
            power_w=one.busy_w,
            published_power_w=value(theirs, "power_w"),
            idle_w=once.idle_w,
            operations=once.operations,
            blocks=one.blocks,
            resolvable=once.resolvable,
            alone=one.alone,
            additive=additive[0] if additive else None,
            additivity_difference_j=additive[1] if additive else None,
            additivity_u_j=additive[2] if additive else None,
            voltage_v=one.voltage_v,
            current_a=one.current_a,
            ring=run.ring,
            host=str(run.environment["host"]),
            reason=one.reason,
        )
    return table


def ladder(tree: Tree | None, board: BoardLog | None, published: Published) -> Table:
    """The rungs of this host beside the published board and, where a log is given, one's own board."""
    table = Table("ladder", LADDER)
    for one in tree.of("ladder") if tree else []:
        algorithm = str(one.head["algorithm"])
        size = one.head["sizes_bytes"].get("payload", one.head["sizes_bytes"].get("modulus"))
        table.add(
            **_rung(one, algorithm, size, board, published),
            ring=tree.ring if tree else None,
            host=tree.host if tree else None,
        )
    if not table.rows and board is not None:
        for own in board.table().rows:
            algorithm, size = str(own["algorithm"]), int(str(own["size_bytes"]))
            values = board.values.get((algorithm, size))
            table.add(
                algorithm=algorithm,
                operation=own["operation"],
                size_bytes=size,
                unit=_unit(algorithm),
                published=_published(published, algorithm, size),
                board=own["throughput_mbs"] if algorithm.startswith("AES") else own["time_us"],
                reason=None if values else "not in the log",
            )
    return table


def _rung(
    one: Measured, algorithm: str, size: int | None, board: BoardLog | None, published: Published
) -> Row:
    middle = one.row["median_ms"]
    measured = None
    if middle:
        measured = size / (middle * 1e3) if algorithm.startswith("AES") and size else middle * 1e3
    full = not (algorithm == "RSA-2048" and one.head["sizes_bytes"].get("exponent_bits") == 17)
    own = board.table().rows if board is not None else []
    theirs = next((r for r in own if (r["algorithm"], r["size_bytes"]) == (algorithm, size)), None)
    return {
        "algorithm": algorithm,
        "operation": one.head["operation"],
        "size_bytes": size,
        "unit": _unit(algorithm),
        "measured": measured,
        "published": _published(published, algorithm, size) if full else None,
        "board": (theirs["throughput_mbs"] or theirs["time_us"]) if theirs and full else None,
        "median_ms": middle,
        "n": one.row["n"],
        "reason": None if middle is not None else "no iteration succeeded",
    }


def _unit(algorithm: str) -> str:
    return "MB/s" if algorithm.startswith("AES") else "µs"


def _published(published: Published, algorithm: str, size: int | None) -> float | None:
    row = published.ladder.get((algorithm, size or 0))
    return value(row, "throughput_mbs") or value(row, "time_us")


def integrity(tree: Tree) -> Table:
    """Every check of the tree, recomputed."""
    table = Table("integrity", INTEGRITY)
    for one in tree.checks:
        table.add(check=one.name, passed=one.passed, observed=one.observed, expected=one.expected)
    return table


def files(tree: Tree) -> Table:
    """The raw files, as they were read."""
    table = Table("files", FILES)
    for one in tree.files:
        table.add(
            category=one.row["category"],
            file=one.path,
            n=one.row["n"],
            failed=one.row["failed"],
            size_bytes=one.size_bytes,
        )
    return table


def timeline(tree: Tree) -> Table:
    """When each category was measured, and how much of it."""
    table = Table("timeline", TIMELINE)
    for category in dict.fromkeys(str(one.row["category"]) for one in tree.files):
        own = tree.of(category)
        first, last = min(one.first_ns for one in own), max(one.last_ns for one in own)
        good, bad = sum(one.row["n"] for one in own), sum(one.row["failed"] for one in own)
        table.add(
            category=category,
            files_count=len(own),
            iterations=good + bad,
            good=good,
            failed=bad,
            first_utc=utc_page(first),
            to_the_last_min=(last - first) / 60e9,
        )
    return table
