"""Steps of a handshake: which there are, in which order and of which kind, is the protocol's own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView, Ends, EndSpans
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.measures.handshake.checks import COVERAGE_PCT, waited_enough
from pqevidence.record.raw import PRIMITIVES, ROLES, Span
from pqevidence.record.untimed import untimed_reasons

CRYPTO, WAITING = "crypto", "network_wait"
_WAITS = "wait_"
#: `kdf` follows what it is made of: before or after the drone's own signature
ORDER = {
    "drone": (
        "connect", "wait_challenge", "hello", "send_hello", "wait_server_hello", "transcript", "verify",
        "encaps", "transcript_2", "sign", "client_kem", "send_client_kem", "wait_finished", "verify_finished",
    ),
    "gcs": (
        "accept", "challenge", "send_challenge", "wait_hello", "check_hello", "keygen", "transcript", "sign",
        "server_hello", "send_server_hello", "wait_client_kem", "check_finished", "verify", "decaps",
        "finished", "send_finished",
    ),
}  # fmt: skip
ANYWHERE = "kdf"
#: too short for some hosts to tell them apart
MAY_LACK = {"drone": {"transcript", "transcript_2"}, "gcs": {"accept", "server_hello"}}
#: of an end that signs the drone's own part, or checks it
SIGNED = {"drone": "sign", "gcs": "verify"}
#: a wall is read where its first step begins and its last one ends; a step where the last one ended
EDGE_NS, HOLE_NS = 5_000, 1_000
#: (sender, what it sends in, receiver, what it waits in)
MESSAGES = (
    ("gcs", "send_challenge", "drone", "wait_challenge"),
    ("drone", "send_hello", "gcs", "wait_hello"),
    ("gcs", "send_server_hello", "drone", "wait_server_hello"),
    ("drone", "send_client_kem", "gcs", "wait_client_kem"),
    ("gcs", "send_finished", "drone", "wait_finished"),
)
#: by which the clocks of two processors of one machine may differ
CORES_APART_NS = 50_000


def named(cell: CellView, tally: Tally) -> None:
    """A primitive is of kind `crypto` and nothing else is; what is named a wait is of kind `network_wait` and
    nothing else is. Sums over kinds are thus sums over the same steps in every cell."""
    tally.see()
    odd = {
        (span.step, span.kind)
        for span in cell.raw.spans or []
        if (span.kind == CRYPTO) is not (span.step in PRIMITIVES)
        or (span.kind == WAITING) is not span.step.startswith(_WAITS)
    }
    for step, kind in sorted(odd):
        tally.fail(f"{cell.label}: {step} is of kind {kind} in spans.ndjson")


def follow(cell: CellView, tally: Tally) -> None:
    """In each handshake an end made every step of the protocol, once and in its order; each began where the
    one before it ended, the first and the last where the wall does. On one clock no message came before its
    sender began to send it."""
    if not has_witnesses(cell.run):
        return
    signs = cell.run.condition(str(cell.plan["condition"])).get("drone_auth") == "signature"
    one_clock = _one_clock(cell)
    for handshake_id, hosts in cell.timed.items():
        tally.see()
        for host, spans in hosts.items():
            for problem in _at_one_end(host, spans, signs=signs):
                tally.fail(f"{cell.label} {host} {handshake_id}: {problem} (spans.ndjson)")
        if one_clock:
            for problem in _uncaused(hosts):
                tally.fail(f"{cell.label} {handshake_id}: {problem} (spans.ndjson, one boot in hosts/*.json)")
    tally.unit = "handshakes"


def _at_one_end(host: str, spans: EndSpans, *, signs: bool) -> Iterable[str]:
    wall, steps = spans.wall, spans.steps
    if wall is None or not steps or not _whole(wall, spans):
        return  # `span_coverage` and `span_order` say so
    foreign, problems = _as_named(host, tuple([span.step for span in steps]), signs=signs)
    yield from problems
    if foreign:
        return
    for before_, after_ in pairwise(steps):
        if before_.end_ns + HOLE_NS < after_.start_ns:
            yield f"{after_.start_ns - before_.end_ns} ns of nothing between {before_.step} and {after_.step}"
            break
    edge_ns = max(abs(wall.start_ns - steps[0].start_ns), abs(wall.end_ns - steps[-1].end_ns))
    if edge_ns > EDGE_NS:
        yield f"the wall is {edge_ns} ns away from its first or its last step"


@lru_cache(maxsize=64)
def _as_named(host: str, made: tuple[str, ...], *, signs: bool) -> tuple[bool, tuple[str, ...]]:
    """(has it a step of no end like this one?, what is wrong) of names alone: those of nearly all handshakes
    are the same."""
    order = ORDER[host]
    names = [name for name in made if name != ANYWHERE]
    for name in sorted(set(names) - set(order)):
        return True, (f"{name} is no step of the {host}",)
    ranks = [order.index(name) for name in names]
    found = [
        f"{second} after {first}"
        for (before, first), (after, second) in pairwise(zip(ranks, names, strict=True))
        if after <= before
    ]
    due = {*order, ANYWHERE} - MAY_LACK[host] - {SIGNED[host]}
    if signs:
        due.add(SIGNED[host])
    elif SIGNED[host] in names:
        found.append(f"{SIGNED[host]}, and the drone proves itself by a key in scenario.effective.yml")
    if absent := sorted(due.difference(made)):
        found.append(f"no {', '.join(absent)}")
    return False, tuple(found)


def _whole(wall: Span, spans: EndSpans) -> bool:
    low, high = COVERAGE_PCT
    percent = 100 * spans.steps_ns / max(1, wall.duration_ns)
    return low <= percent <= high and all(a.end_ns <= b.start_ns for a, b in pairwise(spans.steps))


def _uncaused(hosts: Ends) -> Iterable[str]:
    if not waited_enough(hosts):
        return  # `network_wait` says so
    found = {(host, span.step): span for host, spans in hosts.items() for span in spans.steps}
    for sender, sends, receiver, waits in MESSAGES:
        sent, got = found.get((sender, sends)), found.get((receiver, waits))
        if sent is not None and got is not None and got.end_ns < sent.start_ns - CORES_APART_NS:
            yield (
                f"{waits} of the {receiver} ended {(sent.start_ns - got.end_ns) / 1e6:.3f} ms before {sends} "
                f"of the {sender} began"
            )


def _one_clock(cell: CellView) -> bool:
    """Both ends read the monotonic clock of one machine, and no other one plays it."""
    hosts = [cell.run.host(role) for role in ROLES]
    linux = all(host.get("os", "linux") == "linux" for host in hosts)
    return cell.run.one_clock and linux and not untimed_reasons(cell.run.hosts)
