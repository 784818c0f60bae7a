"""What is known to differ between two runs besides what was measured: builds, machines, settings, rings.

An effect between two bundles is an effect of everything listed here together, and of the time between the
runs. One sentence says how far a claim may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pqbase.documents import Json, part_of, rows_of
from pqevidence.analysis.conditions import conditions_of
from pqevidence.analysis.load import ROLES, BundleData
from pqevidence.analysis.merged import MergedData
from pqevidence.analysis.stats import mean
from pqevidence.errors import EXIT_USAGE, LabError

#: facts of a host that change what it measures; names and boot ids do not
HOST_FACTS = (
    "machine", "cpu_model", "cpu_count", "cpu_features", "kernel", "board_model", "board_revision",
    "in_container",
)  # fmt: skip
#: facts beside the host that decide which code measured: native or Python data plane, whose clock stamps
END_FACTS = ("dataplane", "timestamp_source")
#: what doctor found of the controller's machine that moves times
STEADINESS = ("governor", "turbo", "clock source")
#: load averages of two runs that lie further apart than this, a core, are named; steal likewise, in points
LOAD_APART, STEAL_APART_PCT = 0.5, 1.0
#: settings that say what was asked for, not how it was measured
_SCOPE = (
    "conditions",
    "suites",
    "repetitions",
    "name",
    "title",
    "description",
    "order",
    "seed",
    "only",
    "ring",
    "schema",
    "composed_of",
)


@dataclass(frozen=True)
class Differing:
    """One fact that the runs do not share; kind: build, host, data plane, load, setting,
    ring or lab."""

    kind: str
    what: str
    a: str
    b: str


def differing(a: BundleData, b: BundleData) -> list[Differing]:
    """Everything on record that differs: data planes first, as nothing else here moves times as much; then
    build, host, load, setting, ring, lab. Of merged bundles pair by pair, of the pairs that both have."""
    if isinstance(a, MergedData) or isinstance(b, MergedData):
        return _by_pair(a, b)
    found = []
    for role in ROLES:
        ends = [bundle.hosts.get(role) or {} for bundle in (a, b)]
        found += _unequal("data plane", f"{role} ", *({k: e.get(k) for k in END_FACTS} for e in ends))
    for role in ROLES:
        ends = [_leaves(bundle.providers.get(role) or {}) for bundle in (a, b)]
        found += _unequal("build", f"{role} ", *ends)
    for role in ROLES:
        facts = [bundle.host(role) for bundle in (a, b)]
        known = (*HOST_FACTS, "emulated", "wine")
        found += _unequal("host", f"{role} ", *({k: f.get(k) for k in known} for f in facts))
    found += _unequal("host", "controller ", *(_steadiness(bundle) for bundle in (a, b)))
    found += _loads(a, b)
    settings = [_leaves({k: v for k, v in bundle.scenario.items() if k not in _SCOPE}) for bundle in (a, b)]
    found += _unequal("setting", "", *settings)
    names = [{str(c["name"]): _leaves(_meaning(c)) for c in conditions_of(bundle)} for bundle in (a, b)]
    for name in names[0]:
        if name in names[1]:
            found += _unequal("setting", f"{name} ", names[0][name], names[1][name])
    rings = [sorted({cell.ring for cell in bundle.cells}) for bundle in (a, b)]
    if rings[0] != rings[1]:
        found.append(Differing("ring", "ring", " ".join(rings[0]), " ".join(rings[1])))
    found += _unequal("lab", "", *({"pqlab_version": x.run.get("pqlab_version")} for x in (a, b)))
    return found


def _by_pair(a: BundleData, b: BundleData) -> list[Differing]:
    """Pair by pair; of several parts of a pair the first stands for it: a merge holds them to be alike."""
    known = [_pairs(bundle) for bundle in (a, b)]
    return [
        replace(fact, what=f"pair {pair}: {fact.what}")
        for pair in known[0]
        if pair in known[1]
        for fact in differing(known[0][pair], known[1][pair])
    ]


def _pairs(bundle: BundleData) -> dict[str, BundleData]:
    if not isinstance(bundle, MergedData):
        return {str(bundle.plan.get("pair")): bundle}
    return {part.pair: part.bundle for part in reversed(bundle.parts)}


def reach(differences: list[Differing], same_run: bool) -> str:
    """How far a claim about B in place of A may go."""
    kinds = {difference.kind for difference in differences}
    if same_run:
        return "one run beside itself: nothing can differ"
    if "data plane" in kinds and kinds & {"host", "ring"}:
        return "data planes and hosts differ: no claim about the change alone"
    if "host" in kinds or "ring" in kinds:
        return "hosts differ: no claim about the change alone"
    if "data plane" in kinds:
        return "data planes differ: an effect is that of the data plane and of all else that differs"
    if "load" in kinds:
        return "load differs: an effect may be that of what else ran on the machine"
    if "setting" in kinds:
        return "settings differ: an effect is that of settings" + (
            " and builds together" if "build" in kinds else ", and of the time between the runs"
        )
    if "build" in kinds:
        return "builds differ: an effect is that of the builds, and of the time between the runs"
    return "builds, hosts and settings are equal: a difference is the time between the runs, or noise"


def require_comparable(a: BundleData, b: BundleData) -> None:
    """Raises LabError (exit 2) where the two say nothing about each other: unlike rings, or one run id on two
    runs that are not the same."""
    rings = [" ".join(sorted({cell.ring for cell in bundle.cells})) for bundle in (a, b)]
    if rings[0] != rings[1] and a.cells and b.cells:
        raise LabError(
            "unlike-rings",
            f"A is of ring {rings[0]}, B of ring {rings[1]}",
            "a simulated, a lab and a hardware time are different quantities: no difference between them is "
            "an improvement",
            "compare two bundles of one ring; ./pqlab report BUNDLE shows each by itself",
            EXIT_USAGE,
        )
    ids = [bundle.run.get("run_id") for bundle in (a, b)]
    if ids[0] is not None and ids[0] == ids[1] and not same_run(a, b):
        raise LabError(
            "one-run-id",
            f"both bundles call themselves {ids[0]} and hold different cells",
            "a run id is made for one run: one of them was changed or renamed",
            "./pqlab verify on each names what does not belong; a correction is ./pqlab correct",
            EXIT_USAGE,
        )


def same_run(a: BundleData, b: BundleData) -> bool:
    """Do both hold the same cells with the same records?"""
    records = [
        {cell.cell_id: (cell.directory / "record.json").read_bytes() for cell in bundle.cells}
        for bundle in (a, b)
    ]
    return records[0] == records[1]


def imitated(a: BundleData, b: BundleData) -> str | None:
    """Why no time of the two may be compared: what `BundleData.untimed` says of either."""
    for name, bundle in (("A", a), ("B", b)):
        if bundle.untimed:
            return f"In {name} {'; '.join(bundle.untimed)}: its times are not compared"
    return None


def _steadiness(bundle: BundleData) -> Json:
    steadiness = part_of(bundle.hosts.get("controller") or {}, "steadiness", {})
    findings = rows_of(part_of(steadiness, "before", {}), "findings", [])
    found = {str(row["name"]): row["observed"] for row in findings}
    return {name: found.get(name) for name in STEADINESS}


def _loads(a: BundleData, b: BundleData) -> Iterator[Differing]:
    """Load average and steal, where they lie apart by more than a quiet machine's."""
    for name in ("loadavg_start", "loadavg_end"):
        values = [_load(bundle, name) for bundle in (a, b)]
        cores = [_cores(bundle) for bundle in (a, b)]
        shares = [None if v is None else v / c for v, c in zip(values, cores, strict=True)]
        told = [
            "not reported" if value is None else f"{value:.1f} on {count} cores"
            for value, count in zip(values, cores, strict=True)
        ]
        if _apart(shares, LOAD_APART):
            yield Differing("load", f"{name} (1 min)", told[0], told[1])
    means = [_steal(bundle) for bundle in (a, b)]
    if _apart(means, STEAL_APART_PCT):
        told = ["not reported" if m is None else f"{m:.1f} %" for m in means]
        yield Differing("load", "steal", told[0], told[1])


