"""The verdict of a cell: a pure function of evidence, so that every rule can be tested by breaking it.

fail        the tunnel did not do its work: no handshake, altered, invented or repeated datagrams
invalid     the measurement does not count: traffic outside its contract (datagrams lost where nothing impairs
            the link among it), spans that do not cover the wall, too few handshakes, samples missing, a
            machine busy with other work
unsupported the host cannot run the suite (its probe said so); not-run the cell was never reached
pass        nothing found
A throughput ladder offers more than the path carries on purpose: loss in a bulk window is its result, while
altered, invented or repeated datagrams fail there as anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Grade = Literal["fail", "invalid"]
#: name of the finding of a cell whose times hold waiting for a processor
BUSY = "busy_machine"
#: … of a cell in which an end lost its power because the condition says so
CYCLED, KILLED = "power_cycle", "killed"
COVERAGE_MIN_PCT, COVERAGE_MAX_PCT = 95.0, 101.0
LOST_SAMPLES_SHARE = 0.05
LOST_SAMPLES_SLACK = 2
SESSION_SHORT_S = 0.05
SESSION_LONG_SHARE, SESSION_LONG_S = 0.02, 0.5


@dataclass(frozen=True)
class Direction:
    """One direction of one window: counters of both ends; ledger values are None with the ledger off."""

    window: str
    name: str
    tx_count: int
    rx_count: int
    digest_tx: str
    digest_rx: str
    ledger_tx: int | None = None
    ledger_rx: int | None = None


@dataclass(frozen=True)
class Evidence:
    """All that a verdict rests on. `stopped` = (unsupported | not-run, reason) ends the matter."""

    stopped: tuple[str, str] | None = None
    errors: tuple[str, ...] = ()
    #: power cycles that the condition asked for: what came of the cell's work says nothing of the tunnel
    cycled: tuple[str, ...] = ()
    #: ends that somebody from outside killed, though nothing asked for it: the same
    killed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    #: False for suite plain, which makes none
    handshakes_due: bool = True
    completed: int | None = None
    failed: int = 0
    #: what the drone noticed when nothing came any more and dialling anew failed; None where it did not
    silence: str | None = None
    min_count: int = 5
    traced: int = 0
    coverage_pct: dict[str, float | None] = field(default_factory=dict)
    directions: tuple[Direction, ...] = ()
    windows_due: tuple[str, ...] = ()
    windows_seen: tuple[str, ...] = ()
    duplicates: int = 0
    ghosts: int = 0
    resized: int = 0
    sessions_s: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    contract: tuple[str, ...] = ()
    #: why the source of the traffic (a vehicle that died or landed, its service) did not carry on
    source: tuple[str, ...] = ()
    samples: dict[str, tuple[int, int]] = field(default_factory=dict)
    impaired: bool = False
    #: ends whose packets another data plane carried than was due
    planes: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    attack: tuple[str, ...] = ()
    fleet: tuple[str, ...] = ()
    #: why the detector of this cell saw or said nothing; why what it said does not count
    blind: tuple[str, ...] = ()
    detector: tuple[str, ...] = ()
    #: completed in the cell; None where the condition asks for none
    rekeys: int | None = None
    #: what a busy machine did to the cell's times (record.quiet)
    busy: tuple[str, ...] = ()
    #: handshakes that used a pooled key, and how many must have; None where the scenario asks for none
    pooled: int | None = None
    pooled_due: int = 0


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and how bad it is."""

    grade: Grade
    name: str
    observed: str


@dataclass(frozen=True)
class Verdict:
    """verdict ∈ pass fail unsupported invalid not-run; reason None only for pass."""

    verdict: str
    reason: str | None
    findings: tuple[Finding, ...] = ()


def decide(evidence: Evidence) -> Verdict:
    """The worst finding decides; all of them are kept."""
    if evidence.stopped is not None:
        return Verdict(*evidence.stopped)
    for name, done in ((CYCLED, evidence.cycled), (KILLED, evidence.killed)):
        if found := tuple(Finding("invalid", name, text) for text in done):
            return Verdict("invalid", "; ".join(f"{f.name}: {f.observed}" for f in found), found)
    findings = [
        *_broken(evidence),
        *_handshakes(evidence),
        *_transport(evidence),
        *_measurement(evidence),
    ]
    for grade in ("fail", "invalid"):
        worst = [f"{f.name}: {f.observed}" for f in findings if f.grade == grade]
        if worst:
            return Verdict(grade, "; ".join(worst), tuple(findings))
    return Verdict("pass", None)


def _broken(evidence: Evidence) -> list[Finding]:
    found = [Finding("fail", "error", text) for text in evidence.errors]
    found += [Finding("fail", "detector", text) for text in evidence.blind]
    if evidence.missing:
        found.append(Finding("invalid", "raw_files", f"missing {', '.join(evidence.missing)}"))
    absent = [name for name in evidence.windows_due if name not in evidence.windows_seen]
    if absent:
        found.append(Finding("invalid", "windows", f"{', '.join(absent)} did not take place"))
    return found


