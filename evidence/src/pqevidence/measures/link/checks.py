"""The link router: in the path where the condition says so, and doing what it says."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

from pqbase.documents import rows_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.measures.link.record import link_problems, sides_of
from pqevidence.record.link_ledger import LINK_LEDGER, read_link_ledger, replay_problems, trace_path
from pqevidence.record.raw import Json
from pqevidence.scenario.conditions import routed, traces_of
from pqlink.errors import LinkError
from pqlink.trace import Trace, parse_trace

#: link.json's direction → the sender whose ledger it is, and the join of that direction
DIRECTIONS = (("up", "drone", "down"), ("down", "gcs", "up"))
#: by which a share of lost probes may be rounded
SHARE_PCT = 0.001
#: what an end itself lost, or sent once more, without the router
STRAY_COUNT, STRAY_SHARE = 20, 0.005
#: chance in the share of losses that fell on datagrams: less often than once in 10^11
DEVIATIONS = 7.0


def achieved(cell: CellView, tally: Tally) -> None:
    """Settings, probes and counts of link.json fit the condition; no datagram was faster than its link."""
    condition = cell.run.condition(str(cell.plan["condition"]))
    if not routed(condition):
        tally.require(cell.raw.link is None, f"{cell.label}: link.json in a cell of the direct path")
        return
    for problem in (*link_problems(cell.raw, condition), *_probe_problems(cell.raw.link)):
        tally.fail(f"{cell.label}: {problem}")
    side = sides_of(condition)["up"]
    changed = any(event.get("kind") == "link" for event in rows_of(condition, "events", []))
    if changed or side.reorder_pct:
        return
    least_ms = side.delay_ms - side.jitter_ms * side.reach
    p50_ms = cell.number("H", "one_way_latency_p50_ms")
    if p50_ms is not None:
        tally.see(p50_ms)
        tally.require(
            p50_ms >= least_ms,
            f"{cell.label}: half of the datagrams took {p50_ms} ms, the link {least_ms:g} or more",
        )


def _probe_problems(link: Json | None) -> list[str]:
    """Shares of lost probes are those of their counts, and lie within their own interval."""
    probes = (link or {}).get("probes") or {}
    udp = probes.get("udp") or {}
    found = []
    for name, told in (("udp up", udp.get("up")), ("udp down", udp.get("down")), ("tcp", probes.get("tcp"))):
        if not isinstance(told, dict) or not told.get("n") or told.get("loss_pct") is None:
            continue
        count, lost = int(told["n"]), int(told["lost"])
        fits = (
            lost == count - int(told["received"]) and abs(told["loss_pct"] - 100 * lost / count) <= SHARE_PCT
        )
        low, high = told.get("loss_low_pct"), told.get("loss_high_pct")
        around = low is None or high is None or low - SHARE_PCT <= told["loss_pct"] <= high + SHARE_PCT
        if not (fits and around):
            found.append(
                f"{name} probes of link.json: {lost} of {count} lost, {told['received']} received, a loss "
                f"of {told['loss_pct']} % ({low} to {high})"
            )
    return found


def replayed(cell: CellView, tally: Tally) -> None:
    """The trace is the one that the scenario names; packet by packet, it gives what the router did."""
    blocks = traces_of(cell.run.condition(str(cell.plan["condition"])))
    if not blocks:
        return
    tally.see()
    traces: dict[str, Trace] = {}
    for way, block in blocks.items():
        path = trace_path(cell.bundle.data, str(block["sha256"]))
        try:
            traces[way] = _trace(path.read_bytes())
        except (OSError, LinkError) as error:
            tally.fail(f"{cell.label}: the {way} trace {path.name[:12]} cannot be read: {error}")
            return
        if traces[way].sha256 != block["sha256"]:
            tally.fail(
                f"{cell.label}: the {way} trace {path.name[:12]} is another file than the scenario names"
            )
            return
    ledger, link = cell.folder / LINK_LEDGER, cell.raw.link
    if link is None or not ledger.is_file():
        tally.fail(f"{cell.label}: there is no {LINK_LEDGER}: nothing shows that the trace was replayed")
        return
    seed = int(cell.plan["seed"])
    tally.require(link["seed"] == seed, f"{cell.label}: link.json says seed {link['seed']}, the plan {seed}")
    sides = sides_of(cell.run.condition(str(cell.plan["condition"])))
    for problem in replay_problems(read_link_ledger(ledger), sides, traces, seed, link["router"]):
        tally.fail(f"{cell.label}: {problem}")


@lru_cache(maxsize=4)
def _trace(content: bytes) -> Trace:
    """Cells of one condition share their traces."""
    return parse_trace(content)


def losses(cell: CellView, tally: Tally) -> None:
    """What the router says it lost is what both ledgers lack: it was offered every datagram, lost at least
    those that are missing, and, where it loses by chance alone, their share of all that it lost."""
    link = cell.raw.link
    if link is None or not link.get("router") or cell.plane.down is None or cell.plane.up is None:
        return
    tally.see()
    events = cell.run.condition(str(cell.plan["condition"])).get("events")
    for direction, sender, name in DIRECTIONS:
        join = cell.plane.down if name == "down" else cell.plane.up
        sent, missing = join.total("sent"), join.total("lost")
        offered, lost, by_chance = _own(link["router"], direction)
        slack = max(STRAY_COUNT, round(STRAY_SHARE * sent))
        where = f"{cell.label} {sender}"
        tally.require(
            offered + slack >= sent,
            f"{where}: {sent} datagrams in ledger.{sender}.csv, the router of link.json was offered "
            f"{offered}",
        )
        most = lost + int(link["router"].get("overflow") or 0)
        tally.require(
            missing <= most + slack,
            f"{where}: {missing} datagrams missing in the ledgers, the router of link.json lost {most}",
        )
        if not by_chance or events or not offered:
            continue
        share = min(1.0, sent / offered)
        due = lost * share
        least = due - DEVIATIONS * sqrt(lost * share * (1 - share) + 1)
        tally.require(
            missing >= least - 5,
            f"{where}: {missing} datagrams missing in the ledgers, of {lost} that the router of "
            "link.json lost "
            f"some {due:.0f} were theirs",
        )


def _own(router: Json, direction: str) -> tuple[int, int, bool]:
    """Offered and lost of both ends' own packets in one direction; was each lost by itself?"""
    counts = router[direction]
    guests = (router.get("guests") or {}).get(direction) or {}
    strange, through = int(guests.get("offered") or 0), int(guests.get("delivered") or 0)
    in_runs = sum(int(counts.get(name) or 0) for name in ("lost_burst", "lost_queue", "lost_trace"))
    lost = int(counts["lost"]) + in_runs
    by_chance = not in_runs and not strange
    return int(counts["offered"]) - strange, max(0, lost - (strange - through)), by_chance
