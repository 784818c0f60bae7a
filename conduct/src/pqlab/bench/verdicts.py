"""Which operation is shorter or takes less: only where intervals do not meet. What is recommended is this.

Times: the sum of the medians of what one handshake needs, each with its 95 % interval, summed end to end
(conservative). Energy: net joules ± U. Two that overlap are not ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pqevidence.report.svg import significant
from pqlab.bench.energy import Result, Run
from pqlab.bench.tree import Measured, Tree
from pqtunnel.suites import KEMS, SIGS

_WORK = {
    "kem": ("key exchange", {"keygen", "encapsulate", "decapsulate"}),
    "sig": ("signature of a handshake", {"sign", "verify"}),
}


@dataclass(frozen=True)
class Verdict:
    """A winner whose interval lies below every other's, and by which factor below the next."""

    use: str
    winner: str
    value: str
    next_name: str
    ratio: float
    n: int


@dataclass(frozen=True)
class _Candidate:
    name: str
    low: float
    middle: float
    high: float


def time_verdicts(tree: Tree) -> list[Verdict]:
    """Key exchange and signature by NIST level, AEAD by payload."""
    found: list[Verdict] = []
    for category, (use, operations) in _WORK.items():
        registry = KEMS if category == "kem" else SIGS
        for level in (1, 3, 5):
            names = [one.name for one in registry.values() if one.level == level]
            candidates = [c for name in names if (c := _sum(tree, category, name, operations)) is not None]
            found += _best(f"{use}, level {level}", candidates, "ms", tree.count)
    payloads = sorted({one.head["sizes_bytes"]["payload"] for one in tree.of("aead")})
    for payload in payloads:
        own = [one for one in tree.of("aead") if one.head["sizes_bytes"]["payload"] == payload]
        sums: dict[str, list[_Candidate]] = {}
        for one in own:
            if (candidate := _candidate(one)) is not None:
                sums.setdefault(candidate.name, []).append(candidate)
        whole = [_add(name, parts) for name, parts in sums.items() if len(parts) == 2]
        found += _best(f"seal and open of {payload} B", whole, "ms", tree.count)
    return found


def energy_verdicts(run: Run) -> list[Verdict]:
    """The same questions for net joules; none for what a model or a stub gave."""
    if run.synthetic:
        return []
    found: list[Verdict] = []
    for category, (use, operations) in _WORK.items():
        registry = KEMS if category == "kem" else SIGS
        for level in (1, 3, 5):
            names = [one.name for one in registry.values() if one.level == level]
            found += _least_energy(
                f"{use}, level {level}", [r for r in run.results if r.algorithm in names], operations
            )
    for payload in sorted({r.payload_bytes for r in run.results if r.category == "aead" and r.payload_bytes}):
        own = [r for r in run.results if r.category == "aead" and r.payload_bytes == payload]
        found += _least_energy(f"seal and open of {payload} B", own, {"encrypt", "decrypt"})
    return found


def _least_energy(use: str, results: Sequence[Result], operations: set[str]) -> list[Verdict]:
    """Of algorithms whose operations all have an energy with its U, and are additive."""
    candidates, blocks = [], []
    for name in dict.fromkeys(r.algorithm for r in results):
        own = [
            (r, _Candidate(name, e - u, e, e + u))
            for r in results
            if r.algorithm == name
            and r.operation in operations
            and (e := r.once.per_operation_j) is not None
            and (u := r.once.u_per_operation_j) is not None
            and r.additivity is not None
            and r.additivity[0]
        ]
        if len(own) == len(operations):
            candidates.append(_add(name, [candidate for _, candidate in own]))
            blocks += [r.once.blocks for r, _ in own]
    return _best(use, candidates, "J", min(blocks, default=0))


def _candidate(one: Measured) -> _Candidate | None:
    middle_ms = one.row["median_ms"]
    if middle_ms is None or one.low_ms is None or one.high_ms is None:
        return None
    return _Candidate(one.head["algorithm"], one.low_ms, middle_ms, one.high_ms)


def _sum(tree: Tree, category: str, name: str, operations: set[str]) -> _Candidate | None:
    parts = [
        candidate
        for one in tree.of(category)
        if one.head["algorithm"] == name
        and one.head["operation"] in operations
        and (candidate := _candidate(one)) is not None
    ]
    return _add(name, parts) if len(parts) == len(operations) else None


def _add(name: str, parts: Sequence[_Candidate]) -> _Candidate:
    return _Candidate(
        name, sum(p.low for p in parts), sum(p.middle for p in parts), sum(p.high for p in parts)
    )


def _best(use: str, candidates: Sequence[_Candidate], unit: str, n: int) -> list[Verdict]:
    ordered = sorted(candidates, key=lambda c: (c.middle, c.name))
    if len(ordered) < 2 or ordered[0].high >= min(c.low for c in ordered[1:]):
        return []
    first, second = ordered[:2]
    value = f"{significant(first.middle)} {unit}"
    return [Verdict(use, first.name, value, second.name, second.middle / first.middle, n)]