def _handshakes(evidence: Evidence) -> list[Finding]:
    found: list[Finding] = []
    done = evidence.completed
    if not evidence.handshakes_due:
        odd = (done or 0) + evidence.failed + evidence.traced
        return [Finding("fail", "handshake", f"{odd} in a suite that makes none")] if odd else []
    if not done:
        found.append(Finding("fail", "handshake", "no handshake completed"))
    elif done < evidence.min_count:
        found.append(Finding("invalid", "handshake_count", f"{done} completed, {evidence.min_count} are due"))
    if evidence.failed and not evidence.impaired:
        found.append(Finding("fail", "handshake_failures", f"{evidence.failed} failed, {done} completed"))
    if evidence.silence is not None and not evidence.impaired:
        found.append(Finding("fail", "silence", evidence.silence))
    if done and evidence.traced < evidence.min_count:
        found.append(
            Finding("invalid", "spans", f"{evidence.traced} handshakes left spans, {done} completed")
        )
    if evidence.pooled is not None and evidence.pooled < evidence.pooled_due:
        text = f"{evidence.pooled} used a pooled key, {evidence.pooled_due} are due"
        found.append(Finding("invalid", "pooled_handshakes", text))
    for role, percent in evidence.coverage_pct.items():
        if percent is None:
            if done:
                found.append(
                    Finding("invalid", f"span_coverage_{role}", "no handshake has a wall on this host")
                )
        elif not COVERAGE_MIN_PCT <= percent <= COVERAGE_MAX_PCT:
            low, high = COVERAGE_MIN_PCT, COVERAGE_MAX_PCT
            found.append(
                Finding("invalid", f"span_coverage_{role}", f"{percent:.1f} %, {low:g}–{high:g} % are due")
            )
    return found


def _transport(evidence: Evidence) -> list[Finding]:
    found: list[Finding] = []
    for name in ("duplicates", "ghosts", "resized"):
        count = getattr(evidence, name)
        if count:
            found.append(Finding("fail", name, f"{count} datagrams"))
    for d in evidence.directions:
        label = f"{d.window} {d.name}"
        lossy = evidence.impaired or d.window.startswith("bulk-")
        counted = f"{label}: {d.tx_count} sent, {d.rx_count} received"
        if d.rx_count > d.tx_count:
            found.append(Finding("fail", "counters", counted))
        elif d.rx_count < d.tx_count and not lossy:
            found.append(Finding("invalid", "counters", counted))
        elif d.rx_count == d.tx_count and d.digest_tx != d.digest_rx:
            found.append(Finding("fail", "digest", f"{label}: {d.digest_tx} sent, {d.digest_rx} received"))
        for end, ledger, counter in (("tx", d.ledger_tx, d.tx_count), ("rx", d.ledger_rx, d.rx_count)):
            if ledger is not None and ledger != counter:
                text = f"{label} {end}: ledger {ledger}, counter {counter}"
                found.append(Finding("invalid", "ledger_counter", text))
    return found


def _measurement(evidence: Evidence) -> list[Finding]:
    found = [Finding("invalid", "traffic_source", text) for text in evidence.source]
    found += [Finding("invalid", "traffic_contract", text) for text in evidence.contract]
    found += [Finding("invalid", "dataplane", text) for text in evidence.planes]
    found += [Finding("invalid", "link", text) for text in evidence.link]
    found += [Finding("invalid", "attack", text) for text in evidence.attack]
    found += [Finding("invalid", "fleet", text) for text in evidence.fleet]
    found += [Finding("invalid", "detector", text) for text in evidence.detector]
    found += [Finding("invalid", BUSY, text) for text in evidence.busy]
    if evidence.rekeys == 0:
        found.append(Finding("invalid", "rekey", "none completed, the condition asks for them"))
    for name, (nominal_s, measured_s) in evidence.sessions_s.items():
        if measured_s is None:
            found.append(Finding("invalid", "session", f"{name}: the drone did not report its gate"))
        elif not (
            nominal_s - SESSION_SHORT_S
            <= measured_s
            <= nominal_s + max(SESSION_LONG_S, SESSION_LONG_SHARE * nominal_s)
        ):
            found.append(
                Finding("invalid", "session", f"{name}: {measured_s:.3f} s, {nominal_s:g} s are due")
            )
    for role, (due, stored) in evidence.samples.items():
        if due - stored > max(LOST_SAMPLES_SLACK, LOST_SAMPLES_SHARE * due):
            found.append(Finding("invalid", f"samples_{role}", f"{stored} ticks stored, {due} were due"))
    return found
