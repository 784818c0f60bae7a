"""What is known to differ between two runs besides what was measured: builds, machines, settings, rings.

An effect between two bundles is an effect of everything listed here together, and of the time between the
runs. One sentence says how far a claim may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pqlab.analysis.conditions import conditions_of
from pqlab.analysis.load import ROLES, BundleData, Json

#: facts of a host that change what it measures; names and boot ids do not
HOST_FACTS = (
    "machine", "cpu_model", "cpu_count", "cpu_features", "kernel", "board_model", "board_revision",
    "in_container",
)  # fmt: skip
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
    """One fact that the runs do not share; kind: build, host, setting, ring or lab."""

    kind: str
    what: str
    a: str
    b: str


def differing(a: BundleData, b: BundleData) -> list[Differing]:
    """Everything on record that differs, in the order build, host, setting, ring, lab."""
    found = []
    for role in ROLES:
        ends = [_leaves(bundle.providers.get(role) or {}) for bundle in (a, b)]
        found += _unequal("build", f"{role} ", *ends)
    for role in ROLES:
        facts = [(bundle.hosts.get(role) or {}).get("host") or {} for bundle in (a, b)]
        found += _unequal("host", f"{role} ", *({k: f.get(k) for k in HOST_FACTS} for f in facts))
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


def reach(differences: list[Differing], same_run: bool) -> str:
    """How far a claim about B in place of A may go."""
    kinds = {difference.kind for difference in differences}
    if same_run:
        return "one run beside itself: nothing can differ"
    if "host" in kinds or "ring" in kinds:
        return "hosts differ: no claim about the change alone"
    if "setting" in kinds:
        return "settings differ: an effect is that of settings" + (
            " and builds together" if "build" in kinds else ", and of the time between the runs"
        )
    if "build" in kinds:
        return "builds differ: an effect is that of the builds, and of the time between the runs"
    return "builds, hosts and settings are equal: a difference is the time between the runs, or noise"


def _meaning(condition: Json) -> Json:
    return {k: v for k, v in condition.items() if k not in ("name", "aa_of", "suites", "repetitions")}


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    return dict(_walk(value, path))


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _walk(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _unequal(kind: str, prefix: str, a: dict[str, Any], b: dict[str, Any]) -> list[Differing]:
    return [
        Differing(kind, f"{prefix}{key}", _text(a, key), _text(b, key))
        for key in dict.fromkeys([*a, *b])
        if a.get(key) != b.get(key) or (key in a) != (key in b)
    ]


def _text(facts: dict[str, Any], key: str) -> str:
    return str(facts[key]) if key in facts else "not reported"
