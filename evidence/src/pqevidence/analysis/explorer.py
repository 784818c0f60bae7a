"""Every suite that passed with its key numbers in one row, for a reader who sets two side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Row, Table, number
from pqtunnel import suites as registry
from pqtunnel.errors import SuiteUnknown

#: operation → its host, in the order of a handshake's critical path; a drone that signs has other rows beside
STEPS = {"keygen": "gcs", "sign": "gcs", "verify": "drone", "encaps": "drone", "decaps": "gcs"}
SIZES = ("public_key_bytes", "ciphertext_bytes", "signature_bytes")
COLUMNS = (
    "suite_id", "condition", "ring", "level", "n_cells", "handshake_median_ms",
    *(f"{step}_median_ms" for step in STEPS), *SIZES,
    "latency_down_p50_ms", "latency_up_p50_ms", "lost_count", "cpu_drone_pct",
)  # fmt: skip


def explorer_table(by_suite: Table, primitives: Table, traffic: Table, cpu: Table) -> Table:
    """One row a suite and condition: medians over the cells that passed; what a suite lacks is empty."""
    steps = {
        (row["algorithm"], row["operation"], row["condition"]): row["median_ms"]
        for row in primitives.rows
        if STEPS.get(str(row["operation"])) == row["host"]
    }
    moved = _passed(row for row in traffic.rows if row["window"] == "traffic")
    used = _passed(row for row in cpu.rows if row["host"] == "drone")
    table = Table("explorer", COLUMNS)
    for row in by_suite.rows:
        key = (str(row["suite_id"]), str(row["condition"]))
        facts = suite_facts(key[0])
        parts = {
            step: "" if facts is None else facts.sig if step in ("sign", "verify") else facts.kem
            for step in STEPS
        }
        lost = [int(number(r, "lost_count")) for r in moved[key] if r["lost_count"] is not None]
        table.add(
            suite_id=key[0],
            condition=key[1],
            ring=row["ring"],
            level=facts.level_name if facts else None,
            n_cells=row["n_cells"],
            handshake_median_ms=row["median_ms"],
            **{f"{step}_median_ms": steps.get((part, step, key[1])) for step, part in parts.items()},
            **_sizes(key[0]),
            **{
                f"latency_{way}_p50_ms": _median(
                    [r for r in moved[key] if r["direction"] == way], "latency_p50_ms"
                )
                for way in ("down", "up")
            },
            lost_count=sum(lost) if lost else None,
            cpu_drone_pct=_median(used[key], "process_mean_pct"),
        )
    return table


def _passed(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["verdict"] == "pass":
            found[str(row["suite_id"]), str(row["condition"])].append(row)
    return found


def _median(rows: list[Row], column: str) -> float | None:
    return median([number(row, column) for row in rows if row[column] is not None])


def _sizes(suite_id: str) -> dict[str, int | None]:
    """In bytes; None for a part that the suite does not have."""
    try:
        suite = registry.get(suite_id)
    except SuiteUnknown:
        return dict.fromkeys(SIZES)
    sizes = (suite.kem.public_key_bytes, suite.kem.ciphertext_bytes, suite.sig.signature_bytes)
    return {name: size or None for name, size in zip(SIZES, sizes, strict=True)}
