"""The eight-row verification checklist of `suites-2026-01`, each row with evidence from this bundle.

The rows keep their published names; where this lab has no such thing (a power sensor in a container) the row
says so instead of ticking itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pqbase.documents import part_of, whole_of
from pqevidence.analysis.table import Table
from pqevidence.kernel.result import CheckResult
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.verify.registry import CHECKS
from pqevidence.verify.run import run_checks

RowStatus = Literal["ok", "warn", "fail", "not measured"]
NEEDED = (
    "providers_equal",
    "host_identity",
    "selftest",
    "cells_accounted",
    "record_schema",
    "handshake_count",
    "span_coverage",
    "ledger_join",
    "counters_agree",
    "byte_identity",
    "power_claims",
    "sample_accounting",
)
#: 1 kHz, less what a sampler may lose
FAST_HZ = 990.0
RECEIVED = "packets_received_count"


@dataclass(frozen=True)
class ChecklistRow:
    """One row: published name, status, and what it rests on."""

    name: str
    status: RowStatus
    evidence: str


def checklist(path: Path) -> list[ChecklistRow]:
    """The eight rows for a bundle or an unsealed run. Pure: reads files, no clock."""
    bundle = BundleView(path.resolve())
    return rows_of(bundle, run_checks(bundle, [check for check in CHECKS if check.name in NEEDED]))


def rows_of(bundle: BundleView, told: Iterable[CheckResult]) -> list[ChecklistRow]:
    """The eight rows, from what checks said of that bundle, all of NEEDED among them."""
    results = {result.name: result for result in told}
    passed = [cell for cell in bundle.cells if cell.verdict == "pass"]
    return [
        _tree("GCS repository synced", bundle, "gcs", results),
        _tree("Drone repository synced", bundle, "drone", results),
        _server(bundle, results, len(passed)),
        _keys(bundle),
        _handshakes(bundle, results),
        _traffic(bundle, results),
        _power(bundle, results),
        _saved(bundle, results),
    ]


def checklist_table(bundle_root: Path) -> Table:
    """The eight verification rows of `suites-2026-01` with the evidence that the raw files hold."""
    return table_of(checklist(bundle_root))


def table_of(rows: Iterable[ChecklistRow]) -> Table:
    """The eight rows as a table."""
    table = Table("checklist", ("position", "name", "status", "evidence"))
    for position, row in enumerate(rows, start=1):
        table.add(position=position, name=row.name, status=row.status, evidence=row.evidence)
    return table


def _worst(results: dict[str, CheckResult], *names: str) -> RowStatus:
    found = {results[name].status for name in names}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


def _tree(name: str, bundle: BundleView, role: str, results: dict[str, CheckResult]) -> ChecklistRow:
    tunnel = part_of(part_of(bundle.raw.providers, role, {}), "pqtunnel", {})
    digest = str(tunnel.get("tree_sha256") or "")
    if not digest:
        return ChecklistRow(name, "fail", "the agent did not give the hash of its source tree")
    equal = results["providers_equal"].status == "ok"
    text = f"pqtunnel {tunnel.get('version')}, source tree {digest[:12]}, "
    return ChecklistRow(
        name, "ok" if equal else "fail", text + ("equal at both ends" if equal else "ends differ")
    )


def _server(bundle: BundleView, results: dict[str, CheckResult], passed: int) -> ChecklistRow:
    facts = bundle.raw.hosts.get("drone", {})
    version, protocol = facts.get("agent_version"), facts.get("protocol_version")
    text = f"agent {version}, protocol {protocol}, carried out {passed} cells to a result"
    status = _worst(results, "host_identity") if version and passed else "fail"
    return ChecklistRow("Drone benchmark server running", status, text)


def _keys(bundle: BundleView) -> ChecklistRow:
    suites = sorted({str(row["suite_id"]) for row in bundle.plan_cells})
    cells = [cell for cell in bundle.cells if cell.verdict in ("pass", "invalid")]
    proved = {str(c.plan["suite_id"]) for c in cells if (c.number("D", "handshake_completed_count") or 0) > 0}
    verified = sum(int(c.number("D", "handshake_completed_count") or 0) for c in cells)
    status: RowStatus = "ok" if len(proved) == len(suites) else "fail"
    text = f"{len(proved)}/{len(suites)} suites, proved by {verified} signatures that the drone verified"
    return ChecklistRow("Suite keys present", status, text)


def _handshakes(bundle: BundleView, results: dict[str, CheckResult]) -> ChecklistRow:
    counts = [cell.value("D", "handshake_total_duration_ms") for cell in bundle.cells]
    done = sum(int(cell.number("D", "handshake_completed_count") or 0) for cell in bundle.cells)
    cells = sum(value is not None for value in counts)
    status = _worst(results, "handshake_count", "span_coverage") if done else "fail"
    text = f"{done} handshakes in {cells} cells; spans {results['span_coverage'].observed}"
    return ChecklistRow("Handshake measured", status, text)


def _received(cell: CellView) -> int:
    return whole_of({RECEIVED: cell.value("G", RECEIVED)}, RECEIVED)


def _traffic(bundle: BundleView, results: dict[str, CheckResult]) -> ChecklistRow:
    sent = [int(v) for c in bundle.cells if (v := c.number("G", "packets_sent_count")) is not None]
    checks = ("ledger_join", "counters_agree", "byte_identity")
    out = [int(v) for c in bundle.cells if (v := c.number("G", "plaintext_out_count")) is not None]
    if not sent and any(out):
        # Without a ledger the counters of both ends tell; loss in a ladder's bulk windows is its result.
        span = f"{min(out):,}" if min(out) == max(out) else f"{min(out):,}–{max(out):,}"
        text = f"{span} packets delivered per iteration by both ends' counters, ledger off"
        return ChecklistRow("Traffic flow verified", _worst(results, *checks), text)
    if not any(sent):
        return ChecklistRow("Traffic flow verified", "fail", "no datagram was carried")
    lost = sum(
        int(sent_here) - _received(c)
        for c in bundle.cells
        if (sent_here := c.number("G", "packets_sent_count")) is not None
    )
    span = f"{min(sent):,}" if min(sent) == max(sent) else f"{min(sent):,}–{max(sent):,}"
    same = "byte-identical at both ends" if not lost else "those that arrived joined by epoch and sequence"
    text = f"{span} packets per iteration, {lost} lost, {same}"
    return ChecklistRow("Traffic flow verified", _worst(results, *checks), text)


def _power(bundle: BundleView, results: dict[str, CheckResult]) -> ChecklistRow:
    rates = [v for c in bundle.cells if (v := c.number("P", "power_sampling_rate_hz")) is not None]
    name = "Power sampling at 1kHz"
    if not rates:
        reasons = Counter(
            str(c.record["categories"]["P"]["power_mean_w"]["reason"])
            for c in bundle.cells
            if c.verdict == "pass"
        )
        reason = reasons.most_common(1)[0][0] if reasons else "no cell was carried out"
        ticks = results["sample_accounting"].observed
        return ChecklistRow(name, "not measured", f"not measured: {reason}; host sampler: {ticks}")
    kinds = {str(k) for c in bundle.cells if (k := c.value("P", "power_sensor_type")) is not None}
    text = f"{min(rates):.0f} Hz measured, sensor {', '.join(sorted(kinds))}"
    if min(rates) < FAST_HZ:
        return ChecklistRow(name, "warn", f"{text}: no sampling at 1 kHz")
    return ChecklistRow(name, _worst(results, "power_claims"), text)


def _saved(bundle: BundleView, results: dict[str, CheckResult]) -> ChecklistRow:
    counts = Counter(cell.verdict for cell in bundle.cells)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    text = (
        f"{len(bundle.cells)} of {len(bundle.plan_cells)} records ({told}), run {bundle.plan.get('run_id')}"
    )
    return ChecklistRow("Results JSON saved", _worst(results, "cells_accounted", "record_schema"), text)
