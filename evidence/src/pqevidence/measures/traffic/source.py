"""What source and sink of the traffic say of it, against their own counts, the tunnel and the ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pqbase.documents import Json, part_of, part_or_none, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.dataplane import TRAFFIC, seal_overhead_bytes
from pqevidence.record.raw import ROLES, stamps_of_one_clock
from pqevidence.record.untimed import untimed_reasons

#: frames that a program between source and tunnel adds or holds at the edges of a window: count, share
EDGE_COUNT, EDGE_SHARE = 100, 0.1
#: of one frame, for the same edges in bytes
EDGE_BYTES = 60
#: datagrams each way, of which the fastest is one
LEAST = 3
#: by which rtt_ms may be rounded up
ROUNDED_MS = 0.01


def told(cell: CellView, tally: Tally) -> None:
    """Frames by their sizes are all frames and all bytes; the vehicle handed the tunnel about as many as the
    tunnel took, of the sizes that the ledger has, and the sink got no more than the tunnel gave; no answer
    came back faster than the fastest datagram went each way."""
    condition = cell.run.condition(str(cell.plan["condition"]))
    for window, report in sorted((cell.raw.traffic or {}).items()):
        for role in ROLES:
            side = (report.get(role) or {}).get("source_report") or {}
            sent = side.get("sent") or {}
            where = f"{cell.label} {window} {role}"
            if sizes := sent.get("sizes"):
                tally.see()
                _by_size(where, sent, sizes, tally)
            if window == TRAFFIC and not condition.get("events"):
                if role == "drone" and sent:
                    _handed_over(cell, where, side, tally)
                _handed_out(cell, where, role, side, tally)
    _round_trips(cell, tally)
    tally.unit = "reports"


def _by_size(where: str, sent: Json, sizes: Mapping[str, object], tally: Tally) -> None:
    counted = [(int(name), whole_of(sizes, name)) for name in sizes]
    frames = sum(count for _, count in counted)
    size = sum(each * count for each, count in counted)
    tally.require(
        (frames, size) == (whole_of(sent, "count"), whole_of(sent, "bytes")),
        f"{where}: {frames} frames and {size} bytes by size, {sent['count']} and {sent['bytes']} in all "
        "(source_report of traffic.json)",
    )


def _handed_over(cell: CellView, where: str, side: Json, tally: Tally) -> None:
    sent, beside = part_of(side, "sent"), _sizes(part_or_none(side, "beside"))
    by_size = Counter(_sizes(sent))
    by_size.update(beside)
    frames = whole_of(sent, "count") + sum(beside.values())
    size = whole_of(sent, "bytes") + sum(each * count for each, count in beside.items())
    window = cell.windows("drone")[TRAFFIC]
    for what, ours, theirs, edge in (
        ("frames", frames, int(window["plaintext_in"]), EDGE_COUNT),
        ("bytes", size, int(window["plaintext_in_bytes"]), EDGE_COUNT * EDGE_BYTES),
    ):
        tally.require(
            abs(ours - theirs) <= edge + EDGE_SHARE * theirs,
            f"{where}: {ours} {what} by the source (traffic.json), its tunnel took {theirs} (counters.json)",
        )
    ledger = cell.raw.ledgers.get("drone")
    if ledger is None or not by_size:
        return
    over = seal_overhead_bytes(cell.suite) or 0
    sealed = Counter(ledger.tx.of_window(TRAFFIC, ledger.tx.size_bytes))
    carried = Counter({size - over: count for size, count in sealed.items()})
    odd = (by_size - carried) + (carried - by_size)
    most = 2 * (EDGE_COUNT + EDGE_SHARE * carried.total())
    if odd.total() > most:
        worst = max(odd, key=lambda size: odd[size])
        tally.fail(
            f"{where}: {by_size[worst]} frames of {worst} bytes by the source (traffic.json), "
            f"{carried[worst]} datagrams of that plaintext in ledger.drone.csv, {odd.total()} differ in all"
        )


def _sizes(told_: Json | None) -> dict[int, int]:
    """Size in bytes → how many frames of it."""
    sizes = part_of(told_ or {}, "sizes", {})
    return {int(size): whole_of(sizes, size) for size in sizes}


def _handed_out(cell: CellView, where: str, role: str, side: Json, tally: Tally) -> None:
    got = part_of(side, "received", {}).get("count")
    if isinstance(got, int):
        given = int(cell.windows(role)[TRAFFIC]["plaintext_out"])
        tally.require(
            got <= given + EDGE_COUNT + EDGE_SHARE * given,
            f"{where}: {got} frames by the sink (traffic.json), its tunnel gave {given} (counters.json)",
        )


def _round_trips(cell: CellView, tally: Tally) -> None:
    """With one clock: an answer goes down and up through the tunnel, and neither way is faster than ever."""
    if not stamps_of_one_clock(cell.run, cell.raw) or untimed_reasons(cell.run.hosts):
        return
    side = ((cell.raw.traffic or {}).get(TRAFFIC, {}).get("gcs") or {}).get("source_report") or {}
    answers = [float(value) for value in side.get("rtt_ms") or []]
    ways = [
        joined.latency_ns
        for join in (cell.plane.down, cell.plane.up)
        if join is not None and (joined := join.windows.get(TRAFFIC)) is not None
    ]
    if not answers or len(ways) != 2 or min(map(len, ways)) < LEAST:
        return
    least_ms = sum(min(way) for way in ways) / 1e6
    tally.require(
        min(answers) >= least_ms - ROUNDED_MS,
        f"{cell.label}: an answer after {min(answers):.3f} ms (rtt_ms of traffic.json); the fastest "
        f"datagrams took {least_ms:.3f} ms both ways (ledgers)",
    )