def _apart(values: list[float | None], most: float) -> bool:
    one, other = values
    if one is None or other is None:
        return (one is None) != (other is None)
    return abs(one - other) > most


def _load(bundle: BundleData, name: str) -> float | None:
    found = (bundle.run or {}).get(name)
    return float(found[0]) if isinstance(found, list) and found else None


def _cores(bundle: BundleData) -> int:
    for role in ("controller", *ROLES):
        count = bundle.host(role).get("cpu_count")
        if isinstance(count, int) and count > 0:
            return count
    return 1


def _steal(bundle: BundleData) -> float | None:
    fields = [cell.value("N", "steal_mean_pct") for cell in bundle.cells if cell.verdict == "pass"]
    return mean([float(f["value"]) for f in fields if f is not None and isinstance(f["value"], int | float)])


def _meaning(condition: Json) -> Json:
    return {k: v for k, v in condition.items() if k not in ("name", "aa_of", "suites", "repetitions")}


def _leaves(value: object, path: str = "") -> dict[str, object]:
    return dict(_walk(value, path))


def _walk(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _walk(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _unequal(kind: str, prefix: str, a: dict[str, object], b: dict[str, object]) -> list[Differing]:
    return [
        Differing(kind, f"{prefix}{key}", _text(a, key), _text(b, key))
        for key in dict.fromkeys([*a, *b])
        if a.get(key) != b.get(key) or (key in a) != (key in b)
    ]


def _text(facts: dict[str, object], key: str) -> str:
    return str(facts[key]) if key in facts else "not reported"
