"""What earlier versions of pqlab wrote, and what of it this tree makes again.

Of 0.2.0 everything: its records, tables and pages are those of today less the fields that came later
(`since` in fields.yml). 0.1.0 took tails and statistics otherwise and drew another page: its records are
held leaf by leaf but for what stands here, its tables and pages by `older_pages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pqevidence.record.raw import RawCell, RawRun
from pqevidence.versions import KNOWN

_BEFORE_1_0: Final = KNOWN[:2]
#: what a version put into its bundles about their format: name → SHA-256
SCHEMAS: Final[Mapping[str, Mapping[str, str]]] = {
    "0.2.0": {
        "format/fields.json": "cf37cb0dffa6f19b3b393fae5edd2f4b1f0ba45611f127b727ee6feb55218a91",
        "format/record.schema.json": "c0ea220d9336818324fe20854c2008da9a7e47de3bfbf8a37b391cf12183b56e",
        "format/correction.schema.json": "95b6daaf8c43c6656fd4fa66fc69c733747a26c43fa5d005d9676a2cd2a0e11b",
        "format/scenario.schema.json": "73449432c848ecd709788b6cc9266e5f4924c1b7ef805b1a79dc0abdcd3bb11a",
        "format/plan.schema.json": "c04f5ab261ca9c4e211b9bbedd0c40c34544fb11b10e25b7fbea2bdca42333b0",
    }
}
#: numbers that a version worked out otherwise: the field → the fields of its category that it lies between;
#: without two of them it was described otherwise and is left out
MENDED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "0.1.0": {
        "suite_deactivated_offset_ms": (),
        "temperature_c": (),
        "power_sampling_rate_hz": (),
        "energy_gross_j": (),
        "telegraf_dropped_count": (),
        "rekey_gap_ms": (),
        "rekey_blackout_duration_ms": (),
        "rekey_blackout_share_pct": (),
        "expected_samples_count": (),
        # tails: by nearest rank, and of however few values
        "handshake_p95_ms": ("handshake_min_ms", "handshake_max_ms"),
        "pooled_handshake_p95_ms": (),
        "one_way_latency_p95_ms": ("one_way_latency_p50_ms", "one_way_latency_max_ms"),
        "one_way_latency_p99_ms": ("one_way_latency_p50_ms", "one_way_latency_max_ms"),
        "jitter_p95_ms": (),
        "rtt_p95_ms": (),
        "detector_latency_p95_ms": (),
    }
}


def version_of(run: RawRun) -> str:
    """The version of pqlab that run.json names."""
    return str(run.run.get("pqlab_version"))


def later(run: RawRun) -> list[str]:
    """What the run's documents hold that its version did not know yet."""
    made_by = version_of(run)
    found = []
    if made_by in _BEFORE_1_0:
        found += [f"{name} (plan.json)" for name in ("campaign", "share", "pair") if name in run.plan]
        traffic = run.scenario.get("traffic")
        if isinstance(traffic, dict) and traffic.get("workload") is not None:
            found.append("a workload (scenario.effective.yml)")
        told = run.scenario.get("conditions")
        conditions = told if isinstance(told, list) else []
        if any(isinstance(one, dict) and one.get("fleet") is not None for one in conditions):
            found.append("a fleet (scenario.effective.yml)")
    if made_by == "0.1.0":
        listed = run.run.get("sessions")
        sessions = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        found += [
            f"{name} of a session (run.json)"
            for name in ("settle", "warm_up")
            if any(name in session for session in sessions)
        ]
        found += ["attestation (plan.json)"] if "attestation" in run.plan else []
        for role, host in sorted(run.hosts.items()):
            found += [
                f"{name} (hosts/{role}.json)" for name in ("dataplane_asked", "clock_costs") if name in host
            ]
    return found


def later_of_cell(made_by: str, cell: RawCell) -> list[str]:
    """What a cell's raw files hold that the version did not write yet."""
    found = []
    if made_by in _BEFORE_1_0:
        for name, window in sorted((cell.traffic or {}).items()):
            report = (window.get("gcs") or {}).get("source_report") or {}
            found += [f"a workload in {name} (traffic.json)"] if "workload" in report else []
    if made_by != "0.1.0":
        return found
    if any(event.get("event") == "processors" for event in cell.events):
        found.append("events `processors` (events.ndjson)")
    if any(event.get("event") == "prepare" and "dataplane" in event for event in cell.events):
        found.append("a data plane in `prepare` (events.ndjson)")
    for name in ("cpu_ns", "runqueue_ns", "involuntary"):
        if any(getattr(span, name) is not None for span in cell.spans or []):
            found.append(f"{name} (spans.ndjson)")
    return found
