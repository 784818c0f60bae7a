"""handshakes.csv, primitives.csv, sizes.csv, and pooled.csv where the scenario asks for pooled handshakes.

Cold and pooled ones are never in one median. In pooled.csv they stand side by side, paired by cell, because
both blocks of a cell met the same machine within seconds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median as middle

from pqbase.documents import part_of, whole_of
from pqevidence.analysis.claims import NOT_DISTINGUISHABLE
from pqevidence.analysis.column import Column, names
from pqevidence.analysis.estimate import Estimate, estimate
from pqevidence.analysis.handshakes import (
    handshake_table,
    handshakes_of,
    primitive_table,
)
from pqevidence.analysis.load import BundleData, Cell, algorithm_order
from pqevidence.analysis.stats import INSUFFICIENT, median
from pqevidence.analysis.table import Table
from pqevidence.record.rings import weakest

SIZE_COLUMNS = (
    Column("algorithm", "KEM or signature", "algorithm"),
    Column("kind", "kem or sig"),
    Column("family", "family of the algorithm", "family"),
    Column("level", "NIST level of the suites it is in", "level", "", True),
    Column("ring", "ring of the cells"),
    Column("n_cells", "cells that passed", "cells", "n", True),
    Column("public_key_bytes", "the KEM's public key", "public key", "B", True),
    Column("ciphertext_bytes", "its ciphertext", "ciphertext", "B", True),
    Column("shared_secret_bytes", "its shared secret", "shared secret", "B", True),
    Column("signature_bytes", "the signature; of Falcon the longest", "signature", "B", True),
)
POOLED_COLUMNS = (
    Column("suite_id", "suite", "suite"),
    Column("condition", "condition", "condition"),
    Column("ring", "weakest ring among the cells"),
    Column("n_cells", "cells that passed and have both", "cells", "n", True),
    Column("n_cold", "cold handshakes in them", "handshakes", "n", True),
    Column("n_pooled", "pooled handshakes in them", "handshakes", "n", True),
    Column("cold_median_ms", "cold: median of the cells' medians", "cold", "ms", True),
    Column("pooled_median_ms", "pooled: median of the cells' medians", "pooled", "ms", True),
    Column("ratio", "pooled over cold: geometric mean over cells", "pooled / cold", "", True),
    Column("ratio_low", "lower end of its 95 % interval", "95 % interval"),
    Column("ratio_high", "upper end of its 95 % interval"),
    Column("method", "how the interval was made, or why there is none"),
    Column("verdict", "faster, slower, not distinguishable or insufficient", "verdict"),
    Column("cells", "ids of the cells behind the row", "first cell"),
)


def make_tables(bundle: BundleData, _made: Mapping[str, Table]) -> Iterator[Table]:
    """The first three always."""
    yield handshake_table(bundle)
    yield primitive_table(bundle)
    yield size_table(bundle)
    if part_of(bundle.scenario, "handshake", {}).get("pooled"):
        yield pooled_table(bundle)


#: record field (category E) → column of the size table, per kind of algorithm
SIZE_FIELDS = {
    "kem": {
        "kem_public_key_size_bytes": "public_key_bytes",
        "kem_ciphertext_size_bytes": "ciphertext_bytes",
        "shared_secret_size_bytes": "shared_secret_bytes",
    },
    "sig": {"sig_size_bytes": "signature_bytes"},
}


def size_table(bundle: BundleData) -> Table:
    """One row an algorithm: the sizes its cells' records hold, bytes."""
    table = Table("sizes", names(SIZE_COLUMNS))
    cells: dict[tuple[str, str, str, int, str], list[Cell]] = defaultdict(list)
    for cell in bundle.cells:
        if cell.facts is not None and cell.verdict == "pass":
            facts = cell.facts
            cells["kem", facts.kem_family, facts.kem, facts.level, cell.ring].append(cell)
            cells["sig", facts.sig_family, facts.sig, facts.level, cell.ring].append(cell)
    for kind, family, algorithm, level, ring in sorted(
        cells, key=lambda key: (key[0], algorithm_order(key[2]), key[2:])
    ):
        members = cells[kind, family, algorithm, level, ring]
        found: dict[str, int | None] = {}
        for name, column in SIZE_FIELDS[kind].items():
            fields = [cell.value("E", name) for cell in members]
            known = {whole_of(f, "value") for f in fields if f is not None and f["value"] is not None}
            found[column] = known.pop() if len(known) == 1 else None
        table.add(
            algorithm=algorithm,
            kind=kind,
            family=family,
            level=level,
            ring=ring,
            n_cells=len(members),
            **found,
        )
    return table


def pooled_table(bundle: BundleData) -> Table:
    """One row a suite and condition with pooled handshakes."""
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in bundle.cells:
        if cell.verdict == "pass":
            groups[cell.suite_id, cell.condition].append(cell)
    table = Table("pooled", names(POOLED_COLUMNS))
    for (suite_id, condition), cells in groups.items():
        walls = {cell: [_walls(cell, mode) for mode in ("cold", "pooled")] for cell in cells}
        # suite plain has neither
        used = [cell for cell in cells if all(walls[cell])]
        if not used:
            continue
        medians = [[middle(each) for each in walls[cell]] for cell in used]
        result = estimate([math.log(pooled / cold) for cold, pooled in medians], seed=bundle.seed)
        table.add(
            suite_id=suite_id,
            condition=condition,
            n_cells=len(used),
            n_cold=sum(len(walls[cell][0]) for cell in used),
            n_pooled=sum(len(walls[cell][1]) for cell in used),
            ring=weakest(cell.ring for cell in used),
            cold_median_ms=median([cold for cold, _ in medians]),
            pooled_median_ms=median([pooled for _, pooled in medians]),
            ratio=_exp(result.mean),
            ratio_low=_exp(result.low),
            ratio_high=_exp(result.high),
            method=result.method,
            verdict=_verdict(result),
            cells=" ".join(cell.cell_id for cell in used),
        )
    return table


def _walls(cell: Cell, mode: str) -> list[float]:
    return [handshake.wall_ms["drone"] for handshake in handshakes_of(cell, mode)]


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)


def _verdict(result: Estimate) -> str:
    if result.low is None or result.high is None:
        return INSUFFICIENT
    if result.low > 0.0:
        return "slower"
    return "faster" if result.high < 0.0 else NOT_DISTINGUISHABLE
