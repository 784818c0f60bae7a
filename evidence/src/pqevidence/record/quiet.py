"""Whether a cell's times are its own or a busy machine's: the rule of `pqtunnel.quiet` on raw files.

A handshake's two ends take turns, so what both threads worked explains its wall, but for the link. A thread
that could run and had no processor lengthened the wall by at most what it waited, and by at most what that
work leaves unexplained; the smaller of the two is its waiting. Where both ends share a machine a thread also
waits while its own peer works on the same core: that wait is explained, lengthens nothing and is not held
against the machine. In a window of traffic the share of time is asked in which the tunnel's threads waited.

Hosts that cannot tell are not judged, and say why (`handshake_processor_wait_*_ms`). Emulated hosts make no
claim of time anyway (`record.untimed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pqbase.documents import part_of, rows_of
from pqbase.stats import tail
from pqevidence.record.handshake import HandshakeTrace
from pqevidence.record.neighbours import Use
from pqevidence.record.raw import ROLES
from pqevidence.record.sheet import Sheet
from pqevidence.record.system import LETTER
from pqevidence.record.verdict import BUSY
from pqevidence.record.waiting import parts_of
from pqtunnel.quiet import Waiting, median, waiting_in

#: of a window of traffic, that the tunnel's threads of one end may wait for a processor
LIMIT_TRAFFIC_PCT: Final = 2.0
#: of one core, that neighbours must use for a window's waiting to be theirs and not the lab's own
LEAST_FOREIGN_PCT: Final = 5.0
#: neighbours' use in less than this is judged over the whole cell: one health check is no busy machine
LEAST_WINDOW_S: Final = 2.0
_NAMES: Final = {"drone": "the drone", "gcs": "the ground station"}

#: fields of category D made of whole walls: both ends' waiting is in them
MEDIANS: Final = (
    "handshake_total_duration_ms",
    "handshake_gcs_duration_ms",
    "handshake_over_crypto_ratio",
    *(f"handshake_{part}_{host}_ms" for host in ROLES for part in ("peer_wait", "processor_wait")),
)
#: each with the statistic that it is
TAILS: Final[Mapping[str, Callable[[Sequence[float]], float | None]]] = {
    "handshake_p95_ms": lambda values: tail(values, 0.95),
    "handshake_max_ms": lambda values: max(values, default=None),
}
#: fields (letter, name) of one end's own work in cold handshakes
OWN_WORK: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "drone": (
        ("D", "handshake_processor_drone_ms"), ("E", "crypto_processor_drone_ms"), ("E", "crypto_drone_ms"),
        ("E", "kem_encaps_ms"), ("E", "sig_verify_ms"), ("E", "drone_sign_ms"),
        ("E", "crypto_critical_path_ms"),
    ),
    "gcs": (
        ("D", "handshake_processor_gcs_ms"), ("E", "crypto_processor_gcs_ms"), ("E", "crypto_gcs_ms"),
        ("E", "kem_keygen_ms"), ("E", "kem_decaps_ms"), ("E", "sig_sign_ms"), ("E", "drone_sig_verify_ms"),
        ("E", "crypto_critical_path_ms"),
    ),
}  # fmt: skip
#: what a busy machine makes of a window of traffic: latency at either end's cost, CPU at its own
LATENCIES: Final = (
    *(f"one_way_latency_{name}_ms" for name in ("mean", "p50", "p95", "p99", "max", "up_p50")),
    "transit_p50_ms",
    "jitter_mean_ms",
    "jitter_p95_ms",
    "rtt_mean_ms",
    "rtt_p50_ms",
    "rtt_p95_ms",
)
CPU: Final = (
    "cpu_usage_mean_pct", "cpu_usage_peak_pct", "tunnel_cpu_mean_pct", "container_cpu_mean_pct",
    "sampler_cpu_mean_pct",
)  # fmt: skip


@dataclass(frozen=True)
class Quiet:
    """What was disturbed, in sentences; empty for a quiet cell and for one that cannot be judged."""

    handshake: str | None = None
    """Of the median wall."""
    ends: dict[str, str] = field(default_factory=dict)
    """Of the cold handshakes' own work, by host."""
    tails: dict[str, str] = field(default_factory=dict)
    traffic: dict[str, str] = field(default_factory=dict)
    """Of the traffic window, by host."""

    @property
    def findings(self) -> tuple[str, ...]:
        """What makes the cell invalid; a disturbed tail alone does not."""
        return tuple(dict.fromkeys(filter(None, (self.handshake, *self.traffic.values()))))


@dataclass(frozen=True)
class _Shake:
    """One cold handshake, ns: the drone's wall, what of it waited, and what of each end's wait is foreign."""

    wall_ns: int
    waited_ns: int
    foreign_ns: dict[str, int]
    work_ns: dict[str, int]


def judge_handshakes(cold: Mapping[str, HandshakeTrace], use: Use | None, *, one_machine: bool) -> Quiet:
    """Of the cell's cold handshakes. use: what neighbours used meanwhile, None where nobody counted. Empty
    where neither tells anything."""
    crowds = _crowds(use)
    shakes = [shake for trace in cold.values() if (shake := _shake(trace, one_machine)) is not None]
    walls, waits = [shake.wall_ns for shake in shakes], [shake.waited_ns for shake in shakes]
    whole = waiting_in(walls, waits, median)
    waited: dict[str, str] = {}
    if whole is not None and whole.disturbed and not _alone(use):
        busy = _busy_ends(shakes)
        named = " and ".join(_NAMES[host] for host in busy) or "one end"
        text = f"of the median handshake {whole.sentence} at {named}"
        waited = dict.fromkeys(busy or ROLES, text)
    ends = {host: "; ".join(filter(None, (waited.get(host), crowds.get(host)))) for host in ROLES}
    ends = {host: text for host, text in ends.items() if text}
    if ends and cold:
        text = "; ".join(dict.fromkeys((*waited.values(), *crowds.values())))
        return Quiet(text, ends, dict.fromkeys(TAILS, text))
    return Quiet(
        tails={
            name: f"of this figure {found.sentence}"
            for name, statistic in TAILS.items()
            if (found := waiting_in(walls, waits, statistic)) is not None and found.disturbed
        }
    )


