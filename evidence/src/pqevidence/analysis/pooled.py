"""Cold against pooled handshakes of the same cells. The two are never in one median; here they stand side by
side, paired by cell, because both blocks of a cell met the same machine within seconds."""

from __future__ import annotations

import math
from collections import defaultdict

from pqevidence.analysis.claims import NOT_DISTINGUISHABLE
from pqevidence.analysis.estimate import estimate
from pqevidence.analysis.handshakes import handshakes_of
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.stats import INSUFFICIENT, median
from pqevidence.analysis.table import Table

COLUMNS = (
    "suite_id", "condition", "ring", "n_cells", "n_cold", "n_pooled", "cold_median_ms", "pooled_median_ms",
    "ratio", "ratio_low", "ratio_high", "method", "verdict", "cells",
)  # fmt: skip


def pooled_table(bundle: BundleData) -> Table | None:
    """One row a suite and condition with pooled handshakes; None where the scenario asks for none."""
    if not (bundle.scenario.get("handshake") or {}).get("pooled"):
        return None
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in bundle.cells:
        if cell.verdict == "pass":
            groups[cell.suite_id, cell.condition].append(cell)
    table = Table("pooled", COLUMNS)
    for (suite_id, condition), cells in groups.items():
        medians, counts, used = [], [0, 0], []
        for cell in cells:
            walls = [[h.wall_ms["drone"] for h in handshakes_of(cell, mode)] for mode in ("cold", "pooled")]
            cold, pooled = median(walls[0]), median(walls[1])
            if cold is None or pooled is None:
                continue  # suite plain has neither
            medians.append((cold, pooled))
            counts = [counts[0] + len(walls[0]), counts[1] + len(walls[1])]
            used.append(cell)
        if not used:
            continue
        result = estimate([math.log(pooled / cold) for cold, pooled in medians], seed=bundle.seed)
        if result.low is None or result.high is None:
            verdict = INSUFFICIENT
        elif result.low > 0.0 or result.high < 0.0:
            verdict = "slower" if result.low > 0.0 else "faster"
        else:
            verdict = NOT_DISTINGUISHABLE
        table.add(
            suite_id=suite_id,
            condition=condition,
            n_cells=len(used),
            n_cold=counts[0],
            n_pooled=counts[1],
            ring=min((cell.ring for cell in used), key=("sim", "lab", "hardware").index),
            cold_median_ms=median([cold for cold, _ in medians]),
            pooled_median_ms=median([pooled for _, pooled in medians]),
            ratio=None if result.mean is None else math.exp(result.mean),
            ratio_low=None if result.low is None else math.exp(result.low),
            ratio_high=None if result.high is None else math.exp(result.high),
            method=result.method,
            verdict=verdict,
            cells=" ".join(cell.cell_id for cell in used),
        )
    return table
