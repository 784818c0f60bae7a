"""Seal and open in the running tunnel: one row an AEAD and condition, from the counters of every cell.

These are times of whole calls around the cipher, as the published table's were: header, associated data and
nonce included. One number a cell (its mean over all calls); medians over the cells that passed. `seal_ratio`
is against the condition's first AEAD; a share of a core is the time of one call times the calls a second.
"""

from __future__ import annotations

from collections import defaultdict

from pqbase.stats import quantile7
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Table

WAYS = ("seal", "open")
#: datagrams a second of the published arithmetic
RATE_HZ = 320
COLUMNS = (
    "aead", "condition", "ring", "n_cells",
    *(f"{way}_{what}" for way in WAYS for what in ("median_us", "q1_us", "q3_us", "count")),
    "seal_ratio", f"seal_{RATE_HZ}hz_pct",
)  # fmt: skip


def aead_table(bundle: BundleData) -> Table:
    """Rows in the registry's order of suites; an AEAD without a cell that passed has none."""
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in bundle.cells:
        if cell.verdict == "pass" and cell.facts is not None and cell.facts.kem != "none":
            groups[cell.facts.aead, cell.condition].append(cell)
    table = Table("aead", COLUMNS)
    firsts: dict[str, float] = {}  # condition → seal of its first AEAD
    for (aead, condition), cells in groups.items():
        columns: dict[str, float | int | None] = {}
        for way in WAYS:
            means = [v / 1e3 for v in _numbers(cells, f"aead_{way}_mean_ns")]
            counts = _numbers(cells, f"aead_{way}_count")
            columns[f"{way}_median_us"] = median(means)
            columns[f"{way}_q1_us"], columns[f"{way}_q3_us"] = quantile7(means, 0.25), quantile7(means, 0.75)
            columns[f"{way}_count"] = int(sum(counts)) if counts else None
        seal_us = columns["seal_median_us"]
        if seal_us:
            columns["seal_ratio"] = seal_us / firsts.setdefault(condition, seal_us)
            columns[f"seal_{RATE_HZ}hz_pct"] = seal_us * RATE_HZ / 1e4
        if seal_us is not None or columns["open_median_us"] is not None:
            ring = min((cell.ring for cell in cells), key=("sim", "lab", "hardware").index)
            table.add(aead=aead, condition=condition, ring=ring, n_cells=len(cells), **columns)
    return table


def _numbers(cells: list[Cell], name: str) -> list[float]:
    found = ((cell.value("G", name) or {}).get("value") for cell in cells)
    return [float(v) for v in found if isinstance(v, int | float) and not isinstance(v, bool)]