def _alone(use: Use | None) -> bool:
    """Whether neighbours are known to have used next to nothing: what waits then waits for the lab itself,
    which is what it measures."""
    return use is not None and max(use.foreign_at_pct.values(), default=use.foreign_pct) < LEAST_FOREIGN_PCT


def judge_traffic(waits_pct: Mapping[str, float | None], use: Use | None) -> dict[str, str]:
    """host → why its figures of the traffic window do not count.

    waits_pct: share of the window that the tunnel's threads of that end waited; None where unknown. use: what
    neighbours used meanwhile, None where nobody counted. Where they used next to nothing, the lab waited for
    itself, which is what it measures.
    """
    found = {}
    for host, share in waits_pct.items():
        foreign = None if use is None else use.foreign_at_pct.get(host, use.foreign_pct)
        if (
            share is None
            or share <= LIMIT_TRAFFIC_PCT
            or (foreign is not None and foreign < LEAST_FOREIGN_PCT)
        ):
            continue
        found[host] = (
            f"the tunnel's threads at {_NAMES[host]} waited for a processor {share:.1f} % of the traffic "
            f"window (limit {LIMIT_TRAFFIC_PCT:g} %)"
        )
    crowds = _crowds(use)
    return {
        host: "; ".join(filter(None, (found.get(host), crowds.get(host))))
        for host in ROLES
        if host in found or host in crowds
    }


def _crowds(use: Use | None) -> dict[str, str]:
    """host → what neighbours, its own limit or the hypervisor kept from it."""
    if use is None:
        return {}
    told = {host: [text for text in (use.crowded(host), use.limited(host)) if text] for host in ROLES}
    both = [text for text in told["drone"] if text in told["gcs"]]
    found = {}
    for host in ROLES:
        own = [f"{text} at {_NAMES[host]}" for text in told[host] if text not in both]
        found[host] = "; ".join(filter(None, (use.stolen(), *both, *own)))
    return {host: text for host, text in found.items() if text}


def disturbed_alone(record: Mapping[str, object]) -> bool:
    """Whether a record is invalid because the machine was busy, and for nothing else."""
    found = part_of(part_of(part_of(record, "categories", {}), "R", {}), "verdict_findings", {})
    told = part_of(found, "value", {})
    return record.get("verdict") == "invalid" and set(told) == {BUSY}


def busy_told(run: Mapping[str, object] | None) -> str | None:
    """What run.json says of a machine that was not quiet before the first cell of a session; None where it
    was, and where nobody asked."""
    settled = [part_of(session, "settle", {}) for session in rows_of(run or {}, "sessions", [])]
    return next((str(each.get("why")) for each in settled if each.get("quiet") is False), None)


def mark(sheet: Sheet, quiet: Quiet) -> None:
    """Every field that was disturbed becomes invalid, with the reason; values stay to be looked at."""
    if quiet.handshake is not None:
        for name in MEDIANS:
            sheet.invalidate("D", name, quiet.handshake)
    for host, reason in quiet.ends.items():
        for letter, name in OWN_WORK[host]:
            sheet.invalidate(letter, name, reason)
    for name, reason in quiet.tails.items():
        sheet.invalidate("D", name, reason)
    for host, reason in quiet.traffic.items():
        for name in LATENCIES:
            sheet.invalidate("H", name, reason)
        for name in CPU:
            sheet.invalidate(LETTER[host], name, reason)


def _shake(trace: HandshakeTrace, one_machine: bool) -> _Shake | None:
    work_ns, waited_ns = {}, {}
    for host in ROLES:
        wall = trace.walls.get(host)
        parts = parts_of(wall) if wall is not None else None
        if parts is None:
            continue
        work_ns[host] = parts.work_ns
        # a limited container and a hypervisor that takes time keep no queue: primitives alone show them
        waited_ns[host] = max(parts.queue_ns, _off_processor_ns(trace, host))
    if not waited_ns:
        return None
    wall_ns = trace.walls["drone"].duration_ns
    unexplained_ns = max(0, wall_ns - sum(work_ns.values()))
    foreign_ns = {}
    for host, waited in waited_ns.items():
        peer = next((work for other, work in work_ns.items() if other != host), 0)
        foreign_ns[host] = max(0, waited - peer) if one_machine else waited
    return _Shake(wall_ns, min(sum(waited_ns.values()), unexplained_ns), foreign_ns, work_ns)


def _off_processor_ns(trace: HandshakeTrace, host: str) -> int:
    """What primitives took beyond their processor time: they wait for nothing else."""
    spans = [span for span in trace.steps[host] if span.kind == "crypto" and span.cpu_ns is not None]
    return sum(max(0, span.duration_ns - (span.cpu_ns or 0)) for span in spans)


def _busy_ends(shakes: Iterable[_Shake]) -> list[str]:
    """The ends whose own thread waited more than their peer's work explains."""
    rows, found = list(shakes), []
    for host in ROLES:
        waits = [shake.foreign_ns[host] for shake in rows if host in shake.foreign_ns]
        works = [shake.work_ns[host] for shake in rows if host in shake.foreign_ns]
        wait, work = median(waits), median(works)
        if wait is not None and work is not None and Waiting(work + wait, wait).disturbed:
            found.append(host)
    return found
